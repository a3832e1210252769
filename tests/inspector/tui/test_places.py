"""Places in a trace, replay times, saved steps and keys of one's own: what the keys of the view stand on."""

from __future__ import annotations

import csv
import io
import itertools
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inspector.cli import UsageError
from inspector.tui import keys, save
from inspector.tui.keymap import own_keys
from inspector.tui.panels import times
from inspector.tui.places import next_mark, selection, step_of
from inspector.tui.replay import Playhead, lengths
from inspector.tui.sample import take
from tests.inspector.tui.small_traces import damage, letters, run_facts, tokens
from traces.fields import ABSENT_U64
from traces.table import Table
from traces.writer import TraceWriter


@pytest.mark.parametrize(
    ("line", "step"),
    [
        ("12", 12), ("0", 0), ("-1", 99), ("-100", 0), ("-500", 0), ("1,234", 1234), ("50%", 49), ("100%", 99),
        ("900%", 99), (" 7 ", 7), ("", None), ("x", None), ("-5%", None), ("1.5", None), ("²", None),
    ],
)  # fmt: skip
def test_a_step_by_number_from_the_end_and_by_share(line: str, step: int | None) -> None:
    assert step_of(line, 100) == step


def test_marks_go_round_and_select_from_the_last_one() -> None:
    assert [next_mark([5, 2, 9], at) for at in (0, 2, 5, 9)] == [2, 5, 9, 2]
    assert next_mark([], 3) is None
    assert selection([], 4, 10) == (4, 5)
    assert selection([2, 7], 4, 10) == (4, 8)
    assert selection([7, 2], 4, 10) == (2, 5)


def timed(path: Path, t_ns: list[int | None], total_ms: list[float | None]) -> Table:
    """A decode step for each pair."""
    with TraceWriter(path, run_facts()) as writer:
        for began, total in zip(t_ns, total_ms, strict=True):
            writer.step(phase="decode", seq_id=0, token_id=5, n_tokens=1, cache_len=[1] * 4, total_ms=total,
                        t_ns=ABSENT_U64 if began is None else began)  # fmt: skip
    return Table(path)


def test_a_step_lasts_until_the_next_began_or_as_long_as_it_says(tmp_path: Path) -> None:
    table = timed(tmp_path / "a.steps", [0, 2 * 10**9, 10**9, None, None], [1.0, 20.0, None, 30.0, None])
    # 2 s to the next; backwards, so its own 20 ms; no next time and no own: 0.1 s; 30 ms; 0.1 s
    assert lengths(table, 0, 5).tolist() == pytest.approx([2.0, 0.02, 0.1, 0.03, 0.1])


@pytest.mark.parametrize("last", [2_001_600, 2_000_000, 90_000_000])
def test_no_two_bins_of_the_histogram_have_one_name(tmp_path: Path, last: int) -> None:
    """Gaps of 2 ms, a hundred ns apart, all the same, or with one far off: labels tell the bins apart."""
    gaps = [2_000_000 + (last > 2_000_000) * 100 * i for i in range(16)] + [last]
    table = timed(tmp_path / "a.steps", [sum(gaps[:i]) for i in range(18)], [1.0] * 18)
    page = times.histogram(take(table, table.runs[0], table.steps), 80, 24)
    labels = ["".join(text for text, _ in line).split(" ms")[0].strip() for line in page.lines]
    bins = [[float(end) for end in label.split("–")] for label in labels if "–" in label]
    assert all(low < high for low, high in bins)
    assert all(before[1] == after[0] for before, after in itertools.pairwise(bins))


def test_a_replay_reaches_each_step_when_it_was_recorded(tmp_path: Path) -> None:
    table = timed(tmp_path / "a.steps", [0, 10**9, 15 * 10**8, 40 * 10**8], [None] * 4)
    playhead = Playhead(at=0, now=100.0)
    reached = [playhead.move(table, 4, 100.0 + after) for after in (0.0, 0.9, 1.0, 1.4, 1.5, 3.9, 4.0, 99.0)]
    assert reached == [0, 0, 1, 1, 2, 2, 3, 3]
    fast = Playhead(at=1, now=0.0, speed=10)
    assert [fast.move(table, 4, now) for now in (0.04, 0.05, 0.29, 0.3)] == [1, 2, 2, 3]


def test_a_replay_goes_on_past_what_was_read_ahead_and_into_another_run(tmp_path: Path) -> None:
    """9,000 steps of a ms, more than are read at once; then a run whose clock begins anew."""
    path = tmp_path / "a.steps"
    with TraceWriter(path, run_facts(), flush="interval") as writer:
        for run in range(2):
            for i in range(9000 if run == 0 else 3):
                writer.step(phase="decode", seq_id=0, token_id=5, n_tokens=1, cache_len=[1] * 4, t_ns=i * 10**6)
            if run == 0:
                writer.start_run(run_facts())
    playhead = Playhead(at=0, now=0.0)
    moments = [0.5, 4.095, 4.096, 4.5, 8.2, 8.998, 8.999, 9.098, 9.099, 9.1, 9.101, 99.0]
    # the last step of the first run lasts a tenth of a second, for nothing says how long it took
    expected = [500, 4095, 4096, 4500, 8200, 8998, 8999, 8999, 9000, 9001, 9002, 9002]
    assert [playhead.move(Table(path), 9003, now + 5e-4) for now in moments] == expected


