"""From one stop to hits: what a hook reads there, warm-ups told apart, one hit for each sequence that a forward feeds.

Engines that batch put the tokens of several sequences into one forward and know them by slots. `slot` is then a slice
with one number a token; fields that are one value a sequence are taken at its first token, and expressions that say
`$slot` are read once a slot.
"""

from __future__ import annotations

from operator import itemgetter
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from gdb_scripts import expressions as ex
from gdb_scripts import layout
from gdb_scripts.layout import NOT_MEASURED, Absent, Memory, Scope
from gdb_scripts.probe import SLOT, Hook
from traces import fields

Values = Dict[str, Any]
_GROUPS = ("when", "reads", "after", "sums")


class Hit(NamedTuple):
    """What one hook read: fields, after-fields, accumulators (raw sums), absences, facts (first hit), and when, on the
    clock of time.monotonic_ns (None where there is no clock).

    slot, outputs: see probe.Hook.conditions. forward_id: the same for all hits of one forward; last: no other hit of
    that forward follows. skipped: a warm-up; nothing else of it counts. thread: what tells the thread from others, None
    where nothing does.
    """

    hook: Hook
    values: Values
    after: Values
    sums: Values
    missing: Dict[str, Absent]
    facts: Values
    t_ns: Optional[int]
    slot: Optional[int] = None
    outputs: Optional[Sequence[int]] = None
    forward_id: Optional[int] = None
    last: bool = True
    skipped: bool = False
    thread: Optional[int] = None


class _Part:
    """Some of a hook's expressions, read together."""

    def __init__(self, wanted: Dict[str, ex.Node], scope: Scope, caps: Dict[str, int]) -> None:
        self.plan = layout.plan(wanted, scope, caps)
        self.absent = self.plan.absent
        self.is_empty = not wanted
        self._groups = []
        for group in _GROUPS:
            names = [name for name in self.plan.places if name.startswith(group + ".")]
            places = [self.plan.places[name] for name in names]
            # of one place alone itemgetter would give no tuple
            self._groups.append(([name[len(group) + 1 :] for name in names], itemgetter(*places, 0, 0)))

    def read(self, memory: Memory) -> Tuple[List[Values], Dict[str, Absent]]:
        """(a dict a group, what is absent as group.field)"""
        numbers, complete = self.plan.numbers(memory)
        groups = [dict(zip(names, pick(numbers))) if names else {} for names, pick in self._groups]
        if complete:
            return groups, self.absent
        missing = self.absent.copy()
        for group, values in zip(_GROUPS, groups):
            for name in [name for name, value in values.items() if isinstance(value, Absent)]:
                missing["%s.%s" % (group, name)] = values.pop(name)
        return groups, missing


