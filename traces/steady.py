"""The usual step judged in a few comparisons: a decode step right behind its sequence's own decode step.

The rules are written for plain ints and for columns. Here the very same expressions run a third time, on symbols: what
a run says once, what its record does not hold and what a usual step fixes are numbers, the rest stays open, and what
remains of all the tests together is one condition in Python. A step that does not meet it is judged in full by
check.Checker, so nothing but a pass is ever decided here. A recorder inside a debugger has microseconds, not tens.
"""

from __future__ import annotations

import math
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Set, Tuple

from traces import fields
from traces.context import DECODE, NO_END, Facts, PoolState, SequenceState, View
from traces.rules import Rule

Steady = Callable[[Dict[str, Any], SequenceState, PoolState, int], bool]
"""steady(record, state, pool, index): True where the step passes; it is then counted and the state is moved on.
False changes nothing."""


class _NotSteady(Exception):  # noqa: N818 - an answer, not a fault
    """A rule reads what is not looked at here."""


class _Symbol:
    """A number that is known only at a step, as the Python expression that gives it."""

    def __init__(self, text: str, is_bool: bool = False, is_count: bool = False) -> None:
        self.text, self.is_bool, self.is_count = text, is_bool, is_count  # is_count: never below 0

    def __bool__(self) -> bool:
        raise _NotSteady("a rule branches on %s" % self.text)

    def __hash__(self) -> int:
        return hash(self.text)

    def __add__(self, other: Any) -> Any:
        return self if _is_number(other, 0) else self._with("+", other)

    def __radd__(self, other: Any) -> Any:
        return self if _is_number(other, 0) else self._with("+", other, swapped=True)

    def __sub__(self, other: Any) -> Any:
        return self if _is_number(other, 0) else self._with("-", other)

    def __rsub__(self, other: Any) -> Any:
        return self._with("-", other, swapped=True)

    def __mul__(self, other: Any) -> Any:
        if _is_number(other, 0):
            return 0
        return self if _is_number(other, 1) else self._with("*", other)

    __rmul__ = __mul__

    def __and__(self, other: Any) -> Any:
        return self._logic("&", other, absorbing=False)

    __rand__ = __and__

    def __or__(self, other: Any) -> Any:
        return self._logic("|", other, absorbing=True)

    __ror__ = __or__

    def __eq__(self, other: Any) -> Any:
        if isinstance(other, _Symbol) and other.text == self.text and self.is_count:
            return True
        return self._with("==", other, is_bool=True)

    def __ne__(self, other: Any) -> Any:
        if isinstance(other, _Symbol) and other.text == self.text and self.is_count:
            return False
        return self._with("!=", other, is_bool=True)

    def __lt__(self, other: Any) -> Any:
        if (self.is_bool and other is False) or (self.is_count and _is_number(other, 0)):
            return False
        return self._with("<", other, is_bool=True)

    def __le__(self, other: Any) -> Any:
        return self._with("<=", other, is_bool=True)

    def __gt__(self, other: Any) -> Any:
        if self.is_bool and isinstance(other, bool):
            return False if other else self
        return self._with(">", other, is_bool=True)

    def __ge__(self, other: Any) -> Any:
        if self.is_count and _is_number(other, 0):
            return True
        return self._with(">=", other, is_bool=True)

    def _with(self, operator: str, other: Any, swapped: bool = False, is_bool: bool = False) -> "_Symbol":
        left, right = (_text(other), self.text) if swapped else (self.text, _text(other))
        return _Symbol("(%s %s %s)" % (left, operator, right), is_bool)

    def _logic(self, operator: str, other: Any, absorbing: bool) -> Any:
        if isinstance(other, bool) and self.is_bool:
            return other if other is absorbing else self
        if isinstance(other, _Symbol) and other.text == self.text:
            return self
        both = self.is_bool and isinstance(other, (bool, _Symbol)) and (isinstance(other, bool) or other.is_bool)
        return self._with(operator, other, is_bool=both)


def _is_number(value: Any, number: int) -> bool:
    return isinstance(value, (int, float)) and value == number


def _text(value: Any) -> str:
    if isinstance(value, _Symbol):
        return value.text
    if isinstance(value, float) and not math.isfinite(value):
        raise _NotSteady("a time that is absent")
    return repr(value)


_FROM_RECORD_OR_ABSENT = ("write_pos", "kv_used", "kv_free", "forward_id", "draft_cache_len")
_FROM_STATE = ("prev_len", "prev_first", "prev_forward_id", "prev_t_ns", "n_reused", "prompt_tokens")
_TIMES = ("qkv", "o", "gate_up", "down", "gemm", "attn", "lm_head", "forward", "sample", "total")


