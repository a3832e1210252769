"""The keys of `--json` that docs/reference.md promises are those that come: none is missing, none is left untold."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from inspector import cli
from tests.command_line import SAMPLE
from tests.docs.pages import ROOT, blocks
from tests.engine.native.conftest import built
from tests.traces.known_pairs import known_pair

OPEN = "…"
"""As a key: what else is in an object is not told"""
_PIECES = re.compile(r'"[^"]*"|[{}\[\]:,]|[^\s{}\[\]:,"]+')


def told() -> dict[str, Any]:
    """For each verb the object that the page shows of it, with None for what has no keys."""
    (page,) = (block.text for block in blocks(ROOT / "docs" / "reference.md") if block.text.startswith("check "))
    shown = re.findall(r"^(\w+(?: \w+)?) +(?=[\[{])(.*?)(?=^\w|\Z)", page, re.MULTILINE | re.DOTALL)
    return {verb: _value(_PIECES.findall(text)) for verb, text in shown}


def _value(pieces: list[str]) -> Any:
    first = pieces.pop(0)
    if first == "[":
        value = _value(pieces)
        while pieces.pop(0) != "]":
            pass
        return [value]
    if first != "{":
        return None
    found: dict[str, Any] = {}
    while pieces[0] != "}":
        name = pieces.pop(0).strip('"')
        found[name] = _value(pieces) if pieces[0] == ":" and pieces.pop(0) else None
        if pieces[0] == ",":
            pieces.pop(0)
    pieces.pop(0)
    return found


def unlike(promised: Any, came: Any, where: str) -> list[str]:
    """Where the keys are others. What came as null, or as an empty list, says nothing."""
    if isinstance(promised, list) and isinstance(came, list):
        return [line for one in came for line in unlike(promised[0], one, f"{where}[]")]
    if not isinstance(promised, dict) or not isinstance(came, dict):
        return []
    missing = {name for name in promised if name != OPEN} - set(came)
    more = set() if OPEN in promised else set(came) - set(promised)
    found = [f"{where}: {sorted(names)} {how}" for names, how in ((missing, "missing"), (more, "untold")) if names]
    for name in set(promised) & set(came):
        found += unlike(promised[name], came[name], f"{where}.{name}")
    return found


def test_the_page_is_read_as_it_is_meant() -> None:
    assert list(told()) == ["check", "show", "stats", "diff", "floor", "rule", "probe list", "probe verify"]
    assert _value(_PIECES.findall('{"a":"x|y","b":[{"c",…}],"d":{"e":[n,m]}}')) == {
        "a": None, "b": [{"c": None, OPEN: None}], "d": {"e": [None]},
    }  # fmt: skip
    assert unlike({"a": [{"b": None}]}, {"a": [{"b": 1}, {"c": 1}], "d": 1}, "x") == [
        "x: ['d'] untold", "x.a[]: ['b'] missing", "x.a[]: ['c'] untold",
    ]  # fmt: skip


def test_the_keys_that_are_told_are_those_that_come(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = {name: str(tmp_path / f"{name}.steps") for name in ("cached", "naive", "speculative")}
    for loop, path in runs.items():
        words = [
            "run",
            "--prompt-ids",
            "64,317,302,64,317",
            "--ignore-eos",
            "--max-new-tokens",
            "130" if loop == "cached" else "20",
        ]
        cli.main([*words, "--loop", loop, "-o", path])
    commands = [
        *(["stats", path] for path in runs.values()), ["check", str(SAMPLE)], ["show", str(SAMPLE)],
        ["floor", "--bandwidth", "10GB/s"], ["rule", "KV01"], ["probe", "list"],
        ["probe", "verify", str(built("O2")), "native"], ["diff", str(SAMPLE), "--against", runs["cached"]],
    ]  # fmt: skip
    for name in ("exact_tie", "repeat_prompt_not_cached"):
        base, new = known_pair(name, tmp_path)
        commands.append(["diff", *map(str, base), "--against", *map(str, new)])
    wrong = list[str]()
    for words in commands:
        capsys.readouterr()
        cli.main([*words, "--json"])
        came = json.loads(capsys.readouterr().out)
        verb = " ".join(words[:2]) if words[0] == "probe" else words[0]
        promised = told()
        if verb == "check":  # the page shows one of the rules
            came["rules"] = {"KV03": came["rules"]["KV03"], "KV01": came["rules"]["KV01"]}
            promised[verb]["rules"]["KV01"] = promised[verb]["rules"]["KV03"]
        if verb == "diff":  # it shows one of the sides
            first = promised[verb]["tokens"]["first_divergence"]
            first["new"] = first["base"]
        if verb == "stats" and came["naive"]:
            promised[verb]["by_context"][0] |= {"recomputed_rows": None, "scores": None}
        wrong += unlike(promised[verb], came, verb)
    assert wrong == []
