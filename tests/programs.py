"""Programs that the tests need, and those that they compile."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

_CROSS = "gcc-aarch64-linux-gnu"
_PACKAGES = {
    "aarch64-linux-gnu-gcc": f"{_CROSS} libc6-dev-arm64-cross", "aarch64-linux-gnu-strip": _CROSS, "dwp": "binutils",
    "objcopy": "binutils", "qemu-aarch64": "qemu-user", "strip": "binutils",
}  # fmt: skip
"""Where a package is not called as its program is"""


def need(*programs: str) -> None:
    """Fail, saying what to install: a test that skips would hide that nothing was tested."""
    missing = [program for program in programs if shutil.which(program) is None]
    if missing:
        packages = " ".join(sorted({_PACKAGES.get(program, program) for program in missing}))
        pytest.fail(f"{' and '.join(missing)} not found; type: apt-get install {packages}", pytrace=False)


def compiled(folder: Path, source: str | Path, *flags: str, name: str = "program") -> Path:
    """A program in `folder`, compiled with these flags (-g is not among them), of a file or of a text.

    A text with a namespace in it is C++.
    """
    if isinstance(source, str):
        text, source = source, folder / f"{name}.{'cpp' if 'namespace' in source else 'c'}"
        source.write_text(text)
    compiler = "g++" if source.suffix == ".cpp" else "gcc"
    need(compiler)
    # by its bare name where it lies in the folder: debug information keeps the name as it was given
    given = source.name if source.parent == folder else str(source)
    done = subprocess.run(
        [compiler, *flags, given, "-o", name], cwd=folder, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return folder / name
