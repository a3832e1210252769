"""What gdb loads is Python 3.8 and needs nothing but the standard library: a board's gdb has no packages."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOADED = [ROOT / "traces" / f"{name}.py"
          for name in ("__init__", "fields", "frames", "writer", "reader", "rules", "context", "check")]  # fmt: skip
LOADED += sorted((ROOT / "gdb_scripts").rglob("*.py"))
LOADING = """
import importlib, sys
root, *names = sys.argv[1:]
sys.path.insert(0, root)
for name in names:
    try:
        importlib.import_module(name)
        print(name)
    except ModuleNotFoundError as missing:
        assert missing.name == "gdb", missing
"""
ALLOWED = set(sys.stdlib_module_names) | {"gdb", "traces", "gdb_scripts"}


@pytest.mark.parametrize("path", LOADED, ids=lambda p: str(p.relative_to(ROOT)))
def test_parses_as_python_3_8_and_imports_only_the_standard_library(path: Path) -> None:
    tree = ast.parse(path.read_text(), str(path), feature_version=(3, 8))
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [node.module or ""]
        for name in names:
            assert name.split(".")[0] in ALLOWED, f"{path.name}:{node.lineno} imports {name}"


def test_they_load_without_any_installed_package() -> None:
    """Those that need gdb itself stop at it and at nothing else."""
    names = [".".join(path.relative_to(ROOT).with_suffix("").parts).replace(".__init__", "") for path in LOADED]
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", LOADING, str(ROOT), *names], check=True, capture_output=True, text=True
    )
    loaded = done.stdout.split()
    assert {"traces.check", "traces.writer", "gdb_scripts.session", "gdb_scripts.probe"} <= set(loaded)
    assert "gdb_scripts.host" not in loaded
