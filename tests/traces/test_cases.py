"""Small traces built from public bug reports, each with a known answer: `NAME.jsonl` and `NAME.expect.json`.

`fails`: code -> every step where the rule fails; `may_fail`: steps where either verdict is right; `unknown_ok`: codes
whose fields the trace lacks; `must_be_unknown`; every other code must pass.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from inspector import cli
from tests.traces.judging import step_by_step
from traces.importers.jsonl import import_jsonl

CASES = sorted((Path(__file__).parent / "cases").glob("*.jsonl"))


def expected(case: Path) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(case.with_suffix("").with_suffix(".expect.json").read_text())
    return answer


def assert_verdicts(rules: dict[str, Any], answer: dict[str, Any]) -> None:
    for code, result in rules.items():
        seen = {failure["step"] for failure in result["failures"]}
        must = set(answer["fails"].get(code, []))
        may = set(answer.get("may_fail", {}).get(code, []))
        assert must <= seen <= must | may, f"{code} fails at {sorted(seen)}, expected {sorted(must)}"
        if must:
            assert result["verdict"] == "fail", code
        elif code in answer.get("must_be_unknown", []):
            assert result["verdict"] == "unknown", code
        elif not seen and code not in answer.get("unknown_ok", []):
            assert result["verdict"] == "pass", f"{code}: {result['why_unknown']}"


def test_there_are_cases() -> None:
    assert len(CASES) == 38


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.stem)
def test_check_gives_the_known_answer(case: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = tmp_path / "a.steps"
    assert cli.main(["import", "jsonl", str(case), "-o", str(trace)]) == 0
    answer = expected(case)
    capsys.readouterr()
    code = cli.main(["check", str(trace), "--json", "--all"])
    verdicts = json.loads(capsys.readouterr().out)
    assert_verdicts(verdicts["rules"], answer)
    assert code == (1 if answer["fails"] else 0)
    assert verdicts["verdict"] == ("fail" if answer["fails"] else "pass")
    assert verdicts["complete"]


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.stem)
def test_step_by_step_gives_the_known_answer(case: Path, tmp_path: Path) -> None:
    trace = tmp_path / "a.steps"
    import_jsonl(case, trace)
    assert_verdicts(step_by_step(trace)["rules"], expected(case))


def test_the_words_of_a_failure(capsys: pytest.CaptureFixture[str]) -> None:
    case = next(c for c in CASES if c.stem == "fail_kv03_plus_one_not_accepted")
    assert cli.main(["check", str(case)]) == 1
    assert "KV03 step 1 seq 0: grew by 1, fed 6 with 3 accepted: expected 4" in capsys.readouterr().out
