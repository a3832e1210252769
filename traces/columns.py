"""A chunk of steps as the columns that rules read: every name of context.View, computed in numpy.

The context of each step comes from the chunk itself or, for the first steps of a sequence, from the same state
objects that step-by-step checking keeps; leaving the chunk updates them.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from traces.context import DECODE, NO_END, PREFILL, VERIFY, Facts, PoolState, SequenceView, View, WindowRows, count
from traces.fields import ABSENT_I64

if TYPE_CHECKING:
    from traces.check import Checker

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


_CONTEXT = (
    "first later begins_timed gap gapped removed shifts shift_discard shift_keep prev_len prev_first prev_t_ns "
    "prev_forward_id prev_index prefill_ended prompt_tokens prompt_fed prompt_fed_known n_reused max_new_tokens kept "
    "kept_known generated generated_known finished interleaved"
).split()


class Columns(View):
    """The names of context.View for a chunk of steps of one run, as columns."""

    _prev_phase: Any

    def __init__(self, checker: Checker, rows: Any, first_step: int, notes: list[tuple[int, dict[str, Any]]]) -> None:
        self._checker, self._rows, self.first_step, self.n = checker, rows, first_step, len(rows)
        self.facts: Facts = checker.facts
        self.names = frozenset(rows.dtype.names or ())
        for name in ("phase", "finish", "seq_id", "n_tokens", "seq_before", "seq_len", "n_drafted", "n_accepted",
                     "draft_cache_len", "write_pos", "kv_used", "kv_free", "forward_id"):  # fmt: skip
            setattr(self, name, self._ints(name, -1))
        self.token_id = self._ints("token_id", ABSENT_I64)
        t_ns = self._ints("t_ns", -1)
        self.t_ns = np.where(t_ns < 0, -1, t_ns)  # U64 beyond the range of I64 is absent
        self._times: dict[str, Any] = {}
        self._lives: list[SequenceView] = []
        self._lives_of: dict[int, list[tuple[int, int]]] = {}
        self.derive()
        self._context(notes)

    def column(self, value: Any) -> Bools:
        """A test's result as a column, also where it was one bool for all."""
        return np.broadcast_to(np.asarray(value, np.bool_), (self.n,))

    def at(self, i: int) -> SequenceView:
        """One step of the chunk on plain ints, with the context that the columns hold: for words about it."""
        life, before = self._lives[int(self._life[i])], int(self._prev[i])
        view = SequenceView(self.facts, PoolState(self.facts))
        view.index, view.has_request = self.first_step + i, life.has_request
        for name in _CONTEXT:
            setattr(view, name, getattr(self, name)[i].item())
        rows = self._layer_rows("cache_len")
        view.prev_rows = life.prev_rows if before < 0 else () if rows is None else rows[before].tolist()
        view.pool.used, view.pool.total = int(self.pool_before[i]), self.pool_total
        values = {name: self._rows[name][i] for name in self.names}
        view.read({n: tuple(v.tolist()) if getattr(v, "ndim", 0) else v.item() for n, v in values.items()})
        return view

    def _ints(self, name: str, absent: int) -> Ints:
        if name not in self.names:
            return np.full(self.n, absent, np.int64)
        return np.asarray(self._rows[name].astype(np.int64))

    # -- context: what every step's sequence looked like before it ---------------------------------------------------

    def _context(self, notes: list[tuple[int, dict[str, Any]]]) -> None:
        n = self.n
        self.removed, self.shifts = np.zeros(n, np.int64), np.zeros(n, np.int64)
        self.shift_discard, self.shift_keep = np.full(n, -1, np.int64), np.full(n, -1, np.int64)
        self.gap, self._ended, self._rolled = (np.zeros(n, np.bool_) for _ in range(3))
        self._late: list[dict[str, Any]] = []
        self._pool_columns()
        self._split_into_lives(notes)
        self._apply_notes(notes)
        self._carry()
        self._accumulate()

    def _split_into_lives(self, notes: list[tuple[int, dict[str, Any]]]) -> None:
        """A life is a sequence from its request on: steps are grouped by it, and the groups by file order."""
        order = np.argsort(self.seq_id, kind="stable")
        ids = self.seq_id[order]
        edges = np.flatnonzero(np.diff(ids)) + 1
        groups = {int(ids[g[0]]): order[g] for g in np.split(np.arange(self.n), edges)}
        self._members: list[Any] = []
        requests: dict[int, list[tuple[int, int, dict[str, Any]]]] = {}
        for ordinal, (step, note) in enumerate(notes):
            if note.get("kind") == "request":
                requests.setdefault(count(note, "seq_id"), []).append((ordinal, step - self.first_step, note))
        for seq_id in [*groups, *(s for s in requests if s not in groups)]:
            steps, asked = groups.get(seq_id, np.zeros(0, np.int64)), requests.get(seq_id, [])
            cuts = [int(np.searchsorted(steps, at)) for _, at, _ in asked] + [len(steps)]
            self._add_life(seq_id, self._checker.sequence(seq_id), steps[: cuts[0]], -1)
            for (ordinal, _, note), a, b in zip(asked, cuts, cuts[1:], strict=False):
                state = SequenceView(self.facts, self._checker.pool)
                state.request(note)
                self._add_life(seq_id, state, steps[a:b], ordinal)

    def _add_life(self, seq_id: int, state: SequenceView, steps: Any, born: int) -> int:
        self._lives.append(state)
        self._members.append(steps)
        self._lives_of.setdefault(seq_id, []).append((born, len(self._lives) - 1))
        return len(self._lives) - 1

    def _apply_notes(self, notes: list[tuple[int, dict[str, Any]]]) -> None:
        checker, seen = self._checker, 0
        gaps: list[tuple[int, int, int]] = []
        for ordinal, (step, note) in enumerate(notes):
            at = step - self.first_step
            kind, seq_id = note.get("kind"), count(note, "seq_id")
            if kind in ("request", "release"):
                checker.pool.active.update(np.unique(self.seq_id[seen:at]).tolist())
                seen = max(seen, at)
            if kind == "request":
                checker.pool.active.add(seq_id)
            elif kind == "release":
                self._release(note, at)
            elif kind in ("shift", "rollback", "finish") or (kind == "gap" and seq_id >= 0):
                self._patch(self._life_at(seq_id, ordinal), note, at)
            elif kind == "gap":
                if not gaps:
                    for other in checker.sequences.keys() - self._lives_of.keys():
                        self._life_at(other, ordinal)
                gaps.append((ordinal, at, len(self._lives)))
                checker.pool.gapped = True
            else:
                checker.index = step
                checker.note(note)
            if kind in ("shift", "rollback") or (kind == "gap" and seq_id < 0):
                self._pool_after(at, -1)
        checker.pool.active.update(np.unique(self.seq_id[seen:]).tolist())
        if gaps:
            self._apply_gaps(np.array(gaps))

    def _apply_gaps(self, gaps: Ints) -> None:
        """Gaps in all sequences at once, life by life: (ordinal, place, lives known by then), ascending."""
        ordinals, places, known = gaps.T
        for lives in self._lives_of.values():
            ends = [born for born, _ in lives[1:]] + [ordinals[-1] + 1]
            for (born, life), end in zip(lives, ends, strict=True):
                begin = max(np.searchsorted(ordinals, born), np.searchsorted(known, life, side="right"))
                own = places[begin : np.searchsorted(ordinals, end)]
                if not len(own):
                    continue
                steps = self._members[life]
                following = np.searchsorted(steps, own)
                self.gap[steps[following[following < len(steps)]]] = True
                if following[-1] == len(steps):
                    self._late.append({"life": life, "note": {"kind": "gap"}})

    def _life_at(self, seq_id: int, ordinal: int) -> int:
        """The life that a note belongs to: the sequence's last one that was born before it."""
        if seq_id not in self._lives_of:
            return self._add_life(seq_id, self._checker.sequence(seq_id), np.zeros(0, np.int64), -1)
        return max(life for born, life in self._lives_of[seq_id] if born < ordinal)

    def _patch(self, life: int, note: dict[str, Any], at: int) -> None:
        """Put a note on the sequence's next step; where there is none in the chunk, on the state it leaves."""
        steps = self._members[life]
        place = int(np.searchsorted(steps, at))
        if place == len(steps):
            self._late.append({"life": life, "note": note})
            return
        i = int(steps[place])
        kind = note.get("kind")
        if kind == "finish":
            self._ended[i] = True
        elif kind == "gap":
            self.gap[i] = True
        else:
            discarded = count(note, "n_discard" if kind == "shift" else "n")
            if kind == "shift":
                self.shifts[i] += 1
                self.shift_discard[i], self.shift_keep[i] = discarded, count(note, "n_keep")
            else:
                self._rolled[i] = True
            if discarded < 0:
                self.gap[i] = True
            else:
                self.removed[i] += discarded

    def _carry(self) -> None:
        """Previous values within each life, from the chunk or from what the life left before it."""
        n = self.n
        self._prev = np.full(n, -1, np.int64)
        self._life = np.zeros(n, np.int64)
        for name in ("n_reused", "prompt_tokens", "max_new_tokens"):
            setattr(self, name, np.full(n, -1, np.int64))
        self.first = np.zeros(n, np.bool_)
        starts = []
        for life, (state, steps) in enumerate(zip(self._lives, self._members, strict=True)):
            if not len(steps):
                continue
            self._prev[steps[1:]] = steps[:-1]
            self._life[steps] = life
            i = int(steps[0])
            starts.append((i, state))
            self.first[i] = state.first
            if state.first and state.has_request and state.n_reused < 0 and "n_reused" in self.names:
                state.n_reused = int(self._rows["n_reused"][i])
            self.n_reused[steps], self.prompt_tokens[steps] = state.n_reused, state.prompt_tokens
            self.max_new_tokens[steps] = state.max_new_tokens
        inner = self._prev >= 0
        for name, source in (("prev_len", self.seq_len), ("prev_first", self.cache_first), ("prev_t_ns", self.t_ns),
                             ("_prev_phase", self.phase), ("prev_forward_id", self.forward_id)):  # fmt: skip
            setattr(self, name, np.where(inner, source[self._prev], -1))
        self.prev_index = np.where(inner, self._prev + self.first_step, -2)
        for i, state in starts:
            self.prev_len[i], self.prev_first[i], self.prev_t_ns[i] = state.prev_len, state.prev_first, state.prev_t_ns
            self._prev_phase[i], self.prev_forward_id[i] = state.prev_phase, state.prev_forward_id
            self.prev_index[i] = state.prev_index
            self.gap[i] |= state.gap
            self._ended[i] |= state.finished
            self.removed[i] += state.removed
            if not self.shifts[i]:
                self.shift_discard[i], self.shift_keep[i] = state.shift_discard, state.shift_keep
            self.shifts[i] += state.shifts
        has_request = np.zeros(n, np.bool_)
        for i, state in starts:
            has_request[i] = state.has_request
        over = (self._prev_phase == PREFILL) | (self.first & has_request)
        self.prefill_ended = over & (self.phase != PREFILL)  # and, in _accumulate, only where nothing was generated
        self.later = ~self.first
        self.begins_timed = self.first & ((self.prev_t_ns >= 0) | (self.t_ns < 0))
        self.interleaved = self.later & (self.prev_index != np.arange(n) + self.first_step - 1)

    def _accumulate(self) -> None:
        """Running sums within each life."""
        prefill, verify = self.phase == PREFILL, self.phase == VERIFY
        grew_known = self.column(self.grew_known)
        kept = np.where(grew_known, self.grew, 0) - self.removed
        accepted = np.maximum(self.n_accepted, 0)
        generated = np.where(prefill, 0, 1 + np.where(verify, accepted, 0))
        fed = np.where(prefill, np.maximum(self.n_tokens, 0), 0)
        self.kept, self.kept_known = self._running(kept, "kept"), ~self._ever(~grew_known, "kept_known")
        self.generated = self._running(generated, "generated")
        self.prefill_ended &= self.generated == generated
        said = (self.phase == DECODE) | (verify & (self.n_accepted >= 0))
        self.generated_known = ~self._ever(~prefill & ~said, "generated_known")
        self.prompt_fed = self._running(fed, "prompt_fed")
        self.prompt_fed_known = ~self._ever(self._rolled | (prefill & (self.n_tokens < 0)), "prompt_fed_known")
        self.gapped = self._ever(self.gap, "gapped")
        # a finish is behind the step that carries it, an ending noted between steps is before the next one
        finished = np.zeros(self.n, np.bool_)
        inner = self._prev >= 0
        self._ends = (self.finish != 0) | self.column(self.sampled_an_end)
        finished[inner] = self._ends[self._prev[inner]]
        self.finished = self._ever(finished | self._ended, "finished")

    def _running(self, values: Ints, name: str) -> Ints:
        out = np.empty(self.n, np.int64)
        for state, steps in zip(self._lives, self._members, strict=True):
            if len(steps):
                out[steps] = np.cumsum(values[steps]) + getattr(state, name)
        return out

    def _ever(self, flags: Bools, name: str) -> Bools:
        """Whether a flag was raised in this life up to each step. States keep the `_known` ones the other way round."""
        out = np.empty(self.n, np.bool_)
        for state, steps in zip(self._lives, self._members, strict=True):
            if len(steps):
                before = not getattr(state, name) if name.endswith("_known") else getattr(state, name)
                out[steps] = True if before else np.logical_or.accumulate(flags[steps])
        return out

    # -- the pool ----------------------------------------------------------------------------------------------------

    def _pool_columns(self) -> None:
        pool = self._checker.pool
        self.pool_before = np.empty(self.n, np.int64)
        self.pool_before[0], self.pool_before[1:] = pool.used, self.kv_used[:-1]
        self._pool_end = int(self.kv_used[-1])

    def _pool_after(self, at: int, used: int) -> None:
        if at < self.n:
            self.pool_before[max(at, 0)] = used
        else:
            self._pool_end = used

    def _fix_pool_total(self, upto: int) -> None:
        pool = self._checker.pool
        if pool.total < 0:
            known = np.flatnonzero((self.kv_used[:upto] >= 0) & (self.kv_free[:upto] >= 0))
            if len(known):
                pool.total = int(self.kv_used[known[0]] + self.kv_free[known[0]])

    def _release(self, note: dict[str, Any], at: int) -> None:
        self._fix_pool_total(max(at, 0))
        self._checker.index = self.first_step + at
        self._checker.note(note)
        self._pool_after(at, self._checker.pool.used)

    @cached_property
    def pool_total(self) -> int:
        """What used + free must be."""
        self._fix_pool_total(self.n)
        return self._checker.pool.total

    # -- sums over layers --------------------------------------------------------------------------------------------

    def _layer_rows(self, name: str) -> Any:
        """(n, layers), or None where the trace keeps no count a layer."""
        return self._rows[name] if name in self.names and self._rows[name].ndim == 2 else None

    def _extent(self, name: str, layers: list[int] | tuple[int, ...]) -> tuple[Ints, Ints, Ints]:
        rows = self._layer_rows(name)
        absent = np.full(self.n, -1, np.int64)
        inside = [] if rows is None else [i for i in layers if i < rows.shape[1]]
        if not inside:
            return absent, absent, np.full(self.n, len(layers), np.int64)
        some = rows if inside == list(range(rows.shape[1])) else rows[:, inside]
        least, most = some.min(axis=1), some.max(axis=1)
        unseen = np.full(self.n, len(layers) - len(inside), np.int64)
        if layers is self.facts.full_layers:
            unseen += rows.shape[1] > self.facts.n_layers  # a layer that the run does not describe
        if (least < 0).any():
            missing = some < 0
            unseen += missing.sum(axis=1)
            least = np.where(missing, np.iinfo(np.int32).max, some).min(axis=1)
            least = np.where(most < 0, -1, least)
            most = np.maximum(most, -1)
        return least.astype(np.int64), most.astype(np.int64), unseen

    def _first_of(self, name: str) -> Ints:
        rows, first = self._layer_rows(name), self.facts.first_full
        if not self.facts.has_full:
            return np.full(self.n, -1, np.int64)
        if rows is None:
            return self._ints(name, -1)
        if first >= rows.shape[1]:
            return np.full(self.n, -1, np.int64)
        return np.asarray(rows[:, first].astype(np.int64))

    @cached_property
    def _cache(self) -> tuple[Ints, Ints, Ints]:
        return self._extent("cache_len", self.facts.full_layers)

    @cached_property
    def _before(self) -> tuple[Ints, Ints, Ints]:
        return self._extent("cache_before", self.facts.full_layers)

    cache_first = cached_property(lambda self: self._first_of("cache_len"))
    before_first = cached_property(lambda self: self._first_of("cache_before"))
    cache_min = property(lambda self: self._cache[0])
    cache_max = property(lambda self: self._cache[1])
    cache_unseen = property(lambda self: self._cache[2])
    before_min = property(lambda self: self._before[0])
    before_max = property(lambda self: self._before[1])
    before_unseen = property(lambda self: self._before[2])

    @cached_property
    def windows(self) -> list[WindowRows]:
        """What each group of window layers holds."""
        return [
            WindowRows(w, slack, *self._extent("cache_len", layers)) for w, slack, layers in self.facts.window_sizes
        ]

    recurrent_max = property(lambda self: self._extent("cache_len", self.facts.recurrent_layers)[1])
    recurrent_unseen = property(lambda self: self._extent("cache_len", self.facts.recurrent_layers)[2])

    @cached_property
    def _shared(self) -> tuple[Ints, Ints]:
        differ, unseen = np.zeros(self.n, np.int64), np.zeros(self.n, np.int64)
        rows = self._layer_rows("cache_len")
        for layer, owner in self.facts.shared_layers:
            if rows is None or max(layer, owner) >= rows.shape[1]:
                unseen += 1
                continue
            seen = (rows[:, layer] >= 0) & (rows[:, owner] >= 0)
            differ += seen & (rows[:, layer] != rows[:, owner])
            unseen += ~seen
        return differ, unseen

    shared_differ = property(lambda self: self._shared[0])
    shared_unseen = property(lambda self: self._shared[1])

    @cached_property
    def _growth(self) -> tuple[Ints, Ints, Bools]:
        """(least, most, known) rows that full layers gained; only verify steps ask."""
        out = np.zeros(self.n, np.int64), np.zeros(self.n, np.int64), np.zeros(self.n, np.bool_)
        ask = np.flatnonzero(self.phase == VERIFY)
        rows = self._layer_rows("cache_len")
        full = self.facts.full_layers
        if not len(ask) or rows is None or not full or full[-1] >= rows.shape[1]:
            return out
        after = rows[ask][:, full].astype(np.int64)
        old = self._left_behind(ask, rows, full)
        before = self._layer_rows("cache_before")
        if before is not None:
            inside = [i for i in range(len(full)) if full[i] < before.shape[1]]
            seen = before[ask][:, [full[i] for i in inside]].astype(np.int64)
            old[:, inside] = np.where(seen >= 0, seen, old[:, inside])
        grew = after - old
        out[0][ask], out[1][ask] = grew.min(axis=1), grew.max(axis=1)
        out[2][ask] = ((after >= 0) & (old >= 0)).all(axis=1)
        return out

    def _left_behind(self, ask: Any, rows: Any, full: list[int]) -> Ints:
        """(len(ask), full layers) rows the sequence's own last step left, -1 where unknown."""
        old = rows[np.maximum(self._prev[ask], 0)][:, full].astype(np.int64)
        for k in np.flatnonzero(self._prev[ask] < 0):
            i = int(ask[k])
            state = self._lives[int(self._life[i])]
            if self.first[i]:
                old[k] = self.n_reused[i]
                continue
            left = state.prev_rows
            old[k] = [left[layer] if layer < len(left) else -1 for layer in full]
        removed = np.where(self.first, 0, self.removed)[ask]
        return np.where(old >= 0, old - removed[:, None], -1)

    growth_min = property(lambda self: self._growth[0])
    growth_max = property(lambda self: self._growth[1])
    growth_known = property(lambda self: self._growth[2])

    # -- ids ---------------------------------------------------------------------------------------------------------

    @cached_property
    def _drafts(self) -> Any:
        """(n, k) draft ids; k is 0 where none are recorded."""
        if "draft_ids" not in self.names:
            return np.zeros((self.n, 0), np.int64)
        ids = self._rows["draft_ids"]
        return ids if ids.ndim == 2 else ids[:, None]

    def _among(self, upto: Ints) -> Bools:
        return np.arange(self._drafts.shape[1]) < upto[:, None]

    @property
    def drafts_unseen(self) -> Ints:
        """Drafts whose id is absent."""
        there = self._among(self.n_drafted) & (self._drafts != ABSENT_I64)
        return np.asarray(np.maximum(self.n_drafted, 0) - there.sum(axis=1))

    @property
    def drafts_outside(self) -> Ints:
        """Drafts whose id is outside the vocabulary."""
        ids = self._drafts
        outside = (ids != ABSENT_I64) & ((ids < 0) | (ids >= self.facts.vocab_size))
        return np.asarray((self._among(self.n_drafted) & outside).sum(axis=1))

    @property
    def block_unseen(self) -> Ints:
        """Accepted tokens of a step whose id is absent."""
        there = (self._among(self.n_accepted) & (self._drafts != ABSENT_I64)).sum(axis=1)
        return np.asarray(np.maximum(self.n_accepted, 0) - there + (self.token_id == ABSENT_I64))

    @property
    def eos_at(self) -> Ints:
        """Place of the first end id among a step's own accepted tokens."""
        out = np.full(self.n, NO_END, np.int64)
        if not self.facts.eos:
            return out
        ends = np.array([i for i in self.facts.eos if -(2**63) <= i < 2**63], np.int64)
        block = np.concatenate([self.token_id[:, None], self._drafts], axis=1)
        inside = np.arange(block.shape[1]) <= self.n_accepted[:, None]
        inside[:, 0] = True
        hit = np.isin(block, ends) & inside
        return np.where(hit.any(axis=1), hit.argmax(axis=1), NO_END)

    # -- times -------------------------------------------------------------------------------------------------------

    def time(self, part: str) -> Any:
        """Milliseconds of a part over all layers, NaN where absent."""
        if part not in self._times:
            self._times[part] = self._time(part + "_ms")
        return self._times[part]

    def _time(self, name: str) -> Any:
        if name not in self.names:
            return np.full(self.n, np.nan)
        values = self._rows[name]
        if values.ndim == 1:
            return values.astype(np.float64)
        total = values.sum(axis=1, dtype=np.float64)
        missing = np.isnan(total)
        if missing.any():
            some = values[missing].astype(np.float64)
            total[missing] = np.where(np.isnan(some).all(axis=1), np.nan, np.nansum(some, axis=1))
        return total

    def time_values(self, part: str) -> int:
        """How many recorded numbers `time(part)` adds up."""
        name = part + "_ms"
        return self._rows[name].shape[1] if name in self.names and self._rows[name].ndim == 2 else 1

    @staticmethod
    def or_zero(time: Any) -> Any:
        """Times, 0 where absent."""
        return np.nan_to_num(time, nan=0.0, posinf=np.inf, neginf=-np.inf)

    @property
    def layer_excess(self) -> Any:
        """How far a layer's products exceed its gemm by more than 0.1 %."""
        gemm = self._layer_rows("gemm_ms")
        if gemm is None:
            return np.full(self.n, np.nan)
        parts = [self._layer_rows(p) for p in ("qkv_ms", "o_ms", "gate_up_ms", "down_ms")]
        layered = [p for p in parts if p is not None and p.shape == gemm.shape]
        if not layered:
            return np.full(self.n, np.nan)
        total = sum(self.or_zero(p.astype(np.float64)) for p in layered)
        excess = total - gemm.astype(np.float64) * 1.001
        return np.where(np.isnan(gemm).all(axis=1), np.nan, np.where(np.isnan(gemm), -np.inf, excess).max(axis=1))

    # -- leaving -----------------------------------------------------------------------------------------------------

    def leave(self) -> None:
        """Leave each sequence's state as its last step in the chunk would."""
        checker = self._checker
        rows = self._layer_rows("cache_len")
        for state, steps in zip(self._lives, self._members, strict=True):
            if not len(steps):
                continue
            i = int(steps[-1])
            state.first, state.later, state.begins_timed = False, True, False
            state.prev_index = self.first_step + i
            state.prev_len, state.prev_first = int(self.seq_len[i]), int(self.cache_first[i])
            state.prev_rows = () if rows is None else rows[i].tolist()
            state.prev_t_ns, state.prev_phase = int(self.t_ns[i]), int(self.phase[i])
            state.prev_forward_id = int(self.forward_id[i])
            for name in ("kept", "generated", "prompt_fed"):
                setattr(state, name, int(getattr(self, name)[i]))
            for name in ("kept_known", "generated_known", "prompt_fed_known", "gapped"):
                setattr(state, name, bool(getattr(self, name)[i]))
            state.finished = bool(self.finished[i] or self._ends[i])
            state.gap, state.removed, state.shifts, state.shift_discard, state.shift_keep = False, 0, 0, -1, -1
        for seq_id, lives in self._lives_of.items():
            checker.sequences[seq_id] = self._lives[lives[-1][1]]
        for late in self._late:
            self._lives[late["life"]].note(late["note"])
        self._fix_pool_total(self.n)
        checker.pool.used = self._pool_end
        checker.index = self.first_step + self.n
