"""What the rules read: a run's facts, what each sequence left behind, and one step with the values derived from both.

`View` holds the names; SequenceView fills them for one step on plain ints, columns.py for a chunk of steps in numpy.
"""

from __future__ import annotations

import math
from typing import Any, Dict, FrozenSet, List, NamedTuple, Optional, Sequence, Set, Tuple

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
        declared = run.get("fields")
        self.recorded: Optional[FrozenSet[str]] = None
        if isinstance(declared, list):
            self.recorded = frozenset(field[0] for field in declared if isinstance(field, (list, tuple)) and field)
        self.counts = [name for name in OPTIONAL_COUNTS if self.may_record(name)]
        self.timed = self.recorded is None or len(self.recorded & {part + "_ms" for part in TIMES}) > 1

    def may_record(self, *names: str) -> bool:
        """Whether the records have these fields; True where the run does not declare its fields."""
        return self.recorded is None or self.recorded.issuperset(names)

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
        self.all_full = bool(kinds) and len(self.full_layers) == len(kinds)
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


OPTIONAL_COUNTS = "n_drafted n_accepted draft_cache_len write_pos kv_used kv_free forward_id".split()
TIMES = "qkv o gate_up down gemm attn lm_head forward sample total".split()


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


class View:
    """The names a rule reads, for one step or for a column of steps.

    Raw: the counts and ids of the record (absent counts -1, ids the smallest I64, times NaN), `finish`, `phase`.
    Context: first, later, begins_timed (a first step whose time can be compared, or is absent), gap, gapped, removed,
    shifts, shift_discard, shift_keep, prev_len, prev_first, prev_t_ns, prev_forward_id, prefill_ended, prompt_tokens,
    prompt_fed, n_reused, max_new_tokens, kept, generated, finished, interleaved, pool_before, pool_total. `facts`: what
    the run says. What follows is derived from those, the same way for ints and columns; subclasses add the sums over
    layers.
    """

    __slots__ = ()

    any_step = True
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
    is_prefill: Any
    is_decode: Any
    is_verify: Any
    no_prefill: Any
    no_verify: Any
    samples_one: Any
    phase_known: Any
    grew: Any
    grew_known: Any

    def derive(self) -> None:
        """is_prefill, is_decode, is_verify and the contrary; samples_one: neither a prompt nor drafts; phase_known;
        grew: the rows a full layer gains by the step, tokens fed or 1 + accepted; grew_known: whether that is known."""
        phase = self.phase
        self.is_prefill, self.is_decode, self.is_verify = phase == PREFILL, phase == DECODE, phase == VERIFY
        self.no_prefill, self.no_verify = phase != PREFILL, phase != VERIFY
        self.samples_one = self.no_prefill & self.no_verify
        self.phase_known = self.is_prefill | self.is_decode | self.is_verify
        self.grew = pick(self.is_verify, 1 + self.n_accepted, self.n_tokens)
        self.grew_known = self.grew >= self.is_verify  # 1 + absent is 0

    @property
    def sampled_an_end(self) -> Any:
        """Whether the step's last accepted token is an end id: nothing may follow in its sequence."""
        last = pick(self.is_verify, self.n_accepted, 0)
        return negation(self.is_prefill) & (self.eos_at <= last)

    @property
    def own_rows(self) -> Any:
        """Rows of the first full layer as the sequence's own last step left them."""
        return pick(self.prev_first >= 0, self.prev_first - self.removed, -1)

    @property
    def old_rows(self) -> Any:
        """Rows of the first full layer before this step: as seen, else as left behind, else the reused prefix."""
        left = pick(self.first, self.n_reused, self.own_rows)
        return pick(self.before_first >= 0, self.before_first, left)

    @property
    def rows_before(self) -> Any:
        """Rows of the first full layer before this step: as seen, else counted back from those after it."""
        back = pick((self.cache_first >= 0) & self.grew_known, self.cache_first - self.grew, -1)
        return pick(self.before_first >= 0, self.before_first, pick(back < -1, -1, back))


Rows = Tuple[Sequence[int], int, int, int, int]
"""One step's rows a layer; the first full layer's; the least and most of all full ones (-1 where none was seen); how
many of those were not seen"""


def _extent(rows: Sequence[int], layers: Sequence[int]) -> Tuple[int, int, int]:
    """(least, most, unseen) of the rows of some layers; least and most are -1 where none was seen."""
    width = len(rows)
    seen = [rows[i] for i in layers if i < width and rows[i] >= 0]
    return (min(seen), max(seen), len(layers) - len(seen)) if seen else (-1, -1, len(layers))


def _rows(rows: Any, facts: Facts) -> Rows:
    if isinstance(rows, int):  # one count for all layers says nothing about their agreement
        return (), (rows if facts.has_full else -1), -1, -1, len(facts.full_layers)
    if facts.all_full and len(rows) == facts.n_layers:
        least = min(rows)
        if least >= 0:
            return rows, rows[0], least, max(rows), 0
    least, most, unseen = _extent(rows, facts.full_layers)
    unseen += len(rows) > facts.n_layers  # a layer that the run does not describe
    first = rows[facts.first_full] if facts.has_full and facts.first_full < len(rows) else -1
    return rows, first, least, most, unseen


