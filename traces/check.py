"""Running the rules: step by step on plain ints (live, in gdb), and the report that both ways of running end in."""

from __future__ import annotations

import math
import operator
from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Optional, Set, Tuple

from traces.context import VERIFY, Facts, PoolState, SequenceView, count
from traces.fields import ABSENT_I64
from traces.rules import RULES, Case, Finding, Rule

FIRST_FAILURES = 100


class Failure(NamedTuple):
    """One rule broken at one step. `step` is the index in the trace, None where the trace has no steps."""

    code: str
    step: Optional[int]
    seq_id: int
    finding: Finding

    @property
    def message(self) -> str:
        """`KV03 step 41 seq 0: grew by 1, fed 5 with 3 accepted: expected 4`"""
        place = "" if self.step is None else " step %d" % self.step
        return "%s%s seq %d: %s" % (self.code, place, self.seq_id, self.finding.text)

    def place(self) -> Tuple[int, str, str]:
        """Where it sorts: by step, then by rule."""
        return -1 if self.step is None else self.step, self.code, self.message

    def as_json(self) -> Dict[str, Any]:
        """One entry of `failures` in `check --json`."""
        finding = self.finding
        return {
            "step": self.step,
            "seq_id": self.seq_id,
            "layer": finding.layer,
            "expected": finding.expected,
            "seen": finding.seen,
            "message": self.message,
        }


class RuleResult:
    """One rule's verdict on a trace. judged: the steps it applies to."""

    def __init__(self) -> None:
        self.judged = self.failed = self.unknown = 0
        self.why_unknown: Optional[str] = None
        self.failures: List[Failure] = []
        self.why_at = math.inf

    def add_unknown(self, n: int, at: float, why: Callable[[], str]) -> None:
        """Count what could not be judged; the reason that is told is the one at the earliest place."""
        self.unknown += n
        if at < self.why_at:
            self.why_at, self.why_unknown = at, why()

    @property
    def passed(self) -> int:
        """Steps on which the rule holds."""
        return self.judged - self.failed - self.unknown

    @property
    def verdict(self) -> str:
        """fail where a step fails; unknown where steps should be judged and none could be; else pass."""
        if self.failed:
            return "fail"
        return "unknown" if self.unknown and not self.passed else "pass"

    @property
    def applies(self) -> bool:
        """Whether there was anything to judge; without, the pass is shown as n/a."""
        return self.judged > 0


class Report:
    """The verdicts on one trace."""

    def __init__(self, rules: Iterable[Rule], limit: Optional[int] = FIRST_FAILURES) -> None:
        self.rules = {rule.code: rule for rule in rules}
        self.results: Dict[str, RuleResult] = {code: RuleResult() for code in self.rules}
        self.limit = limit
        self.failed_at: Callable[[str, Any], None] = lambda code, steps: None
        """Told every failing step of a rule, kept or not"""

    def add(self, failure: Failure) -> None:
        """Count a failure; the first `limit` of a rule are kept."""
        self.results[failure.code].failed += 1
        if failure.step is not None:
            self.failed_at(failure.code, [failure.step])
        self.keep(failure)

    def keep(self, failure: Failure) -> None:
        """Keep a failure that is counted elsewhere, if there is room."""
        failures = self.results[failure.code].failures
        if self.limit is None or len(failures) < self.limit:
            failures.append(failure)

    @property
    def verdict(self) -> str:
        """fail if a rule fails, unknown if none passed a single step, else pass."""
        results = self.results.values()
        if any(r.failed for r in results):
            return "fail"
        return "pass" if any(r.passed for r in results) else "unknown"

    def failures(self) -> List[Failure]:
        """Every kept failure in step order."""
        return sorted((f for result in self.results.values() for f in result.failures), key=Failure.place)

    def as_json(self) -> Dict[str, Any]:
        """{"verdict", "rules": {...}} of `check --json`."""
        rules = {
            code: {
                "verdict": r.verdict,
                "passed": r.passed,
                "failed": r.failed,
                "unknown": r.unknown,
                "why_unknown": r.why_unknown,
                "failures": [f.as_json() for f in sorted(r.failures, key=Failure.place)],
            }
            for code, r in self.results.items()
        }
        return {"verdict": self.verdict, "rules": rules}


