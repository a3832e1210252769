"""A folder of repeated runs: two builds' runs interleaved, A B A B, so that a drift of the machine meets both.

`record` fills one, `sides_of` finds the traces that `stepscope diff` was given, in such folders or by name. `set.json`
in the folder says which trace is of which side and what was run.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

from inspector.cli import UsageError
from traces.writer import TraceError

FORMAT = "stepscope-set"
PLACEHOLDER = "{trace}"
VARIABLE = "STEPSCOPE_TRACE"
SIDES = ("base", "new")
_INDEX = "set.json"
_ENDINGS = (".steps", ".jsonl")
_TAIL = 2000


# -- recording ---------------------------------------------------------------------------------------------------------


def record(
    folder: str, commands: dict[str, list[str]], n: int, warm_up: bool, tell: Callable[[str], None]
) -> list[str]:
    """Run each side's command n times, in turn, each into a trace of its own; the traces' paths.

    With `warm_up` each command runs once before, and that trace is not kept. Raises UsageError for a folder that is
    not empty, and for a command that fails or leaves no trace. Whatever stops it, the runs that ended until then stay,
    and set.json names them.
    """
    _expect_new(folder)
    os.makedirs(folder, exist_ok=True)
    if warm_up:
        for side, words in commands.items():
            tell(f"warm-up of {side}")
            with tempfile.TemporaryDirectory(prefix="stepscope-warm-up-") as elsewhere:
                _run(words, os.path.join(elsewhere, f"{side}.steps"), f"warm-up of {side}")
    index: dict[str, Any] = {"format": FORMAT, "version": 1, "commands": commands, "runs": []}
    _write(folder, index)
    paths = []
    for number in range(1, n + 1):
        for side, words in commands.items():
            tell(f"run {number} of {n}, {side}")
            path = os.path.join(folder, f"{side}-{number:0{len(str(n))}}.steps")
            began = time.monotonic()
            _run(words, path, f"run {number} of {side}")
            paths.append(path)
            index["runs"].append(
                {"side": side, "trace": os.path.basename(path), "seconds": round(time.monotonic() - began, 3)}
            )
            _write(folder, index)
    return paths


def _expect_new(folder: str) -> None:
    if os.path.isdir(folder) and os.listdir(folder):
        raise UsageError(f"{folder}: is not empty; name a new folder with -o")
    if os.path.lexists(folder) and not os.path.isdir(folder):
        raise UsageError(f"{folder}: is not a folder; name a new one with -o")


def _write(folder: str, index: dict[str, Any]) -> None:
    with open(os.path.join(folder, _INDEX), "w", encoding="utf-8") as file:
        json.dump(index, file, indent=1)
        file.write("\n")


def with_trace(words: list[str], path: str) -> list[str]:
    """The command with the trace's path where it belongs: for {trace}; else `stepscope run` is given -o."""
    if any(PLACEHOLDER in word for word in words):
        return [word.replace(PLACEHOLDER, path) for word in words]
    if os.path.basename(words[0]) == "stepscope" and words[1:2] == ["run"]:
        return [*words, "-o", path]
    return words


def _run(words: list[str], path: str, what: str) -> None:
    from inspector.load import open_trace

    with tempfile.TemporaryFile() as complained:
        try:
            done = subprocess.run(
                with_trace(words, path),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=complained,
                env=os.environ | {VARIABLE: path},
            )
        except OSError as error:
            raise UsageError(f"{what}: cannot start {words[0]}: {error.strerror or error}") from None
        if done.returncode:
            raise UsageError(f"{what}: {words[0]} ended {_ended(done.returncode)}{_tail_of(complained)}")
    if not os.path.exists(path):
        raise UsageError(
            f"{what}: {words[0]} left no trace; put {PLACEHOLDER} where it takes the trace's path (it is in "
            f"${VARIABLE} too)"
        )
    try:
        open_trace(path).close()
    except TraceError as error:
        raise UsageError(f"{what}: {error}") from None


def _ended(code: int) -> str:
    return f"with exit code {code}" if code > 0 else f"by signal {-code}"


def _tail_of(complained: Any) -> str:
    """What it said last, in one line."""
    size = complained.seek(0, os.SEEK_END)
    complained.seek(max(0, size - _TAIL))
    said = complained.read().decode("utf-8", "replace").strip().splitlines()
    return f": {' / '.join(line.strip() for line in said[-3:])}" if said else ""


# -- reading -----------------------------------------------------------------------------------------------------------


def sides_of(base: list[str], new: list[str]) -> tuple[list[str], list[str], tuple[str | None, str | None]]:
    """(the base's traces, the new build's, their programs where a folder names them and they are ELF files).

    Raises UsageError where no other side is given, or a folder holds none or both.
    """
    if not new:
        index = _index(base[0]) if len(base) == 1 and os.path.isdir(base[0]) else None
        if index is None or any(not _of_side(base[0], index, side) for side in SIDES):
            raise UsageError("name the other build's runs with --against (a folder with both sides needs none)")
        found = {side: _of_side(base[0], index, side) for side in SIDES}
        return found["base"], found["new"], (_program(index, "base"), _program(index, "new"))
    sides = [[path for word in words for path in _expanded(word)] for words in (base, new)]
    programs = [_only_program(words) for words in (base, new)]
    return sides[0], sides[1], (programs[0], programs[1])


def _expanded(word: str) -> Iterator[str]:
    if not os.path.isdir(word):
        yield word
        return
    index = _index(word)
    if index is None:
        found = sorted(os.path.join(word, name) for name in os.listdir(word) if name.endswith(_ENDINGS))
    else:
        sides = [traces for traces in (_of_side(word, index, side) for side in SIDES) if traces]
        if len(sides) > 1:
            raise UsageError(f"{word}: holds both sides; give it alone, without --against")
        found = sides[0] if sides else []
    if not found:
        raise UsageError(f"{word}: holds no traces (*.steps, *.jsonl); name the traces, or another folder")
    yield from found


def _index(folder: str) -> dict[str, Any] | None:
    """What set.json says; None where there is none. Raises UsageError where it is not one."""
    path = os.path.join(folder, _INDEX)
    try:
        with open(path, encoding="utf-8") as file:
            value = json.load(file)
    except FileNotFoundError:
        return None
    except (ValueError, RecursionError):
        raise UsageError(f"{path}: is not JSON; name the traces instead of the folder") from None
    runs = value.get("runs") if isinstance(value, dict) and value.get("format") == FORMAT else None
    if not isinstance(runs, list) or not all(isinstance(r, dict) and isinstance(r.get("trace"), str) for r in runs):
        raise UsageError(f"{path}: was not written by record-set; name the traces instead of the folder")
    return dict(value)


def _of_side(folder: str, index: dict[str, Any], side: str) -> list[str]:
    return [os.path.join(folder, run["trace"]) for run in index["runs"] if run.get("side") == side]


def _only_program(words: list[str]) -> str | None:
    if len(words) != 1 or not os.path.isdir(words[0]):
        return None
    index = _index(words[0])
    programs = [_program(index, side) for side in SIDES] if index is not None else []
    return next((program for program in programs if program is not None), None)


def _program(index: dict[str, Any], side: str) -> str | None:
    """The program that made a side, where it is an ELF file and still there."""
    commands = index.get("commands")
    words = commands.get(side) if isinstance(commands, dict) else None
    path = shutil.which(words[0]) if isinstance(words, list) and words and isinstance(words[0], str) else None
    if path is None:
        return None
    with open(path, "rb") as file:
        return path if file.read(4) == b"\x7fELF" else None