class HookPlan:
    """What one hook reads, resolved for the place where it stopped."""

    def __init__(self, hook: Hook, facts: Dict[str, ex.Node], scope: Scope) -> None:
        self._hook = hook
        wanted: Dict[str, ex.Node] = {"when." + k: v for k, v in hook.conditions.items()}
        wanted.update({"reads." + k: v for k, v in hook.reads.items()})
        wanted.update({"after." + k: v for k, v in hook.after.items()})
        wanted.update({"sums." + k: a.node for k, a in hook.accumulators.items()})
        caps = {group + k: cap for k, cap in hook.caps.items() for group in ("reads.", "when.", "after.")}
        of_slot = {k: v for k, v in wanted.items() if ex.mentions(v, SLOT)}
        self._shared = _Part({k: v for k, v in wanted.items() if k not in of_slot}, scope, caps)
        self._of_slot = _Part(of_slot, scope, caps)
        self._facts = layout.plan(facts, scope)
        self._always_absent = _named(self._shared.absent)
        self._is_plain = self._taken_as_read()
        self._feeds_several = "slot" in hook.conditions

    @property
    def plan(self) -> layout.Plan:
        """What is read once a stop."""
        return self._shared.plan

    @property
    def unresolved(self) -> Dict[str, Absent]:
        """group.field -> why no hit here can have it."""
        facts = {"facts." + name: why for name, why in self._facts.absent.items()}
        return {**self._shared.absent, **self._of_slot.absent, **facts}

    def _taken_as_read(self) -> bool:
        """Whether a stop is one hit whose values need no sorting."""
        if self._hook.conditions or not self._of_slot.is_empty:
            return False
        for name, node in self._hook.reads.items():
            known = fields.FIELDS.get(name)
            if isinstance(node, ex.Slice) and known is not None and known.per_layer == "no" and name != "draft_ids":
                return False
        return True

    def hits(
        self, memory: Memory, t_ns: Optional[int], with_facts: bool, forward_id: Optional[int] = None
    ) -> List[Hit]:
        """The hits of one stop, the sequences in the order of their first tokens. with_facts: read the run's facts.
        forward_id: a number for the forward; hits of one that can feed several sequences have it."""
        (when, reads, after, sums), missing = self._shared.read(memory)
        if when.get("skip"):
            return [Hit(self._hook, {}, {}, {}, {}, {}, t_ns, skipped=True)]
        facts = self._facts.read(memory)[0] if with_facts else {}
        absent = self._always_absent if missing is self._shared.absent else _named(missing)
        if self._is_plain:
            return [Hit(self._hook, reads, after, sums, absent, facts, t_ns)]
        forward_id = forward_id if self._feeds_several else None
        whole = Hit(self._hook, reads, after, sums, absent, facts, t_ns, None, None, forward_id)
        slots, outputs = when.get("slot"), when.get("outputs")
        whole = whole._replace(outputs=outputs if isinstance(outputs, tuple) else None)
        if isinstance(slots, tuple):
            found = self._of_slots(whole, memory, slots)
        else:
            found = [self._of_sequence(whole, memory, slots, None)]
        return [self._untimed(hit) for hit in found] if when.get("timed") == 0 else found

    def _untimed(self, hit: Hit) -> Hit:
        off = Absent(NOT_MEASURED, "the engine's timers are switched off")
        return hit._replace(sums={}, missing={**hit.missing, **dict.fromkeys(self._hook.accumulators, off)})

    def _of_slots(self, whole: Hit, memory: Memory, slots: Sequence[int]) -> List[Hit]:
        places: Dict[int, List[int]] = {}
        for at, slot in enumerate(slots):
            places.setdefault(slot, []).append(at)
        found = [self._of_sequence(whole, memory, slot, tokens) for slot, tokens in places.items()]
        return [hit._replace(last=False) for hit in found[:-1]] + found[-1:]

    def _of_sequence(self, hit: Hit, memory: Memory, slot: Optional[int], tokens: Optional[List[int]]) -> Hit:
        """One sequence's part of a hit; tokens: which of the forward's are its own, None where they all are."""
        reads = {name: _at_first(name, value, tokens) for name, value in hit.values.items()}
        after, missing, outputs = hit.after, hit.missing, hit.outputs
        if not self._of_slot.is_empty and slot is not None:
            (_, own, own_after, own_sums), absent = self._of_slot.read(_WithSlot(memory, slot))
            reads.update(own)
            after = {**after, **own_after}
            hit = hit._replace(sums={**hit.sums, **own_sums})
            missing = {**missing, **_named(absent)} if absent else missing
        if tokens is not None:
            reads["n_tokens"] = len(tokens)
            if outputs is not None and len(tokens) != len(outputs):
                outputs = tuple(outputs[at] for at in tokens) if len(outputs) > tokens[-1] else None
        return hit._replace(values=reads, after=after, missing=missing, slot=slot, outputs=outputs)


def _named(missing: Dict[str, Absent]) -> Dict[str, Absent]:
    """What is absent by the field's name; sums and conditions are not fields."""
    return {n.partition(".")[2]: why for n, why in missing.items() if n.startswith(("reads.", "after."))}


class _WithSlot(Memory):
    """Memory in which `$slot` has a value."""

    def __init__(self, memory: Memory, slot: int) -> None:
        self._memory, self._slot = memory, slot
        self.errors, self.read_block = memory.errors, memory.read_block

    def read_variable(self, key: str, size: int) -> bytes:
        if key == "$" + SLOT:
            return self._slot.to_bytes(size, "little", signed=True)
        return self._memory.read_variable(key, size)


def _at_first(name: str, value: Any, tokens: Optional[List[int]]) -> Any:
    """A field with one value a token, at the sequence's first token; anything else as it is."""
    known = fields.FIELDS.get(name)
    if not isinstance(value, tuple) or known is None or known.per_layer != "no" or name == "draft_ids":
        return value
    at = tokens[0] if tokens else 0
    return value[at] if at < len(value) else None