class _UsualStep(View):
    """A decode step of one sequence whose last step was a decode step too, with no note and no gap between: what that
    fixes is plain, the rest symbols. Names that are missing here belong to rules about other steps."""

    def __init__(self, facts: Facts, shapes: Dict[str, Tuple[int, ...]], limited: bool) -> None:
        self.__dict__.update(facts.__dict__)
        self.facts, self._shapes = facts, shapes
        self.used: Dict[str, str] = {}
        self.phase, self.finish = DECODE, 0
        self.first = self.gap = self.gapped = self.after_finish = self.interleaved = self.prefill_ended = False
        self.removed = self.shifts = 0
        self.shift_discard = self.shift_keep = -1
        self.n_drafted = self.n_accepted = -1
        self.drafts_unseen = self.drafts_outside = 0
        self.prompt_fed_known = self.generated_known = self.kept_known = True
        for name in ("n_drafted", "n_accepted", "draft_ids"):
            if name in shapes:
                raise _NotSteady("a loop with drafts")
        self.token_id = self._symbol("token_id", "record['token_id']")
        self.block_unseen = self._compared("token_id", "==", fields.ABSENT_I64)
        self.n_tokens = 1
        self.seq_before = self._symbol("seq_before", "record['seq_before']", is_count=True)
        self.seq_len = self._symbol("seq_len", "record['seq_len']", is_count=True)
        for name in _FROM_RECORD_OR_ABSENT:
            setattr(self, name, self._symbol(name, "record[%r]" % name) if name in shapes else -1)
        self.t_ns = self._symbol("t_ns", "record['t_ns']") if "t_ns" in shapes else -1
        for name in _FROM_STATE:
            setattr(self, name, self._symbol(name, "state." + name))
        self.max_new_tokens = self._symbol("max_new_tokens", "state.max_new_tokens", is_count=True) if limited else -1
        self.generated = self._symbol("generated", "state.generated + 1")
        self.pool_before = self._symbol("pool_before", "pool.used")
        self.pool_total = self._symbol("pool_total", "pool.total")
        self._extents("cache_len", "cache")
        self._extents("cache_before", "before")
        self.windows: List[Any] = []
        if facts.has_window or facts.has_recurrent or facts.has_shared or facts.naive:
            raise _NotSteady("layers of several kinds")

    def _symbol(self, name: str, source: str, is_count: bool = False) -> _Symbol:
        self.used[name] = source
        return _Symbol(name, is_count=is_count)

    def _compared(self, name: str, operator: str, value: Any) -> _Symbol:
        return _Symbol("(%s %s %r)" % (name, operator, value), is_bool=True)

    def _extents(self, field: str, word: str) -> None:
        """The rows of all layers: the same number in each, or it is no usual step; or one count for all."""
        facts, shape = self.facts, self._shapes.get(field)
        n_full = len(facts.full_layers)
        least: Any = -1
        first: Any = -1
        unseen = n_full
        if shape is None or not facts.has_full:
            pass
        elif not shape:
            first = self._symbol(word + "_first", "record[%r]" % field, is_count=True)
        elif shape == (facts.n_layers,) and n_full == facts.n_layers:
            least = first = self._symbol(word + "_first", "rows[0]", is_count=True)
            unseen = 0
        else:
            raise _NotSteady("layers of several kinds")
        setattr(self, word + "_first", first)
        setattr(self, word + "_min", least)
        setattr(self, word + "_max", least)
        setattr(self, word + "_unseen", unseen)

    @property
    def eos_at(self) -> Any:
        """Only read at verify steps."""
        return NO_END

    def time(self, part: str) -> Any:
        """A time that the record holds once a step."""
        name = part + "_ms"
        if name not in self._shapes:
            return math.nan
        if self._shapes[name]:
            raise _NotSteady("times in every layer")
        return self._symbol(name, "record[%r]" % name)

    def time_values(self, part: str) -> int:
        """As StepView."""
        return 1

    @staticmethod
    def or_zero(time: Any) -> Any:
        """As StepView."""
        if isinstance(time, _Symbol):
            return _Symbol("(%s if %s == %s else 0.0)" % (time.text, time.text, time.text))
        return time if time == time else 0.0

    @property
    def layer_excess(self) -> float:
        """Times in every layer are not looked at here."""
        return math.nan


class _Part(NamedTuple):
    """What is left of one rule: the conditions of a pass, or None where it is unknown at every usual step."""

    code: str
    conditions: Optional[List[Any]]


