"""The house rules that a tool can check: which room may import which, and what every user-facing page promises."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# inspector -> engine -> traces; gdb_scripts -> traces
MAY_IMPORT = {
    "traces": set(),
    "engine": {"traces"},
    "gdb_scripts": {"traces"},
    "inspector": {"traces", "engine", "gdb_scripts"},
}


@pytest.mark.parametrize("room", MAY_IMPORT)
def test_arrows_go_one_way(room: str) -> None:
    for path in sorted((ROOT / room).rglob("*.py")):
        if "samples" in path.parts:
            continue  # a script that makes sample traces, not a part of the room
        for node in ast.walk(ast.parse(path.read_text(), str(path))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [node.module or ""]
            for name in names:
                other = name.split(".")[0]
                if other in MAY_IMPORT and other != room:
                    assert other in MAY_IMPORT[room], f"{path.relative_to(ROOT)}:{node.lineno} imports {name}"


def test_only_the_command_line_imports_a_verb() -> None:
    for path in sorted((ROOT / "inspector").rglob("*.py")):
        if "commands" not in path.parts and path.name != "cli.py":
            assert "inspector.commands" not in path.read_text(), path.relative_to(ROOT)


def test_recording_needs_only_the_standard_library() -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); import traces\n"
        "with traces.record(sys.argv[1], n_layers=1) as t: t.step(n_tokens=1, seq_before=0, seq_len=1, cache_len=[1])"
    )
    subprocess.run([sys.executable, "-I", "-S", "-c", code, "/dev/null"], check=True)


def test_the_model_of_the_tui_knows_no_textual() -> None:
    source = (ROOT / "inspector" / "tui" / "model.py").read_text()
    assert "textual" not in source


def test_ci_runs_exactly_the_test_command_of_the_readme() -> None:
    readme = (ROOT / "README.md").read_text()
    assert "```\n$ make test\n```" in readme
    commands = [line for line in (ROOT / ".ci" / "run").read_text().splitlines() if line and not line.startswith("#")]
    assert commands[-1] == "exec make test"