_RAW = "phase finish seq_id token_id n_tokens seq_before seq_len t_ns".split() + OPTIONAL_COUNTS
_DERIVED = (
    "cache_rows cache_first cache_min cache_max cache_unseen before_rows before_first before_min before_max "
    "before_unseen is_prefill is_decode is_verify no_prefill no_verify samples_one phase_known grew grew_known"
).split()
_CONTEXT = (
    "has_request n_reused prompt_tokens max_new_tokens first later begins_timed interleaved prefill_ended prev_index "
    "prev_len prev_first prev_rows prev_t_ns prev_phase prev_forward_id kept kept_known generated generated_known "
    "prompt_fed prompt_fed_known finished gap gapped removed shifts shift_discard shift_keep"
).split()


class SequenceView(View):
    """One sequence on plain ints: the step of it that is being judged, and what its steps and the notes before that
    one left behind. A debugger's hit has microseconds, so this is kept and filled anew, not made for each step."""

    __slots__ = ("facts", "pool", "record", "index", "_cache", *_RAW, *_DERIVED, *_CONTEXT)

    def __init__(self, facts: Facts, pool: PoolState) -> None:
        self.facts, self.pool = facts, pool
        self.has_request = False
        self.n_reused = self.prompt_tokens = -1
        self.max_new_tokens = facts.max_new_tokens
        self.first, self.later, self.begins_timed = True, False, False
        self.prev_index = -2
        self.prev_len = self.prev_first = self.prev_t_ns = self.prev_phase = self.prev_forward_id = -1
        self.prev_rows: Sequence[int] = ()
        self.kept = self.generated = self.prompt_fed = 0
        self.kept_known = self.generated_known = self.prompt_fed_known = True
        self.finished = self.gap = self.gapped = False
        self.removed = self.shifts = 0
        self.shift_discard = self.shift_keep = -1
        self.n_drafted = self.n_accepted = self.draft_cache_len = self.write_pos = -1
        self.kv_used = self.kv_free = self.forward_id = -1
        self.cache_rows: Sequence[int] = ()
        self._cache: Rows = (), -1, -1, -1, 0

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

    def enter(self, record: Dict[str, Any], index: int) -> None:
        """The sequence's next step: a raw record, and its number in the trace."""
        self.index = index
        self.read(record)
        if self.first:
            self.begins_timed = self.prev_t_ns >= 0 or self.t_ns < 0
            if self.has_request and self.n_reused < 0:
                self.n_reused = record.get("n_reused", -1)
        self.interleaved = self.later and self.prev_index != index - 1
        if self.kv_used >= 0 and self.kv_free >= 0 and self.pool.total < 0:
            self.pool.total = self.kv_used + self.kv_free
        self._count()

    def read(self, record: Dict[str, Any]) -> None:
        """What the record itself says."""
        self.record = record
        self.phase, self.finish, self.seq_id = record["phase"], record["finish"], record["seq_id"]
        self.n_tokens, self.seq_before, self.seq_len = record["n_tokens"], record["seq_before"], record["seq_len"]
        self.token_id = record["token_id"]
        for name in self.facts.counts:
            setattr(self, name, record.get(name, -1))
        t_ns = record.get("t_ns", -1)
        self.t_ns = t_ns if t_ns < 2**63 else -1
        rows = record.get("cache_before", -1)
        # an entry hook's rows are the very ones that the step before ended with
        before = self._cache if rows is self.cache_rows and rows else _rows(rows, self.facts)
        self.before_rows, self.before_first, self.before_min, self.before_max, self.before_unseen = before
        cache = self._cache = _rows(record["cache_len"], self.facts)
        self.cache_rows, self.cache_first, self.cache_min, self.cache_max, self.cache_unseen = cache
        self.derive()

    def _count(self) -> None:
        """What is summed up over the sequence's steps, and whether its prompt is over."""
        phase = self.phase
        begins_late = self.first and self.has_request  # no prefill step at all
        self.prefill_ended = phase != PREFILL and (self.prev_phase == PREFILL or begins_late) and not self.generated
        if self.grew_known:
            self.kept += self.grew - self.removed
        else:
            self.kept -= self.removed
            self.kept_known = False
        if phase == DECODE:
            self.generated += 1
        elif phase == PREFILL:
            self.prompt_fed += max(self.n_tokens, 0)
            self.prompt_fed_known = self.prompt_fed_known and self.n_tokens >= 0
        else:
            self.generated += 1 + (max(self.n_accepted, 0) if phase == VERIFY else 0)
            self.generated_known = self.generated_known and phase == VERIFY and self.n_accepted >= 0

    def leave(self) -> None:
        """Leave this step behind: what the sequence's next one is compared with."""
        self.first, self.later, self.begins_timed = False, True, False
        self.prev_index, self.prev_len, self.prev_first = self.index, self.seq_len, self.cache_first
        self.prev_rows, self.prev_phase, self.prev_forward_id = self.cache_rows, self.phase, self.forward_id
        self.prev_t_ns = self.t_ns
        if self.finish or (self.facts.eos and self.sampled_an_end):
            self.finished = True
        self.gap, self.removed, self.shifts, self.shift_discard, self.shift_keep = False, 0, 0, -1, -1
        self.pool.used = self.kv_used
        self.pool.active.add(self.seq_id)

    @property
    def pool_before(self) -> int:
        """What the pool held before the step."""
        return self.pool.used

    @property
    def pool_total(self) -> int:
        """What used + free must be."""
        return self.pool.total

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
    def growths(self) -> List[Tuple[int, int]]:
        """(layer, rows gained) of every full layer; empty where one is unknown."""
        after, before, left = self.cache_rows, self.before_rows, self.prev_rows
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
        if not self.is_verify and self.token_id not in self.facts.eos:
            return NO_END
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