def compiled(rules: List[Rule], facts: Facts, run: Dict[str, Any], results: Dict[str, Any]) -> Optional[List[Steady]]:
    """The condition of a usual step for one run: [0] where nobody said how many tokens a sequence may generate, [1]
    where it is known. None where the run's record or layers are not usual.

    results: code -> check.RuleResult, which is counted up.
    """
    try:
        shapes = {column.name: column.shape for column in fields.columns(run.get("fields"))}
        if any(name not in shapes for name in fields.REQUIRED):
            return None
        functions = []
        for limited in (False, True):
            view = _UsualStep(facts, shapes, limited)
            parts = [part for part in (_part(rule, view) for rule in rules) if part is not None]
            functions.append(_function(view, parts, shapes, results))
        return functions
    except (_NotSteady, fields.FieldError):
        return None


def _part(rule: Rule, view: _UsualStep) -> Optional[_Part]:
    try:
        when = rule.when(view)
        if isinstance(when, _Symbol):
            raise _NotSteady("whether %s applies depends on the step" % rule.code)
        if not when:
            return None
        known, ok = rule.test(view)
    except AttributeError as error:
        raise _NotSteady(str(error)) from None
    if known is False:
        return _Part(rule.code, None)
    return _Part(rule.code, [claim for claim in (known, ok) if claim is not True])


def _function(
    view: _UsualStep, parts: List[_Part], shapes: Dict[str, Tuple[int, ...]], results: Dict[str, Any]
) -> Steady:
    conditions: List[str] = []
    for part in parts:
        for claim in part.conditions or ():
            text = _text(claim)
            if text not in conditions:
                conditions.append(text)
    body = " and ".join(conditions) or "True"
    wanted = [name for name in view.used if _mentions(body, name) or name in _MOVED_ON]
    lines = ["def steady(record, state, pool, index):", "    if %s: return False" % " or ".join(_UNUSUAL)]
    for part in parts:
        if part.conditions is None:  # the first one's reason is worth telling, which the full way does
            lines.append("    if %s.why_at > index: return False" % part.code)
    for name in wanted:
        field = {"cache_first": "cache_len", "before_first": "cache_before"}.get(name)
        if field and shapes[field]:
            lines.append("    rows = record[%r]" % field)
            lines.append("    if rows.count(rows[0]) != %d: return False" % shapes[field][0])
        lines.append("    %s = %s" % (name, view.used[name]))
    counts = [name for name in ("seq_before", "seq_len", "cache_first", "before_first") if name in view.used]
    lines.append("    if %s: return False" % " or ".join(name + " < 0" for name in counts))
    if "t_ns" in view.used:
        lines.append("    if t_ns >= %d: return False" % 2**63)
    if "kv_used" in shapes or "kv_free" in shapes:
        lines.append("    if pool.total < 0: return False")
    lines.append("    if not (%s): return False" % body)
    lines += ["    %s.%s += 1" % (p.code, "unknown" if p.conditions is None else "passed") for p in parts]
    lines += ["    " + line for line in _moving_on(view, bool(shapes.get("cache_len")))]
    lines.append("    return True")
    names: Dict[str, Any] = {part.code: results[part.code] for part in parts}
    names["DECODE"] = DECODE
    exec(compile("\n".join(lines), "<steady step>", "exec"), names)
    steady: Steady = names["steady"]
    return steady


_UNUSUAL = (
    "state.index != index - 1",
    "state.prev_phase != DECODE",
    "record['phase'] != DECODE",
    "record['n_tokens'] != 1",
    "record['finish']",
    "state.gap",
    "state.gapped",
    "state.finished",
    "state.removed",
    "state.shifts",
    "not state.kept_known",
    "not state.generated_known",
)
_MOVED_ON: Set[str] = {"seq_before", "seq_len", "cache_first", "before_first", "t_ns", "kv_used", "forward_id"}


def _mentions(text: str, name: str) -> bool:
    at = text.find(name)
    while at >= 0:
        before, after = text[at - 1 : at], text[at + len(name) : at + len(name) + 1]
        if not (before.isalnum() or before == "_" or after.isalnum() or after == "_"):
            return True
        at = text.find(name, at + 1)
    return False


def _moving_on(view: _UsualStep, has_rows: bool) -> List[str]:
    """What StepView does to the states at its beginning and in close()."""

    def own(name: str) -> str:
        return name if name in view.used else "-1"

    return [
        "state.kept += 1",
        "state.generated += 1",
        "state.steps += 1",
        "state.index = index",
        "state.prev_len = seq_len",
        "state.prev_first = " + own("cache_first"),
        "state.prev_rows = " + ("record['cache_len']" if has_rows else "()"),
        "state.prev_forward_id = " + own("forward_id"),
        "state.prev_t_ns = " + own("t_ns"),
        "pool.used = " + own("kv_used"),
        "pool.active.add(record['seq_id'])",
    ]
