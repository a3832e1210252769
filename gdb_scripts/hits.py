"""From one stop to hits: what a hook reads there, warm-ups told apart, one hit for each sequence that a forward feeds.

Engines that batch put the tokens of several sequences into one forward and know them by slots. `slot` is then a slice
with one number a token; fields that are one value a sequence are taken at its first token, and expressions that say
`$slot` are read once a slot.
"""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional

from gdb_scripts import expressions as ex
from gdb_scripts import layout, straight
from gdb_scripts.layout import Absent, Memory, Scope
from gdb_scripts.probe import SLOT, Hook
from traces import fields

Values = Dict[str, Any]
_FAILURES = 20


class Hit(NamedTuple):
    """What one hook read: fields, after-fields, accumulators (raw sums), absences, facts (first hit), and when.

    slot, outputs: see probe.Hook.conditions. forward_id: the same for all hits of one forward; last: no other hit of
    that forward follows. skipped: a warm-up; nothing else of it counts.
    """

    hook: Hook
    values: Values
    after: Values
    sums: Values
    missing: Dict[str, Absent]
    facts: Values
    t_ns: int
    slot: Optional[int] = None
    outputs: Optional[List[int]] = None
    forward_id: Optional[int] = None
    last: bool = True
    skipped: bool = False


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
        self._shared = layout.plan({k: v for k, v in wanted.items() if k not in of_slot}, scope, caps)
        self._of_slot = layout.plan(of_slot, scope, caps)
        self._facts = layout.plan(facts, scope)
        self._always_absent = {n.partition(".")[2]: why for n, why in self._shared.absent.items()}
        self._straight = straight.compiled(self._shared, ("reads", "after", "sums")) if self._is_plain() else None
        self._failures = 0

    def _is_plain(self) -> bool:
        """Whether a stop is one hit whose values are taken as they are read."""
        if self._hook.conditions or self._of_slot.fields or self._of_slot.absent:
            return False
        if any(name.startswith("sums.") for name in self._shared.absent):
            return False
        for name, node in self._hook.reads.items():
            known = fields.FIELDS.get(name)
            if isinstance(node, ex.Slice) and known is not None and known.per_layer == "no" and name != "draft_ids":
                return False
        return True

    def hits(self, memory: Memory, t_ns: int, with_facts: bool, forward_id: Optional[int] = None) -> List[Hit]:
        """The hits of one stop, the sequences in the order of their first tokens. with_facts: read the run's facts."""
        if self._straight is not None and not with_facts:
            try:
                reads, after, sums = self._straight(memory)
                return [Hit(self._hook, reads, after, sums, self._always_absent, {}, t_ns, None, None, forward_id)]
            except Absent:
                self._failures += 1
                if self._failures > _FAILURES:  # something is missing at every hit: go straight to what says so
                    self._straight = None
        values, missing = self._shared.read(memory)
        for name, why in self._shared.absent.items():
            missing[name] = why
        if values.get("when.skip"):
            return [Hit(self._hook, {}, {}, {}, {}, {}, t_ns, skipped=True)]
        facts = self._facts.read(memory)[0] if with_facts else {}
        slots = values.pop("when.slot", None)
        if not isinstance(slots, list):
            return [self._hit(memory, t_ns, values, missing, facts, slots, None, forward_id, True)]
        places: Dict[int, List[int]] = {}
        for at, slot in enumerate(slots):
            places.setdefault(slot, []).append(at)
        last = list(places)[-1] if places else None
        return [
            self._hit(memory, t_ns, values, missing, facts, slot, tokens, forward_id, slot == last)
            for slot, tokens in places.items()
        ]

    def _hit(
        self,
        memory: Memory,
        t_ns: int,
        values: Values,
        missing: Dict[str, Absent],
        facts: Values,
        slot: Optional[int],
        tokens: Optional[List[int]],
        forward_id: Optional[int],
        last: bool,
    ) -> Hit:
        """One sequence's hit; tokens: which of the forward's are its own, None where they all are."""
        if self._of_slot.fields and slot is not None:
            own, absent = self._of_slot.read(_WithSlot(memory, slot))
            values, missing = {**values, **own}, {**missing, **absent}
        missing = {**missing, **self._of_slot.absent}
        groups: Dict[str, Values] = {"when": {}, "reads": {}, "after": {}, "sums": {}}
        for name, value in values.items():
            group, _, field = name.partition(".")
            groups[group][field] = value
        reads = {name: _of_sequence(name, value, tokens) for name, value in groups["reads"].items()}
        if tokens is not None:
            reads["n_tokens"] = len(tokens)
        outputs = groups["when"].get("outputs")
        if isinstance(outputs, list) and tokens is not None:
            outputs = [outputs[at] for at in tokens] if len(outputs) > max(tokens) else None
        absent = {n.partition(".")[2]: why for n, why in missing.items() if n.startswith(("reads.", "after."))}
        sums = groups["sums"]
        if groups["when"].get("timed", 1) == 0:
            sums = {}
            for field in self._hook.accumulators:
                absent[field] = Absent("not_measured", "the engine's timers are switched off")
        return Hit(
            self._hook, reads, groups["after"], sums, absent, facts, t_ns, slot,
            outputs if isinstance(outputs, list) else None, forward_id, last,
        )  # fmt: skip


class _WithSlot(Memory):
    """Memory in which `$slot` has a value."""

    def __init__(self, memory: Memory, slot: int) -> None:
        self._memory, self._slot = memory, slot
        self.read_block = memory.read_block  # type: ignore[method-assign]

    def read_variable(self, key: str, size: int) -> bytes:
        if key == "$" + SLOT:
            return self._slot.to_bytes(size, "little", signed=True)
        return self._memory.read_variable(key, size)


def _of_sequence(name: str, value: Any, tokens: Optional[List[int]]) -> Any:
    """A field with one value a token, at the sequence's first token; anything else as it is."""
    known = fields.FIELDS.get(name)
    if not isinstance(value, list) or known is None or known.per_layer != "no" or name == "draft_ids":
        return value
    at = tokens[0] if tokens else 0
    return value[at] if at < len(value) else None
