"""Measure, and keep what was measured in the table of README.md.

    python -m tests.bench [--peer PYTHON] [NAME ...]

Without names everything is measured (some 40 minutes). Each name has a section of the table, and only the sections of
those that ran to their end are written anew. PYTHON is an interpreter that has torch and transformers.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from datetime import date
from pathlib import Path

import numpy

from tests.bench.figures import ROWS, Figure

README = Path(__file__).with_name("README.md")
ROOT = README.parents[2]
PEER = "PEER"
BENCHES: dict[str, tuple[str, list[str]]] = {
    "traces": ("The trace: writing, opening, checking", []),
    "formats": ("The same steps in other formats", []),
    "tui": ("The view", []),
    "scale": ("Large traces, and many", []),
    "engine": ("The reference engine", []),
    "load": ("Loading a checkpoint", []),
    "native": ("The C engine and `stepscope.h`", []),
    "gdb": ("Under gdb", []),
    "llama": ("llama.cpp", []),
    "diff": ("Two builds", []),
    "io": ("Imports and exports", []),
    "adapters": ("The adapter for transformers", [PEER]),
}
"""name -> what it measures, and what it cannot do without"""


def main() -> int:
    """Run them, one after the other; 1 where one failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(BENCHES))
    parser.add_argument("--peer", metavar="PYTHON", help="an interpreter that has torch and transformers")
    asked = parser.parse_args()
    unknown = set(asked.names) - set(BENCHES)
    if unknown:
        parser.error(f"no such bench: {', '.join(sorted(unknown))}; there are {', '.join(BENCHES)}")
    failed = []
    for name in asked.names or BENCHES:
        title, needs = BENCHES[name]
        if PEER in needs and not asked.peer:
            print(f"== {name}: left out, it needs --peer", flush=True)
            continue
        print(f"== {name}", flush=True)
        rows = run(name, asked.peer)
        if rows is None:
            failed.append(name)
        else:
            write(name, section(name, title, rows))
    if failed:
        print(f"failed, and their sections left as they were: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def run(name: str, peer: str | None) -> list[Figure] | None:
    """The figures of one bench; None where it failed."""
    with tempfile.TemporaryDirectory() as folder:
        rows = Path(folder) / "rows"
        rows.touch()
        python, more = sys.executable, []
        if peer and PEER in BENCHES[name][1]:
            python = peer
        elif peer and name == "engine":
            more = ["--peer", peer]
        command = [python, "-m", f"tests.bench.bench_{name}", *more]
        done = subprocess.run(command, cwd=ROOT, env={**os.environ, ROWS: str(rows)})
        if done.returncode:
            return None
        return [Figure(*json.loads(line)) for line in rows.read_text().splitlines()]


def section(name: str, title: str, rows: list[Figure]) -> str:
    """A heading, what it was measured on, and a row a figure."""
    lines = [f"### {title}", "", f"`python -m tests.bench {name}`, {date.today()}, {machine()}", ""]
    lines += ["| what | measured | goal |", "|---|---|---|"]
    for row in rows:
        what = "&emsp;" * row.what.startswith(" ") + row.what.strip()  # a row that goes with the one before
        lines.append(f"| {what} | {row.measured} | {row.goal} |")
    return "\n".join(lines)


def machine() -> str:
    """The processor, and how busy it was at the end."""
    model = platform.machine()
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = " ".join(line.partition(":")[2].split())
            break
    cores, load = len(os.sched_getaffinity(0)), os.getloadavg()[0]
    return f"{model}, {cores} cores, load {load:.1f}, Python {platform.python_version()}, numpy {numpy.__version__}"


def write(name: str, text: str) -> None:
    """Put a section between its marks."""
    page = README.read_text(encoding="utf-8")
    start, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
    before, rest = page.split(start)
    after = rest.split(end)[1]
    README.write_text(before + start + text + "\n" + end + after, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