_MISSING: Dict[str, Callable[[Any], Any]] = {
    "layers": lambda s: not s.facts.layers_known,
    "phase": lambda s: not s.phase_known,
    "request": lambda s: not s.has_request,
    "n_reused in it": lambda s: s.has_request and s.n_reused < 0,
    "n_reused in it (first step)": lambda s: s.first and s.has_request and s.n_reused < 0,
    "prompt_tokens and n_reused in it": lambda s: s.has_request and (s.prompt_tokens < 0 or s.n_reused < 0),
    "kv.capacity": lambda s: s.facts.capacity < 0,
    "model.vocab_size": lambda s: s.facts.vocab_size < 0,
    "stop.eos": lambda s: not s.facts.eos_known,
    "max_new_tokens": lambda s: s.max_new_tokens < 0,
    "no gap": lambda s: s.gap or s.gapped,
    "cache_len": lambda s: s.cache_first < 0,
    "cache_len in every layer": lambda s: s.cache_unseen > 0,
    "cache_len in every window layer": lambda s: any(group.unseen for group in s.windows),
    "cache_len in every recurrent or shared layer": lambda s: s.recurrent_unseen or s.shared_unseen,
    "seq_len in the naive loop": lambda s: s.facts.naive and s.seq_len < 0,
    "previous seq_len": lambda s: s.prev_len < 0 and (not s.first or s.shifts > 0),
    "previous cache_len": lambda s: s.old_rows < 0,
    "previous cache_len of the sequence": lambda s: s.own_rows < 0,
    "a prefill step": lambda s: s.first and s.n_reused < s.prompt_tokens,
    "what was fed of the prompt": lambda s: not s.prompt_fed_known,
    "what each step fed and kept": lambda s: not s.kept_known,
    "what each step generated": lambda s: not s.generated_known,
    "previous t_ns": lambda s: s.prev_t_ns < 0,
    "n_drafted and n_accepted": lambda s: s.phase == VERIFY and (s.n_drafted < 0 or s.n_accepted < 0),
    "n_drafted and draft_ids": lambda s: s.phase == VERIFY and (s.n_drafted < 0 or s.drafts_unseen > 0),
    "n_accepted": lambda s: s.phase == VERIFY and s.n_accepted < 0,
    "draft_ids": lambda s: s.phase == VERIFY and s.block_unseen > 0,
    "kv_used and kv_free": lambda s: s.kv_used < 0 or s.kv_free < 0,
    "token_id": lambda s: s.token_id == ABSENT_I64,
    "shift note": lambda s: s.shift_discard < 0,
    "two nested times": lambda s: True,
}


def why_unknown(rule: Rule, step: Any, absent: Dict[str, str]) -> str:
    """Which of a rule's needs this step lacks, with the reasons that `absent` notes gave."""
    lacking = []
    for need in rule.needs:
        missing = _MISSING.get(need)
        if missing(step) if missing is not None else getattr(step, need, -1) < 0:
            reasons = [absent[name] for name in absent if name in need.split()]
            lacking.append("%s (%s)" % (need, ", ".join(reasons)) if reasons else need)
    if not lacking:
        return "a field is absent"
    return "; ".join(_in_words(need) for need in lacking)


def _in_words(need: str) -> str:
    whole = {"no gap": "steps before it were not recorded", "request": "no request note"}
    if need in whole:
        return whole[need]
    return need.replace(" in it", " in the request note") + (" unknown" if need.startswith("what ") else " absent")


class _Occasion:
    """The rules that judge the same steps of a run. Nearly every step passes nearly every rule, so what is counted is
    the steps, and what did not pass; `count` gives the sums to the results.

    tests: of the rules that can tell. untold: those that never can in this run.
    """

    def __init__(self, facts: Facts, cases: List[Tuple[Rule, Case, RuleResult]]) -> None:
        self.tests = [(case.test, rule) for rule, case, _ in cases if rule.can_tell(facts)]
        self.untold = [(rule, result) for rule, _, result in cases if not rule.can_tell(facts)]
        self.steps = 0
        self._results = [result for _, _, result in cases]
        self._counted = 0

    def count(self) -> None:
        """Bring the results up to date."""
        n, self._counted = self.steps - self._counted, self.steps
        for result in self._results:
            result.judged += n
        for _, result in self.untold:
            result.unknown += n