@given(st.lists(st.integers(0, 50), min_size=2, max_size=40), st.lists(st.integers(0, 400), min_size=1, max_size=8))
def test_a_replay_is_where_a_plain_sum_says(
    tmp_path_factory: pytest.TempPathFactory, gaps: list[int], ticks: list[int]
) -> None:
    began = [sum(gaps[:i]) for i in range(len(gaps))]
    path = tmp_path_factory.mktemp("replay") / "a.steps"
    table = timed(path, [at * 2**30 for at in began], [None] * len(gaps))
    playhead = Playhead(at=0, now=0.0, speed=1.0)
    now = 0.0
    for tick in sorted(ticks):
        now = tick * 2**30 / 1e9 + 1e-6
        reached = playhead.move(table, len(gaps), now)
        assert reached == max(i for i, at in enumerate(began) if at * 2**30 / 1e9 <= now)


def test_steps_as_csv_have_a_column_a_layer(tmp_path: Path) -> None:
    table = Table(letters(tmp_path / "a.steps"))
    out = io.StringIO()
    save.write_csv(table, 1, 4, {2: "a long one"}, out, lambda done: True)
    rows = list(csv.DictReader(io.StringIO(out.getvalue())))
    assert [row["step"] for row in rows] == ["1", "2", "3"]
    assert rows[0]["token_id"] == "64" and rows[0]["cache_len[3]"] == "26" and rows[0]["gemm_ms[1]"] == "2.0"
    assert [row["text"] for row in rows] == ["a", "a long one", "c"]
    assert rows[0]["finish"] == ""


def test_steps_as_json_are_what_show_prints(tmp_path: Path) -> None:
    table = Table(damage(letters(tmp_path / "a.steps"), step=4))
    out = io.StringIO()
    save.write_json(table, 3, 6, {}, out, lambda done: True)
    found = json.loads(out.getvalue())
    assert found["run"]["model"]["name"] == "letters"
    assert [step["step"] for step in found["steps"]] == [3, 5]  # step 4 is damaged
    assert found["steps"][0]["cache_len"] == [28] * 4
    assert json.loads(save.as_json(table, 3, {})) == found["steps"][0]


def test_steps_as_text_are_lines_of_the_film(tmp_path: Path) -> None:
    lines = save.as_text(Table(letters(tmp_path / "a.steps")), 0, 3, {}).splitlines()
    assert lines[0].split()[:4] == ["step", "phase", "token", "text"]
    assert [line.split()[0] for line in lines[1:]] == ["0", "1", "2"]


def test_saving_never_takes_a_name_that_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert save.new_file("/some/where/run.steps", 3, 9, "csv") == "run-3-8.csv"
    Path("run-3-8.csv").touch()
    assert save.new_file("run.steps", 3, 9, "csv") == "run-3-8-2.csv"
    assert save.new_file("run.steps", 3, 4, "json") == "run-3.json"


def test_what_is_given_up_or_fails_is_not_left_behind(tmp_path: Path) -> None:
    table = Table(tokens(tmp_path / "a.steps", [b"x"] * 10))
    path = tmp_path / "out.csv"
    words = save.to_file(str(path), lambda out: save.write_csv(table, 0, 10, {}, out, lambda done: False))
    assert words.startswith("gave up") and not path.exists()
    path.write_text("mine")
    words = save.to_file(str(path), lambda out: None)
    assert words.startswith("cannot save") and path.read_text() == "mine"


def file_of_keys(folder: Path, text: str) -> Path:
    """A file of keys."""
    path = folder / "keys.toml"
    path.write_text(text)
    return path


def test_keys_of_ones_own_replace_the_default_ones(tmp_path: Path) -> None:
    path = file_of_keys(tmp_path, 'film.up = "w"\nfilm.down = "s, f5"\n"rules.next" = "ctrl+r"\n')
    own = own_keys(keys.default_keys(), path)
    assert own == {"film.up": "w", "film.down": "s,f5", "rules.next": "ctrl+r"}
    assert own_keys(keys.default_keys(), tmp_path / "none.toml") == {}


def test_two_actions_may_change_their_keys(tmp_path: Path) -> None:
    assert own_keys(keys.default_keys(), file_of_keys(tmp_path, 'rules.next = "N"\nrules.previous = "n"\n'))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('film.upp = "w"', "no action is called 'film.upp'"), ("film.up = 3", "3 is no key"),
        ('film.up = ""', "'' is no key"), ('film.up = "ctrl-w"', "'ctrl-w' is no key"), ('film.up = "w" "x"', "line 1"),
        ('film.up = "j"', "j would mean both film.up and film.down"), ('film = "w"', "no action is called 'film'"),
    ],
)  # fmt: skip
def test_a_file_of_keys_that_cannot_be_used_is_one_line(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(UsageError) as refused:
        own_keys(keys.default_keys(), file_of_keys(tmp_path, text))
    assert complaint in str(refused.value) and "keys.toml" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_no_two_default_keys_clash_and_every_action_has_a_name() -> None:
    assert own_keys(keys.default_keys(), Path("/dev/null")) == {}
    assert all(binding.id for binding in (*keys.MAIN, *keys.HELP, *keys.SAVE))
