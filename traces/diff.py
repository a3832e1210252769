"""Two builds compared: may they be, where do their tokens part, which state and which layer first, and is one faster.

Each answer stands by itself and may be "cannot-decide" with a reason. Several runs a side are one build's runs: their
times are compared as samples; their tokens should agree among themselves, and where they do not, that is said.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from typing import Any

from traces.check import Checker, Report
from traces.columnar import check_chunk
from traces.outputs import KEPT, Request, requests_of
from traces.paired import (
    FINGERPRINTS,
    Alignment,
    Choice,
    Divergence,
    LayerDifference,
    Pairs,
    StateDifference,
    align,
    beside,
    divergence,
    fingerprint_of,
    length_differences,
    parts_at,
    request_differences,
    step_pairs,
)
from traces.run_columns import RunColumns
from traces.table import Chunk, Run, Table
from traces.timing import MIN_EFFECT, TimedRun, TimeLine, Timing, compare_times, is_total

SAME, DIFFERS, UNDECIDED = "same", "differs", "cannot-decide"
ANSWERS = ("tokens", "state", "layers", "time")

# what may differ between two runs, and which answers such a difference takes away
_FACTS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("model.name", ()),
    ("model.weights_sha256", ("tokens", "state", "layers")),
    *((f"model.{name}", ANSWERS) for name in ("n_layers", "n_heads", "n_kv_heads", "head_dim", "vocab_size")),
    ("model.tokenizer_size", ()),
    ("layers", ()),
    ("sampler", ("tokens", "state", "layers")),
    ("stop", ("lengths",)),
    ("draft", ()),
    ("loop", ("state",)),
    ("kv.dtype", ("layers",)),
    ("kv.capacity", ()),
    ("kv.paged", ()),
    ("host.machine", ("time",)),
    ("host.cpu", ("time",)),
    ("host.threads", ()),
    *((f"engine.{name}", ()) for name in ("name", "version", "build_id", "commit", "compiler", "flags", "binary")),
)

# a sampler's settings where they do nothing: some engines say so, others leave them out
_OFF = {"top_k": 0, "top_p": 1, "min_p": 0, "repetition_penalty": 1}


@dataclass(frozen=True)
class Contrast:
    """A fact that differs between the sides, or forbids an answer on both. forbids: of "tokens", "state", "layers",
    "time" and "lengths" (how long an output is says nothing then)."""

    field: str
    base: Any
    new: Any
    forbids: tuple[str, ...]


@dataclass(frozen=True)
class RuleContrast:
    """A rule whose verdict differs; message: the first failure of the side that fails, else empty."""

    code: str
    base: str
    new: str
    message: str


@dataclass(frozen=True)
class Diff:
    """Everything that comparing two builds tells. verdicts: answer -> same, differs or cannot-decide; why: answer ->
    the reason of a cannot-decide. alignments, first: of the pair of runs in `pair` (numbers within the sides)."""

    verdicts: dict[str, str]
    why: dict[str, str]
    comparable: list[Contrast]
    pair: tuple[int, int]
    alignments: list[Alignment]
    first: Divergence | None
    layer: LayerDifference | None
    state: list[StateDifference]
    rules: list[RuleContrast]
    timing: Timing
    notes: list[str]

    @property
    def compared(self) -> int:
        """Output tokens that were compared: those that agree, and the one that does not."""
        parted = self.first is not None and None not in (self.first.base.token_id, self.first.new.token_id)
        return sum(a.agreed - a.unknown for a in self.alignments) + parted

    def verdict(self, fail_on: Iterable[str]) -> str:
        """Over the answers named: differs if one does, else cannot-decide if one cannot, else same. "slower" is
        "time" where only slower counts."""
        verdicts = {self.slower if name == "slower" else self.verdicts[name] for name in fail_on}
        return next((v for v in (DIFFERS, UNDECIDED) if v in verdicts), SAME)

    @property
    def slower(self) -> str:
        """The verdict on time where being faster is no difference."""
        if any(t.judgement.verdict == "slower" for t in self.timing.lines):
            return DIFFERS
        return UNDECIDED if self.verdicts["time"] == UNDECIDED else SAME


@dataclass(frozen=True)
class _Loaded:
    """One run of a side: what has been read of it."""

    name: str
    table: Table
    columns: RunColumns
    report: Report
    requests: list[Request]


def compare(
    base: Sequence[tuple[str, Table]], new: Sequence[tuple[str, Table]], min_effect: float = MIN_EFFECT
) -> Diff:
    """Compare the runs of one build with those of another; a file with several runs brings each of them.

    base, new: (name, trace). min_effect: the smallest change of a time that counts, 0.03 is 3 %.
    """
    with ThreadPoolExecutor(2) as pool:  # numpy and zlib do the work, and let another thread do its own
        sides = list(pool.map(_load_side, (base, new)))
    contrasts = comparable(*(side[0].columns.run.facts for side in sides)) + _prompts(*(side[0] for side in sides))
    forbidden = {answer: c.field for c in reversed(contrasts) for answer in c.forbids}
    lengths_count = "lengths" not in forbidden
    pair, wavering = _choose_pair(sides[0], sides[1], lengths_count)
    a, b = sides[0][pair[0]], sides[1][pair[1]]
    alignments = align(a.requests, b.requests)
    tables, runs = (a.table, b.table), (a.columns, b.columns)
    pairs = step_pairs(runs, alignments)
    seen = beside(tables, runs, [(x, y) for x, y, _ in pairs], "layers" not in forbidden)
    layer = min((found for found, _ in seen if found is not None), key=lambda f: f.step, default=None)
    first = divergence(*runs, alignments, pairs, lengths_count, layer)
    state = _states(runs, alignments, pairs, [rows for _, rows in seen], lengths_count)
    rules = _rules(sides)
    timing = Timing([], []) if "time" in forbidden else compare_times(_timed(sides[0]), _timed(sides[1]), min_effect)
    answers = {
        "tokens": _token_answer(a, b, alignments, first, wavering),
        "state": _state_answer(a, b, alignments, state, rules),
        "layers": _layer_answer(a, b, alignments, layer, pairs),
        "time": _time_answer(timing, runs),
    }
    for answer in ANSWERS:
        if answer in forbidden:
            answers[answer] = (UNDECIDED, f"{forbidden[answer]} forbids it")
    verdicts = {answer: verdict for answer, (verdict, _) in answers.items()}
    why = {answer: reason for answer, (_, reason) in answers.items() if reason}
    notes = wavering + _mixed(sides) + timing.notes
    first = None if first is None else _with_text(first, tables)
    return Diff(verdicts, why, contrasts, pair, alignments, first, layer, state, rules, timing, notes)


def _load_side(side: Sequence[tuple[str, Table]]) -> list[_Loaded]:
    return [_load(name, table, run) for name, table in side for run in table.runs]


def _load(name: str, table: Table, run: Run) -> _Loaded:
    if len(table.runs) > 1:
        name = f"{name} run {table.runs.index(run) + 1}"
    checker = Checker()
    checker.start_run(run.facts)
    columns = RunColumns(run, _judged(checker, table.chunks_of(run)), KEPT)
    return _Loaded(name, table, columns, checker.report, requests_of(columns, table, run.end_facts is not None))


def _judged(checker: Checker, chunks: Iterable[Chunk]) -> Iterator[Chunk]:
    """The chunks, judged on their way: a trace is read once for both."""
    for chunk in chunks:
        check_chunk(checker, chunk)
        yield chunk


def _timed(side: list[_Loaded]) -> list[TimedRun]:
    return [TimedRun(run.name, run.table, run.columns) for run in side]


# -- comparable? -------------------------------------------------------------------------------------------------------


def comparable(base: dict[str, Any], new: dict[str, Any]) -> list[Contrast]:
    """Facts of two RUN objects that differ where both are known, and clocks that measure nothing."""
    out = []
    for field, forbids in _FACTS:
        x, y = _fact(base, field), _fact(new, field)
        if x is not None and y is not None and x != y:
            out.append(Contrast(field, x, y, forbids))
    clocks = base.get("clock"), new.get("clock")
    if any(clock in ("debugger", "none") for clock in clocks) or None not in clocks and clocks[0] != clocks[1]:
        out.append(Contrast("clock", *clocks, ("time",)))
    return out


def _fact(facts: dict[str, Any], field: str) -> Any:
    value: Any = facts
    for part in field.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    if field == "sampler" and isinstance(value, dict):
        return {name: setting for name, setting in value.items() if _OFF.get(name) != setting}
    return value


def _prompts(base: _Loaded, new: _Loaded) -> list[Contrast]:
    """The first request whose prompt is another one."""
    for alignment in align(base.requests, new.requests):
        a, b = alignment.base, alignment.new
        if a is None or b is None:
            continue
        if a.prompt_ids is not None and b.prompt_ids is not None:
            x, y = list(a.prompt_ids), list(b.prompt_ids)
            if x != y:
                at = next((i for i, (p, q) in enumerate(zip(x, y, strict=False)) if p != q), min(len(x), len(y)))
                return [Contrast(f"prompt of seq {a.seq_id} from id {at} on", x[at : at + 8], y[at : at + 8], ANSWERS)]
        elif None not in (a.prompt_tokens, b.prompt_tokens) and a.prompt_tokens != b.prompt_tokens:
            return [Contrast(f"prompt_tokens of seq {a.seq_id}", a.prompt_tokens, b.prompt_tokens, ANSWERS)]
    return []


def _mixed(sides: list[list[_Loaded]]) -> list[str]:
    """Sides whose runs are not all of one build, or not all alike."""
    out = []
    for name, side in zip(("base", "new"), sides, strict=True):
        for run in side[1:]:
            found = comparable(side[0].columns.run.facts, run.columns.run.facts)
            fields = [c.field for c in found if c.base != c.new]
            if fields:
                out.append(f"{name}: its runs are not alike: {run.name} differs from the first in {', '.join(fields)}")
                break
    return out


# -- the answers -------------------------------------------------------------------------------------------------------


def _choose_pair(base: list[_Loaded], new: list[_Loaded], lengths_count: bool) -> tuple[tuple[int, int], list[str]]:
    """Which run stands for its side, and which sides do not agree among themselves, in words.

    The first, where a side's runs agree. Where one side wavers and the other does not, the first run that parts from
    the other side: a fault that comes and goes is one.
    """

    def parts(a: _Loaded, b: _Loaded) -> bool:
        return any(parts_at(x, lengths_count) for x in align(a.requests, b.requests))

    wavers = [next((run for run in side[1:] if parts(side[0], run)), None) for side in (base, new)]
    said = [
        f"{name}: its own runs do not agree in their tokens ({run.name} parts from {side[0].name})"
        for name, side, run in zip(("base", "new"), (base, new), wavers, strict=True)
        if run is not None
    ]
    if wavers[0] is None and wavers[1] is not None:
        return (0, next((j for j, run in enumerate(new) if parts(base[0], run)), 0)), said
    if wavers[0] is not None and wavers[1] is None:
        return (next((i for i, run in enumerate(base) if parts(run, new[0])), 0), 0), said
    return (0, 0), said


def _token_answer(
    a: _Loaded, b: _Loaded, alignments: list[Alignment], first: Divergence | None, wavering: list[str]
) -> tuple[str, str]:
    if len(wavering) == 2:
        return UNDECIDED, "neither side's runs agree among themselves"
    if first is not None:
        return DIFFERS, ""
    return _missing(a, b, alignments) or _cut(alignments) or _without_ids(alignments) or (SAME, "")


def _missing(a: _Loaded, b: _Loaded, alignments: list[Alignment]) -> tuple[str, str] | None:
    """Requests that one run lacks."""
    for alignment in alignments:
        if alignment.base is None or alignment.new is None:
            short, name = (a, "base") if alignment.base is None else (b, "new")
            if short.columns.run.end_facts is None:
                return UNDECIDED, f"{name} was cut off before request {len(short.requests) + 1}"
            return DIFFERS, f"base has {len(a.requests)} requests, new has {len(b.requests)}"
    return None


def _cut(alignments: list[Alignment]) -> tuple[str, str] | None:
    """Output that one run may have and that is not in its trace; where the tokens parted it would tell nothing."""
    for alignment in alignments:
        base, new = alignment.base, alignment.new
        assert base is not None
        assert new is not None
        lengths = len(base.tokens), len(new.tokens)
        name, short = ("base", base) if lengths[0] < lengths[1] else ("new", new)
        if alignment.agreed == min(lengths) < max(lengths) and short.cut is not None:
            return UNDECIDED, f"{name} ends after {min(lengths)} tokens of seq {base.seq_id}: {short.cut}"
    return None


def _without_ids(alignments: list[Alignment]) -> tuple[str, str] | None:
    if sum(a.agreed - a.unknown for a in alignments):
        return None
    sides = [side for a in alignments for side in (a.base, a.new) if side is not None]
    if any(side.generated for side in sides):
        return UNDECIDED, "no token ids were recorded"
    cut = next((side for side in sides if side.cut), None)
    return None if cut is None else (UNDECIDED, f"no token of seq {cut.seq_id} was recorded: {cut.cut}")


def _state_answer(
    a: _Loaded, b: _Loaded, alignments: list[Alignment], state: list[StateDifference], rules: list[RuleContrast]
) -> tuple[str, str]:
    if state or any({"pass", "fail"} == {rule.base, rule.new} for rule in rules):
        return DIFFERS, ""
    return _missing(a, b, alignments) or _cut(alignments) or (SAME, "")


def _states(
    runs: tuple[RunColumns, RunColumns],
    alignments: list[Alignment],
    pairs: list[Pairs],
    rows: list[list[StateDifference]],
    lengths_count: bool,
) -> list[StateDifference]:
    """The first difference of each field and layer, over all requests."""
    found: dict[tuple[str, int | None], StateDifference] = {}
    for alignment, lengths, layers in zip(alignments, length_differences(runs, pairs), rows, strict=True):
        stepwise = lengths + layers
        told = {d.field for d in stepwise}
        whole = [d for d in request_differences(alignment, lengths_count) if d.field not in told]
        for difference in stepwise + whole:
            found.setdefault((difference.field, difference.layer), difference)
    return sorted(found.values(), key=lambda d: (d.step is None, d.step or 0))


def _rules(sides: list[list[_Loaded]]) -> list[RuleContrast]:
    """Rules whose verdict differs; a side fails where any of its runs does."""
    out = []
    for code in sides[0][0].report.rules:
        results = [[run.report.results[code] for run in side] for side in sides]
        base, new = (_worst([r.verdict if r.applies else "n/a" for r in side]) for side in results)
        if base != new:
            failures = [f for side in results for r in side for f in r.failures]
            out.append(RuleContrast(code, base, new, failures[0].message if failures else ""))
    return out


def _worst(verdicts: list[str]) -> str:
    return next(v for v in ("fail", "pass", "unknown", "n/a") if v in verdicts)


def _layer_answer(
    a: _Loaded, b: _Loaded, alignments: list[Alignment], layer: LayerDifference | None, pairs: list[Pairs]
) -> tuple[str, str]:
    if layer is not None:
        return DIFFERS, ""
    if fingerprint_of((a.columns, b.columns)) is None:
        return UNDECIDED, _unlike_fingerprints(a, b)
    if not any(len(rows) for rows, _, _ in pairs):
        return UNDECIDED, "no step stands beside one of the other run"
    missing = _missing(a, b, alignments)
    if missing is not None:
        return missing if missing[0] == UNDECIDED else (SAME, "")
    return _cut(alignments) or (SAME, "")


def _unlike_fingerprints(a: _Loaded, b: _Loaded) -> str:
    """Why no layer can be compared."""
    kept = [next((n for n in FINGERPRINTS if n in run.columns.run.names), None) for run in (a, b)]
    if None not in kept:
        return f"base has {kept[0]}, new has {kept[1]}: two different figures"
    lacking = [name for name, field in zip(("base", "new"), kept, strict=True) if field is None]
    return f"hidden_rms was not recorded ({' and '.join(lacking)})"


def _time_answer(timing: Timing, runs: tuple[RunColumns, RunColumns]) -> tuple[str, str]:
    if not timing.lines:
        return UNDECIDED, "no steps of both sides did the same work and were timed"
    needs = [t.judgement.needs for t in timing.lines if is_total(t.line) and t.judgement.needs is not None]
    why = f"needs {max(needs)} runs a side" if timing.verdict == UNDECIDED and needs else ""
    return timing.verdict, why


def _with_text(first: Divergence, tables: tuple[Table, Table]) -> Divergence:
    base, new = (_said(c, table) for c, table in zip((first.base, first.new), tables, strict=True))
    return replace(first, base=base, new=new)


def _said(choice: Choice, table: Table) -> Choice:
    """With the token's text, where it is the step's own: of drafts no text is recorded."""
    step = table.plain(choice.step, choice.step + 1)[0] if choice.step is not None else None
    if step is None or step["token_id"] != choice.token_id:
        return choice
    return replace(choice, text=step.get("text"))


# -- as others read it -------------------------------------------------------------------------------------------------


def as_json(diff: Diff, fail_on: Sequence[str]) -> dict[str, Any]:
    """The documented object of `diff --json`."""
    return {
        "verdict": diff.verdict(fail_on),
        "fail_on": list(fail_on),
        "verdicts": diff.verdicts,
        "why": diff.why,
        "comparable": [
            {"field": c.field, "base": c.base, "new": c.new, "forbids": list(c.forbids)} for c in diff.comparable
        ],
        "tokens": {
            "verdict": diff.verdicts["tokens"],
            "compared": diff.compared,
            "first_divergence": _divergence_json(diff.first),
        },
        "layers": {"verdict": diff.verdicts["layers"], "first": None if diff.layer is None else asdict(diff.layer)},
        "state": {
            "verdict": diff.verdicts["state"],
            "first": asdict(diff.state[0]) if diff.state else None,
            "differences": [asdict(d) for d in diff.state],
            "rules": [asdict(rule) for rule in diff.rules],
        },
        "requests": [_request_json(a) for a in diff.alignments],
        "time": [_time_json(line) for line in diff.timing.lines],
        "notes": diff.notes,
    }


def _divergence_json(first: Divergence | None) -> dict[str, Any] | None:
    if first is None:
        return None
    return {
        "seq_id": first.seq_id,
        "index": first.index,
        "step": first.base.step,
        "base": asdict(first.base),
        "new": asdict(first.new),
        "kind": first.kind,
        "noise": first.noise,
    }


def _request_json(alignment: Alignment) -> dict[str, Any]:
    sides = alignment.base, alignment.new
    known = next(side for side in sides if side is not None)
    names = ("prompt_tokens", "evaluated", "reused", "generated", "drafted", "accepted", "finish")
    return {
        "seq_id": known.seq_id,
        **{name: [None if side is None else getattr(side, name) for side in sides] for name in names},
    }


def _time_json(line: TimeLine) -> dict[str, Any]:
    judgement = line.judgement
    return {
        "phase": line.line.phase,
        "part": line.line.part,
        "layer": line.line.layer,
        "ratio": judgement.ratio,
        "low": judgement.low,
        "high": judgement.high,
        "runs": list(line.runs),
        "verdict": judgement.verdict,
        "within": judgement.within,
        "needs": judgement.needs,
        "p": judgement.p,
        "base_ms": line.base_ms,
        "new_ms": line.new_ms,
        "raw_ratio": line.raw_ratio,
    }
