"""What the rules read: a run's facts, what each sequence left behind, and one step with the values derived from both.

`View` holds the names; StepView fills them for one step on plain ints, columns.py for a chunk of steps in numpy.
"""

from __future__ import annotations

import math
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

from traces.fields import ABSENT_I64, PHASES
from traces.rules import Finding, negation, pick

PREFILL, DECODE, VERIFY = PHASES["prefill"], PHASES["decode"], PHASES["verify"]
NO_END = 1 << 30
"""`eos_at` of a step without an end id"""


def count(facts: Any, name: str) -> int:
    """A count from a run's or a note's JSON; -1 where it is missing or not a count."""
    value = facts.get(name) if isinstance(facts, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**62 else -1


class Window(NamedTuple):
    """The layers that share one window size."""

    window: int
    slack: int
    layers: Tuple[int, ...]


class WindowRows(NamedTuple):
    """What the layers of one window size hold: ints, or columns."""

    window: int
    slack: int
    rows_min: Any
    rows_max: Any
    unseen: Any


class Facts:
    """What a run says once and the rules need at every step."""

    def __init__(self, run: Dict[str, Any]) -> None:
        model, kv, stop = run.get("model"), run.get("kv"), run.get("stop")
        self.naive = run.get("loop") == "naive"
        self.capacity = count(kv, "capacity")
        self.vocab_size = count(model, "vocab_size")
        self.max_new_tokens = count(stop, "max_new_tokens")
        self.pool_size = count(kv, "total")
        unit = kv.get("unit") if isinstance(kv, dict) else None
        self.pool_counts_rows = unit in ("rows", "tokens") and not (isinstance(kv, dict) and kv.get("paged"))
        eos = stop.get("eos") if isinstance(stop, dict) else None
        ids = [i for i in eos if isinstance(i, int)] if isinstance(eos, list) else []
        self.eos_known = isinstance(eos, list)
        ignored = isinstance(stop, dict) and bool(stop.get("ignore_eos"))
        self.eos = frozenset() if ignored else frozenset(ids)
        resolution = run.get("resolution_ms")
        usable = isinstance(resolution, (int, float)) and math.isfinite(resolution) and resolution >= 0
        self.resolution_ms = float(resolution) if usable and resolution is not None else 0.0
        self._layers(run.get("layers"))
        self.timed = _has_nested_times(run.get("fields"))

    def _layers(self, layers: Any) -> None:
        kinds = [layer if isinstance(layer, dict) else {} for layer in layers] if isinstance(layers, list) else []
        self.layers_known = bool(kinds)
        self.full_layers = [i for i, k in enumerate(kinds) if k.get("kind") == "full"]
        self.has_full = bool(self.full_layers)
        self.many_full = len(self.full_layers) > 1
        self.first_full = self.full_layers[0] if self.full_layers else -1
        self.recurrent_layers = [i for i, k in enumerate(kinds) if k.get("kind") == "recurrent"]
        self.has_recurrent = bool(self.recurrent_layers)
        self.shared_layers = [
            (i, count(k, "owner"))
            for i, k in enumerate(kinds)
            if k.get("kind") == "shared" and 0 <= count(k, "owner") < len(kinds)
        ]
        self.has_shared = bool(self.shared_layers)
        by_size: Dict[Tuple[int, int], List[int]] = {}
        self.window_layers: List[Tuple[int, int, int]] = []
        for i, kind in enumerate(kinds):
            if kind.get("kind") == "window" and count(kind, "window") > 0:
                size = count(kind, "window"), max(count(kind, "slack"), 0)
                by_size.setdefault(size, []).append(i)
                self.window_layers.append((i,) + size)
        self.window_sizes = [Window(w, slack, tuple(members)) for (w, slack), members in by_size.items()]
        self.has_window = bool(by_size)
        self.n_layers = len(kinds)


def _has_nested_times(declared: Any) -> bool:
    """Whether a record has a time and another one that should lie inside it; True where the run does not say."""
    if not isinstance(declared, list):
        return True
    names = {field[0] for field in declared if isinstance(field, (list, tuple)) and field}
    return len(names & {part + "_ms" for part in TIMES}) > 1


TIMES = "qkv o gate_up down gemm attn lm_head forward sample total".split()


class SequenceState:
    """What one request left behind: what the rules compare its next step with."""

    __slots__ = (
        "has_request n_reused prompt_tokens max_new_tokens steps index prev_len prev_rows prev_first prev_t_ns "
        "prev_phase prev_forward_id kept kept_known generated generated_known prompt_fed prompt_fed_known finished gap "
        "gapped removed shifts shift_discard shift_keep"
    ).split()

    def __init__(self, facts: Facts) -> None:
        self.has_request = False
        self.n_reused = self.prompt_tokens = -1
        self.max_new_tokens = facts.max_new_tokens
        self.steps = 0
        self.index = -2
        self.prev_len = self.prev_first = self.prev_t_ns = self.prev_phase = self.prev_forward_id = -1
        self.prev_rows: Sequence[int] = ()
        self.kept = self.generated = self.prompt_fed = 0
        self.kept_known = self.generated_known = self.prompt_fed_known = True
        self.finished = self.gap = self.gapped = False
        self.removed = self.shifts = 0
        self.shift_discard = self.shift_keep = -1

    def note(self, note: Dict[str, Any]) -> None:
        """A note about this sequence, other than its request."""
        kind = note.get("kind")
        if kind == "shift":
            self.shift_discard, self.shift_keep = count(note, "n_discard"), count(note, "n_keep")
            self.shifts += 1
            self._remove(self.shift_discard)
        elif kind == "rollback":
            self._remove(count(note, "n"))
            self.prompt_fed_known = False  # prompt rows may be among them, to be fed once more
        elif kind == "gap":
            self.gap = self.gapped = True
        elif kind == "finish":
            self.finished = True

    def _remove(self, n: int) -> None:
        if n < 0:
            self.gap = self.gapped = True  # rows went and nobody said how many
        else:
            self.removed += n

    def request(self, note: Dict[str, Any]) -> None:
        """The request note that begins this sequence."""
        self.has_request = True
        self.n_reused = count(note, "n_reused")
        self.prompt_tokens = count(note, "prompt_tokens")
        ids = note.get("prompt_ids")
        if self.prompt_tokens < 0 and isinstance(ids, list):
            self.prompt_tokens = len(ids)
        if count(note, "max_new_tokens") >= 0:
            self.max_new_tokens = count(note, "max_new_tokens")
        self.prev_t_ns = count(note, "t_ns")


class PoolState:
    """What the KV pool held last, and which sequences still live in it."""

    def __init__(self, facts: Facts) -> None:
        self.total = facts.pool_size
        self.used = -1
        self.active: Set[int] = set()
        self.gapped = False

    def release(self, note: Dict[str, Any]) -> Optional[Tuple[bool, bool, Finding]]:
        """(known, ok, finding) of KV12 at a release note, or None where it says nothing about the pool."""
        self.active.discard(count(note, "seq_id"))
        used, free = count(note, "kv_used"), count(note, "kv_free")
        self.used = used
        if used < 0:
            return None
        if self.total < 0 <= free:
            self.total = used + free
        seen = used + free
        if free >= 0 and seen != self.total:
            text = "after the release: %d used + %d free = %d, the pool has %d" % (used, free, seen, self.total)
            return True, False, Finding(None, self.total, seen, text)
        if used and not self.active:
            text = "after the last release %d are still used: expected 0" % used
            return not self.gapped, False, Finding(None, 0, used, text)
        return not self.gapped, True, Finding(None, None, None, "")


class once:  # noqa: N801 - a decorator, as property is
    """A derived value, computed when it is first asked for. functools.cached_property takes a lock before Python 3.12,
    which costs more than most values here."""

    def __init__(self, compute: Callable[[Any], Any]) -> None:
        self._compute, self.__doc__ = compute, compute.__doc__
        self._name = compute.__name__

    def __get__(self, view: Any, owner: Any = None) -> Any:
        if view is None:
            return self
        value = view.__dict__[self._name] = self._compute(view)
        return value


class View:
    """The names a rule reads, for one step or for a column of steps.

    Raw: the fields of the record (counts -1, ids the smallest I64, times NaN where absent) and `finish`, `phase`.
    Context: first, gap, gapped, removed, shifts, shift_discard, shift_keep, prev_len, prev_first, prev_t_ns,
    prev_forward_id, prefill_ended, prompt_tokens, prompt_fed, n_reused, max_new_tokens, kept, generated,
    after_finish, interleaved, pool_before, pool_total. Facts: the attributes of Facts.
    What follows is derived from those, the same way for ints and columns; subclasses add the sums over layers.
    """

    phase: Any
    finish: Any
    seq_id: Any
    token_id: Any
    n_tokens: Any
    seq_before: Any
    seq_len: Any
    n_drafted: Any
    n_accepted: Any
    draft_cache_len: Any
    write_pos: Any
    kv_used: Any
    kv_free: Any
    forward_id: Any
    t_ns: Any
    cache_first: Any
    before_first: Any
    first: Any
    n_reused: Any
    prompt_tokens: Any
    max_new_tokens: Any
    prev_len: Any
    prev_first: Any
    prev_t_ns: Any
    prev_forward_id: Any
    removed: Any
    eos_at: Any

    @once
    def is_prefill(self) -> Any:
        """Whether prompt tokens are fed."""
        return self.phase == PREFILL

    @once
    def phase_known(self) -> Any:
        """Whether the step says what it is."""
        return (self.phase >= PREFILL) & (self.phase <= VERIFY)

    @once
    def sampled_an_end(self) -> Any:
        """Whether the step's last accepted token is an end id: nothing may follow in its sequence."""
        last = pick(self.is_verify, self.n_accepted, 0)
        return negation(self.is_prefill) & (self.eos_at <= last)

    @once
    def is_decode(self) -> Any:
        """Whether one sampled token is fed."""
        return self.phase == DECODE

    @once
    def is_verify(self) -> Any:
        """Whether drafts are verified."""
        return self.phase == VERIFY

    @once
    def grew(self) -> Any:
        """Rows a full layer gains by this step: tokens fed, or 1 + accepted."""
        return pick(self.is_verify, 1 + self.n_accepted, self.n_tokens)

    @once
    def grew_known(self) -> Any:
        """Whether `grew` could be computed."""
        verify = self.is_verify
        return (verify & (self.n_accepted >= 0)) | (negation(verify) & (self.n_tokens >= 0))

    def _less_removed(self, rows: Any) -> Any:
        return pick(rows >= 0, rows - self.removed, -1)

    @once
    def expected_before(self) -> Any:
        """What seq_before must be; -1 where the context is unknown."""
        return pick(self.first, self.n_reused, self._less_removed(self.prev_len))

    @once
    def own_rows(self) -> Any:
        """Rows of the first full layer as the sequence's own last step left them."""
        return self._less_removed(self.prev_first)

    @once
    def old_rows(self) -> Any:
        """Rows of the first full layer before this step: as seen, else as left behind, else the reused prefix."""
        left = pick(self.first, self.n_reused, self.own_rows)
        return pick(self.before_first >= 0, self.before_first, left)

    @once
    def rows_before(self) -> Any:
        """Rows of the first full layer before this step: as seen, else counted back from those after it."""
        back = pick((self.cache_first >= 0) & self.grew_known, self.cache_first - self.grew, -1)
        return pick(self.before_first >= 0, self.before_first, pick(back < -1, -1, back))


def _extent(rows: Sequence[int], layers: Sequence[int]) -> Tuple[int, int, int]:
    """(least, most, unseen) of the rows of some layers; least and most are -1 where none was seen."""
    width = len(rows)
    seen = [rows[i] for i in layers if i < width and rows[i] >= 0]
    return (min(seen), max(seen), len(layers) - len(seen)) if seen else (-1, -1, len(layers))


class StepView(View):
    """One step on plain ints."""

    def __init__(self, facts: Facts, record: Dict[str, Any], state: SequenceState, pool: PoolState, index: int) -> None:
        self.__dict__.update(facts.__dict__)
        self.facts, self.record, self.state, self.index = facts, record, state, index
        get = record.get
        self.phase, self.finish, self.seq_id = record["phase"], record["finish"], record["seq_id"]
        self.n_tokens, self.seq_before, self.seq_len = record["n_tokens"], record["seq_before"], record["seq_len"]
        self.token_id: int = record["token_id"]
        self.n_drafted, self.n_accepted = get("n_drafted", -1), get("n_accepted", -1)
        self.draft_cache_len, self.write_pos = get("draft_cache_len", -1), get("write_pos", -1)
        self.kv_used, self.kv_free, self.forward_id = get("kv_used", -1), get("kv_free", -1), get("forward_id", -1)
        t_ns = get("t_ns", -1)
        self.t_ns = t_ns if t_ns < 2**63 else -1
        self.cache_rows, self.cache_first, self.cache_min, self.cache_max, self.cache_unseen = self._rows("cache_len")
        before = self._rows("cache_before")
        self.before_rows, self.before_first, self.before_min, self.before_max, self.before_unseen = before
        self._context(state, pool)

    def _rows(self, name: str) -> Tuple[Sequence[int], int, int, int, int]:
        rows = self.record.get(name, -1)
        facts = self.facts
        if isinstance(rows, int):  # one count for all layers says nothing about their agreement
            return (), rows if facts.has_full else -1, -1, -1, len(facts.full_layers)
        if len(facts.full_layers) == len(rows) == facts.n_layers and facts.has_full:
            least = min(rows)
            if least >= 0:
                return rows, rows[0], least, max(rows), 0
        least, most, unseen = _extent(rows, facts.full_layers)
        unseen += len(rows) > facts.n_layers  # a layer that the run does not describe
        first = rows[facts.first_full] if facts.has_full and facts.first_full < len(rows) else -1
        return rows, first, least, most, unseen

    def _context(self, state: SequenceState, pool: PoolState) -> None:
        self.first = state.steps == 0
        if self.first and state.has_request and state.n_reused < 0:
            state.n_reused = self.record.get("n_reused", -1)
        self.n_reused, self.prompt_tokens = state.n_reused, state.prompt_tokens
        self.max_new_tokens = state.max_new_tokens
        self.gap, self.gapped, self.removed = state.gap, state.gapped, state.removed
        self.shifts, self.shift_discard, self.shift_keep = state.shifts, state.shift_discard, state.shift_keep
        self.prev_len, self.prev_first, self.prev_t_ns = state.prev_len, state.prev_first, state.prev_t_ns
        self.prev_forward_id, self.prev_index = state.prev_forward_id, state.index
        self.after_finish = state.finished
        self.interleaved = state.steps > 0 and state.index != self.index - 1
        self.pool_before = pool.used
        if pool.total < 0 <= self.kv_used and self.kv_free >= 0:
            pool.total = self.kv_used + self.kv_free
        self.pool_total = pool.total
        phase, grew, grew_known = self.phase, self.grew, self.grew_known
        begins_late = self.first and state.has_request  # no prefill step at all
        self.prefill_ended = phase != PREFILL and (state.prev_phase == PREFILL or begins_late) and not state.generated
        state.kept += (grew if grew_known else 0) - state.removed
        state.kept_known = state.kept_known and bool(grew_known)
        if phase == PREFILL:
            state.prompt_fed += max(self.n_tokens, 0)
            state.prompt_fed_known = state.prompt_fed_known and self.n_tokens >= 0
        else:
            state.generated += 1 + (max(self.n_accepted, 0) if phase == VERIFY else 0)
            said = phase == DECODE or (phase == VERIFY and self.n_accepted >= 0)
            state.generated_known = state.generated_known and said
        self.kept, self.kept_known = state.kept, state.kept_known
        self.prompt_fed, self.prompt_fed_known = state.prompt_fed, state.prompt_fed_known
        self.generated, self.generated_known = state.generated, state.generated_known

    def close(self, pool: PoolState) -> None:
        """Leave this step behind: what the sequence's next one is compared with."""
        state = self.state
        state.steps += 1
        state.index, state.prev_len, state.prev_first = self.index, self.seq_len, self.cache_first
        state.prev_rows, state.prev_phase, state.prev_forward_id = self.cache_rows, self.phase, self.forward_id
        state.prev_t_ns = self.t_ns
        state.finished = state.finished or self.finish != 0 or bool(self.sampled_an_end)
        state.gap, state.removed, state.shifts, state.shift_discard, state.shift_keep = False, 0, 0, -1, -1
        pool.used = self.kv_used
        pool.active.add(self.seq_id)

    @property
    def windows(self) -> List[WindowRows]:
        """What each group of window layers holds."""
        return [WindowRows(w, slack, *_extent(self.cache_rows, layers)) for w, slack, layers in self.facts.window_sizes]

    @property
    def recurrent_max(self) -> int:
        """The most rows a recurrent layer shows, -1 where none was seen."""
        return _extent(self.cache_rows, self.facts.recurrent_layers)[1]

    @property
    def recurrent_unseen(self) -> int:
        """Recurrent layers whose rows are absent."""
        return _extent(self.cache_rows, self.facts.recurrent_layers)[2]

    def _shared_pairs(self) -> List[Tuple[int, int]]:
        rows, width = self.cache_rows, len(self.cache_rows)
        return [(rows[a], rows[b]) if max(a, b) < width else (-1, -1) for a, b in self.facts.shared_layers]

    @property
    def shared_differ(self) -> int:
        """Shared layers that show other rows than their owner."""
        return sum(1 for a, b in self._shared_pairs() if a >= 0 and b >= 0 and a != b)

    @property
    def shared_unseen(self) -> int:
        """Shared layers whose rows, or their owner's, are absent."""
        return sum(1 for a, b in self._shared_pairs() if a < 0 or b < 0)

    @property
    def rows_left(self) -> Sequence[int]:
        """Rows in each layer as the sequence's own last step left them."""
        return self.state.prev_rows

    @property
    def growths(self) -> List[Tuple[int, int]]:
        """(layer, rows gained) of every full layer; empty where one is unknown."""
        after, before, left = self.cache_rows, self.before_rows, self.rows_left
        out = []
        for layer in self.facts.full_layers:
            if layer < len(before) and before[layer] >= 0:
                old = before[layer]
            elif self.first:
                old = self.n_reused
            else:
                old = left[layer] - self.removed if layer < len(left) and left[layer] >= 0 else -1
            if layer >= len(after) or after[layer] < 0 or old < 0:
                return []
            out.append((layer, after[layer] - old))
        return out

    @property
    def growth_known(self) -> bool:
        """Whether every full layer's gain is known."""
        return bool(self.growths)

    @property
    def growth_min(self) -> int:
        """The least rows a full layer gained."""
        return min((g for _, g in self.growths), default=0)

    @property
    def growth_max(self) -> int:
        """The most rows a full layer gained."""
        return max((g for _, g in self.growths), default=0)

    @property
    def draft_ids(self) -> Sequence[int]:
        """The drafts, absent ones included."""
        ids = self.record.get("draft_ids", ())
        return (ids,) if isinstance(ids, int) else ids

    @property
    def drafts_unseen(self) -> int:
        """Drafts whose id is absent."""
        ids = self.draft_ids[: max(self.n_drafted, 0)]
        return int(max(self.n_drafted, 0) - sum(1 for i in ids if i != ABSENT_I64))

    @property
    def drafts_outside(self) -> int:
        """Drafts whose id is outside the vocabulary."""
        ids = self.draft_ids[: max(self.n_drafted, 0)]
        return sum(1 for i in ids if i != ABSENT_I64 and not 0 <= i < self.facts.vocab_size)

    def _block(self) -> List[int]:
        return [self.token_id, *self.draft_ids[: max(self.n_accepted, 0)]]

    @property
    def block_unseen(self) -> int:
        """Accepted tokens of this step whose id is absent."""
        return int(1 + max(self.n_accepted, 0) - sum(1 for i in self._block() if i != ABSENT_I64))

    @property
    def eos_at(self) -> int:
        """Place of the first end id among the step's own accepted tokens (0 is token_id), NO_END where none."""
        return next((place for place, i in enumerate(self._block()) if i in self.facts.eos), NO_END)

    def time(self, part: str) -> float:
        """Milliseconds of a part over all layers, NaN where absent."""
        value = self.record.get(part + "_ms", math.nan)
        if isinstance(value, float):
            return value
        present = [v for v in value if v == v]
        return sum(present) if present else math.nan

    def time_values(self, part: str) -> int:
        """How many recorded numbers `time(part)` adds up: each may be off by the clock's resolution."""
        value = self.record.get(part + "_ms", math.nan)
        return 1 if isinstance(value, float) else len(value)

    @staticmethod
    def or_zero(time: float) -> float:
        """A time, or 0 where it is absent."""
        return time if time == time else 0.0

    def _layer_parts(self) -> List[Tuple[int, float, float]]:
        gemm = self.record.get("gemm_ms", math.nan)
        if isinstance(gemm, float):
            return []
        parts = [self.record.get(p, math.nan) for p in ("qkv_ms", "o_ms", "gate_up_ms", "down_ms")]
        layered = [p for p in parts if not isinstance(p, float) and len(p) == len(gemm)]
        if not layered:
            return []
        return [(i, sum(self.or_zero(p[i]) for p in layered), g) for i, g in enumerate(gemm) if g == g]

    @property
    def worst_layer(self) -> Tuple[int, float, float]:
        """(layer, sum of its products, its gemm) where the sum exceeds gemm most."""
        return max(self._layer_parts(), key=lambda layer: layer[1] - layer[2] * 1.001)

    @property
    def layer_excess(self) -> float:
        """How far a layer's products exceed its gemm by more than 0.1 %, NaN where they are not recorded a layer."""
        parts = self._layer_parts()
        return max(total - gemm * 1.001 for _, total, gemm in parts) if parts else math.nan
