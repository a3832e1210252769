"""The `stop` back-end for a stripped program: places and offsets come from a frozen layout, not from symbols.

It stops at a function's first instruction, where the arguments are in the registers that the ABI says, and reads the
same blocks as with debug information.
"""

from __future__ import annotations

from typing import Any, Dict, List

from gdb_scripts import host
from gdb_scripts.backends.stop import StopBackend
from gdb_scripts.frozen import FrozenHook, FrozenScope, Layout
from gdb_scripts.layout import NO_SYMBOL, Absent
from gdb_scripts.probe import Hook


class FrozenBackend(StopBackend):
    """Breakpoints at the addresses of a layout; they can be set once the program lies where it runs."""

    def __init__(self, frozen: Layout, *arguments: Any) -> None:
        super().__init__(frozen.probe, *arguments)
        self._layout = frozen
        self._base = 0
        self._pid = 0
        self._at: Dict[int, FrozenHook] = {}

    def install(self) -> None:
        """Set the breakpoints now, or when the program that they are for is loaded. Raises Absent where the program
        that is loaded is another build."""
        host.quiet()
        host.on_new_symbols(self._new_symbols)
        problem = self._problem()
        if problem and host.program() and not host.pid():
            raise Absent(NO_SYMBOL, problem)
        self._new_symbols()

    def pending(self) -> List[str]:
        """What it waits for."""
        return [] if self._at else ["%s (build id %s…)" % (self._layout.binary, self._layout.build_id[:12])]

    def _problem(self) -> str:
        """Why the program that is loaded is not the one that was frozen; empty while it may come as a library."""
        found = host.build_ids()
        if self._layout.build_id in found.values():
            return ""
        return "the layout is for build id %s… (%s); the program's is %s" % (
            self._layout.build_id[:12],
            self._layout.binary,
            (host.build_id()[:12] or "not known") + "…",
        )

    def _new_symbols(self) -> None:
        """Set them at once: the addresses need no symbols, and the program may be about to run past them."""
        if self._is_set and host.pid() == self._pid:
            return
        start = host.section_start(self._layout.build_id, ".text")
        # before it runs, a position-independent program lies nowhere
        if start is None or (self._layout.relocated and not host.pid()):
            return
        self._base, self._pid = start - self._layout.text, host.pid()
        self._plans.clear()
        self._only_place.clear()
        for breakpoint_ in self._breakpoints:
            breakpoint_.delete()
        self._breakpoints = []
        self._at = {hook.address + self._base: hook for hook in self._layout.hooks}
        for address, hook in self._at.items():
            self._breakpoints.append(self._breakpoint(hook.hook, "*0x%x" % address))
        self._is_set = True

    def _is_call(self, here: host.Here) -> bool:
        return here.pc in self._at

    def _scope(self, hook: Hook, pc: int) -> FrozenScope:
        return FrozenScope(self._at[pc], self._base)