class Checker:
    """Rules over a trace as it comes, one step at a time."""

    def __init__(self, rules: Optional[Iterable[Rule]] = None, limit: Optional[int] = FIRST_FAILURES) -> None:
        self.rules = list(RULES.values()) if rules is None else list(rules)
        self._report = Report(self.rules, limit)
        self._occasions: List[_Occasion] = []
        self.index = 0
        self._order = {rule.code: at for at, rule in enumerate(self.rules)}
        self.start_run({})

    def start_run(self, run: Dict[str, Any]) -> None:
        """A RUN frame: what follows has nothing to do with what came before."""
        for occasion in self._occasions:
            occasion.count()
        self.facts = Facts(run)
        self.sequences: Dict[int, SequenceView] = {}
        self.forgotten: Set[int] = set()
        self._most = 0
        self.pool = PoolState(self.facts)
        self.absent: Dict[str, str] = {}
        kinds: Dict[str, List[Tuple[Rule, Case, RuleResult]]] = {}
        for rule in self.rules:
            for case in rule.cases if rule.concerns(self.facts) else ():
                kinds.setdefault(case.when, []).append((rule, case, self._report.results[rule.code]))
        self._occasions = [_Occasion(self.facts, cases) for cases in kinds.values()]
        self._when = operator.attrgetter(*kinds, "any_step", "any_step")  # of one name it would give no tuple

    @property
    def report(self) -> Report:
        """The verdicts so far."""
        for occasion in self._occasions:
            occasion.count()
        return self._report

    def sequence(self, seq_id: int) -> SequenceView:
        """What is known of a sequence. One that nothing spoke of is fresh; behind a gap its beginning may be lost."""
        if seq_id not in self.sequences:
            sequence = self.sequences[seq_id] = SequenceView(self.facts, self.pool)
            sequence.finished = seq_id in self.forgotten
            sequence.gap = sequence.gapped = self.pool.gapped or sequence.finished
        return self.sequences[seq_id]

    def forget_ended(self, keep: int) -> None:
        """Of sequences that have ended keep what the last `keep` to begin left behind; of the others, that they ended:
        a step that follows still breaks TK02, and what compares it with the step before is unknown."""
        if len(self.sequences) <= max(2 * keep, self._most):
            return
        ended = [seq_id for seq_id, view in self.sequences.items() if view.finished]
        for seq_id in ended[: max(len(ended) - keep, 0)]:
            del self.sequences[seq_id]
            self.forgotten.add(seq_id)
        self._most = 2 * len(self.sequences)  # those that are left are looked through again when they have doubled

    def note(self, note: Dict[str, Any]) -> List[Failure]:
        """A NOTE; those about the pool or with totals are judged at once. Returns the failures."""
        kind, seq_id = note.get("kind"), count(note, "seq_id")
        if kind == "absent":
            self.absent[str(note.get("field"))] = str(note.get("why"))
        elif kind == "gap" and seq_id < 0:
            self.gap()
        elif kind == "request":
            self.sequences[seq_id] = SequenceView(self.facts, self.pool)
            self.sequences[seq_id].request(note)
            self.pool.active.add(seq_id)
        elif kind == "totals":
            return self._totals(note, seq_id)
        elif kind in ("shift", "rollback", "gap", "finish"):
            if kind in ("shift", "rollback"):
                self.pool.used = -1
            self.sequence(seq_id).note(note)
        elif kind == "release":
            return self._judged("KV12", self.pool.release(note), seq_id)
        return []

    def gap(self) -> None:
        """Steps were not recorded (a gap note, or damage in the file)."""
        for state in self.sequences.values():
            state.note({"kind": "gap"})
        self.pool.used, self.pool.gapped = -1, True

    def step(self, record: Dict[str, Any]) -> List[Failure]:
        """One record (Decoder.raw). Returns what it broke, in the order of the rules."""
        view = self.sequences.get(record["seq_id"]) or self.sequence(record["seq_id"])
        view.enter(record, self.index)
        broken: List[Failure] = []
        for is_one, occasion in zip(self._when(view), self._occasions):
            if not is_one:
                continue
            if not occasion.steps:
                for rule, _ in occasion.untold:
                    self._unknown(rule, view, counted=0)
            occasion.steps += 1
            for test, rule in occasion.tests:
                known, ok = test(view)
                if not known:
                    self._unknown(rule, view)
                elif not ok:
                    broken.append(self._broken(rule, view))
        view.leave()
        self.index += 1
        if len(broken) > 1:
            broken.sort(key=lambda failure: self._order[failure.code])
        return broken

    def _broken(self, rule: Rule, view: SequenceView) -> Failure:
        index = view.prev_index if rule.at_previous else self.index
        failure = Failure(rule.code, index, view.seq_id, rule.explain(view))
        self._report.add(failure)
        return failure

    def _unknown(self, rule: Rule, view: SequenceView, counted: int = 1) -> None:
        result = self._report.results[rule.code]
        result.add_unknown(counted, self.index, lambda: why_unknown(rule, view, self.absent))

    def skip(self, steps: int) -> None:
        """Damage took the place of this many steps."""
        self.index += steps
        self.gap()

    def _judged(self, code: str, verdict: Optional[Tuple[bool, bool, Finding]], seq_id: int) -> List[Failure]:
        if verdict is None or code not in self._order:
            return []
        known, ok, finding = verdict
        result = self._report.results[code]
        result.judged += 1
        if not known:
            why = "a count is absent, or steps before it were not recorded"
            result.add_unknown(1, self.index - 0.5, lambda: why)
        elif not ok:
            failure = Failure(code, self.index - 1 if self.index else None, seq_id, finding)
            self._report.add(failure)
            return [failure]
        return []

    def _totals(self, note: Dict[str, Any], seq_id: int) -> List[Failure]:
        prompt, reused, fed = count(note, "prompt_tokens"), count(note, "n_reused"), count(note, "fed")
        rows, generated = count(note, "rows"), count(note, "generated")
        known = min(prompt, reused, fed) >= 0
        text = "%d reused + %d fed = %d, the prompt has %d" % (reused, fed, reused + fed, prompt)
        ok = reused + fed == prompt and fed >= 1
        failed = self._judged("KV09", (known, ok, Finding(None, prompt, reused + fed, text)), seq_id)
        # the last token counts as generated and may or may not have been fed
        least = reused + fed + max(generated - 1, 0)
        text = "ended with %d rows: %d reused + %d fed + %d generated, the last one fed or not"
        finding = Finding(None, least, rows, text % (rows, reused, fed, generated))
        ok = rows in (least, reused + fed + generated)
        return failed + self._judged("TK04", (min(reused, fed, rows, generated) >= 0, ok, finding), seq_id)
