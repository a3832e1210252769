"""The `stop` back-end: one breakpoint a hook, one stop a hit, read in few blocks, and on.

The expressions of a hook are resolved at its first hit and kept; a hit then costs the stop itself, an argument and as
many block reads as there are neighbourhoods. A hook that turns out too dear is switched off and the trace says so.
"""

from __future__ import annotations

import os
import time
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Set, Tuple

from gdb_scripts import host
from gdb_scripts.hits import Hit, HookPlan, Values
from gdb_scripts.layout import NOT_MEASURED, Absent
from gdb_scripts.probe import Hook, Probe, written

_DEAR_IN_A_ROW = 3


class _Plans(NamedTuple):
    """What one hook reads, resolved for the place where it stopped. reads: None where nothing is to be read."""

    reads: Optional[HookPlan]
    memory: host.GdbMemory
    symbols: Dict[str, Any]
    registers: Dict[str, str]


class StopBackend:
    """Breakpoints for every hook of a probe.

    on_hit(hit) is called at each; it returns True to stop the program there. tell: one line for the user. lost(why):
    steps will be missing from here on. told_missing: (section, group.field) of what was told to have no value.
    """

    def __init__(
        self,
        probe: Probe,
        on_hit: Callable[[Hit], bool],
        tell: Callable[[str], None],
        lost: Callable[[str], None],
    ) -> None:
        self._probe, self._on_hit, self._tell, self._lost = probe, on_hit, tell, lost
        self._plans: Dict[Tuple[str, int], _Plans] = {}
        self._breakpoints: List[host.Stop] = []
        self._of_stop: Dict[host.Stop, _Plans] = {}
        self._several_places: Set[host.Stop] = set()
        self._is_set = False
        self._facts_read = False
        self._seen: Tuple[Optional[Hook], List[Values]] = (None, [])
        self._dear = 0
        self._told_errors: Set[str] = set()
        self.told_missing: Set[Tuple[str, str]] = set()
        self._unmatched: List[Hook] = []
        self.hits = 0
        self.timed_hits = 0
        self.spent_s = 0.0
        self.off_because = ""

    def install(self) -> None:
        """Set the breakpoints, once there is a program; places that are not loaded yet stay pending. What can be seen
        to be wrong already is told. Raises layout.Absent where a hook cannot be set at all."""
        host.quiet()
        host.on_new_symbols(self._new_symbols)
        if host.program():
            self._set()

    def _set(self) -> None:
        self._is_set = True
        self._unmatched = self._set_hooks(self._probe.hooks)

    def _set_hooks(self, hooks: List[Hook]) -> List[Hook]:
        """Breakpoints for these; those whose pattern matches nothing that is loaded are given back."""
        unmatched = []
        for hook in hooks:
            places = host.location(hook)
            for place in places:
                self._breakpoints.append(self._breakpoint(hook, place))
            if places:
                self._look_ahead(hook, places)
            else:
                unmatched.append(hook)
        return unmatched

    def _look_ahead(self, hook: Hook, places: List[str]) -> None:
        """Tell what is wrong with a hook as soon as its function is loaded, not when the program has run past it."""
        found = [at for place in places for at in host.where(place) if not host.is_stub(at[0])]
        own: Dict[str, int] = {}
        for pc, _, _ in found:
            function = host.function_at(pc)
            if function is not None and not host.is_elsewhere(pc, hook):
                name, file, line = function
                own.setdefault("%s at %s:%d" % (name, os.path.basename(file), line), pc)
        if found and all(host.function_at(pc) is None for pc, _, _ in found):
            self._tell_no_debug_information(hook)
        if len(own) > 1 and hook.pattern is None:
            text = "%s hooks %d functions: %s; its parameters, or file =, tell them apart"
            self._error(text % (self._key(hook), len(own), ", ".join(own)))
        for pc in own.values():
            self._tell_unresolved(hook, pc, self._plan(hook, self._scope(hook, pc)))

    def _key(self, hook: Hook) -> str:
        return "%s: [%s] function = %s" % (self._probe.path, hook.section, hook.function)

    def _tell_no_debug_information(self, hook: Hook) -> None:
        self._error(
            "%s: has no debug information here, so nothing of it is recorded; compile with -g, or freeze the layout of "
            "its unstripped twin (stepscope probe layout)" % self._key(hook)
        )

    def _tell_unresolved(self, hook: Hook, pc: int, plan: HookPlan) -> None:
        """Which expressions of a hook mean nothing at its place."""
        if plan.unresolved and not host.has_variables(pc):
            self._error("%s: its debug information has no variables (-g1?); compile with -g" % self._key(hook))
            self.told_missing.update((hook.section, name) for name in plan.unresolved)
            return
        self.tell_missing(hook, plan.unresolved)

    def tell_missing(self, hook: Hook, missing: Dict[str, Absent]) -> None:
        """One line for each group.field that has no value, at its first time."""
        for name, absent in missing.items():
            if absent.why != NOT_MEASURED and (hook.section, name) not in self.told_missing:
                self.told_missing.add((hook.section, name))
                place = "[%s] %s = %s" % written(self._probe, hook, name)
                self._error("%s: %s: %s" % (self._probe.path, place, absent))

    def remove(self, at_a_stop: bool = False) -> None:
        """Take the breakpoints away; at a stop, when gdb is idle: deleting one inside its own stop() can crash gdb."""
        breakpoints, self._breakpoints = self._breakpoints, []
        self._is_set, self._unmatched = True, []

        def delete() -> None:
            for breakpoint_ in breakpoints:
                if breakpoint_.is_valid():
                    breakpoint_.delete()

        if at_a_stop:
            host.defer(delete)
        else:
            delete()

    def flush(self) -> None:
        """Read what the target still holds."""

    def begin_again(self) -> None:
        """Another trace begins with the next hit: what was seen so far belongs to the last one."""
        self._facts_read = False

    def ended(self) -> None:
        """The program is over."""

    def reconsider(self) -> None:
        """What is wanted has changed: break-on or follow."""

    def pending(self) -> List[str]:
        """Functions to hook that are in nothing that is loaded."""
        waiting = [b.name for b in self._breakpoints if b.is_pending] + [h.function for h in self._unmatched]
        return list(dict.fromkeys(waiting))

    def places(self) -> List[str]:
        """A line for each place where a hook stops."""
        return [
            "%-8s %s at %s0x%x" % (hook.event, hook.function, "%s:%d, " % (file, number) if file else "", pc)
            for hook in self._probe.hooks
            for place in host.location(hook)
            for pc, file, number in host.where(place)
        ]

    def _breakpoint(self, hook: Hook, place: str) -> host.Stop:
        def on_hit(here: host.Here) -> bool:
            return self._hit(hook, here, breakpoint_)

        breakpoint_ = host.Stop(place, on_hit, self._error, hook.function)
        return breakpoint_

    def _hit(self, hook: Hook, here: host.Here, stop_: host.Stop) -> bool:
        if self.off_because:
            return False
        began_ns = time.monotonic_ns()
        plans, known = self._of_stop.get(stop_), True
        if plans is None:
            plans, known = self._plans_at(hook, here, stop_)
        reads, memory = plans.reads, plans.memory.at(here)
        if reads is None:
            return False
        with_facts = hook.event == "forward" and not self._facts_read
        found = here.whole(lambda: reads.hits(memory, began_ns, with_facts, self.hits))
        before, self._seen = self._seen, (hook, [hit.values for hit in found])
        if before == self._seen and host.is_told_again(here):
            return False
        stop = False
        for hit in found:
            self._facts_read = self._facts_read or (with_facts and not hit.skipped)
            stop = self._on_hit(hit._replace(thread=self._thread())) or stop
        self.hits += 1
        self._charge((time.monotonic_ns() - began_ns) / 1e9, resolved_before=known)
        return stop

    def _plans_at(self, hook: Hook, here: host.Here, stop_: host.Stop) -> Tuple[_Plans, bool]:
        """What to read at the place of this hit, and whether it was seen before."""
        place = hook.section, here.pc
        known = place in self._plans
        if not known:
            self._plans[place] = self._resolved(hook, here)
        if stop_ not in self._several_places:
            if stop_.only_place is None:
                self._several_places.add(stop_)
            else:
                self._of_stop[stop_] = self._plans[place]
        return self._plans[place], known

    def _resolved(self, hook: Hook, here: host.Here) -> _Plans:
        """What to read at a place that was not seen before: nothing where it is no call of the function's own."""
        plans = _Plans(None, host.GdbMemory({}), {}, {})
        if self._is_call(here):
            if host.is_elsewhere(here.pc, hook):
                self._error("%s was inlined here: hits of it are left out" % hook.function)
                self._lost("%s was inlined" % hook.function)
                return plans
            scope = self._scope(hook, here.pc)
            reads = self._plan(hook, scope)
            self._tell_unresolved(hook, here.pc, reads)
            registers = host.in_registers(here, scope.symbols)
            plans = _Plans(reads, host.GdbMemory(scope.symbols, registers), scope.symbols, registers)
        elif not host.is_stub(here.pc):
            self._tell_no_debug_information(hook)
        return plans

    def _plan(self, hook: Hook, scope: Any) -> HookPlan:
        return HookPlan(hook, self._probe.facts if hook.event == "forward" else {}, scope)

    def _is_call(self, here: host.Here) -> bool:
        """Whether a hit is a call of a hook's function; a PLT stub is none."""
        return here.is_real_call()

    def _thread(self) -> Optional[int]:
        """What tells the thread that stopped from others."""
        return host.thread() or None

    def _scope(self, hook: Hook, pc: int) -> Any:
        """What the hook's expressions are about; by its `symbols` a hit's memory is read."""
        return host.GdbScope(pc)

    def _new_symbols(self) -> None:
        self._forget_places()
        host.forget_types()
        if not self._is_set:
            host.defer(self._set_now)  # symbols are not to be looked up while they are being read
        elif self._unmatched:  # a library, whole by now, and the program may be about to run past its functions
            self._unmatched = self._set_hooks(self._unmatched)

    def _forget_places(self) -> None:
        self._plans.clear()
        self._of_stop.clear()
        self._several_places.clear()

    def _set_now(self) -> None:
        if not self._is_set and host.program():
            self._set()

    def _charge(self, seconds: float, resolved_before: bool) -> None:
        """Count a hit's cost; the first at a place resolves names and is not held against it."""
        if not resolved_before:
            return
        self.spent_s += seconds
        self.timed_hits += 1
        if seconds * 1000 <= self._probe.budget_ms:
            self._dear = 0
            return
        self._dear += 1
        if self._dear >= _DEAR_IN_A_ROW:
            self.off_because = "a hit cost %.0f ms, the budget is %.0f" % (seconds * 1000, self._probe.budget_ms)
            self._lost(self.off_because)
            self._tell("stepscope: switched off: %s (budget_ms in the probe)" % self.off_because)
            self.remove(at_a_stop=True)

    def _error(self, problem: str) -> None:
        if problem not in self._told_errors:
            self._told_errors.add(problem)
            self._tell("stepscope: %s" % problem)
