"""The `stop` back-end for a stripped program: places and offsets come from a frozen layout, not from symbols.

It stops at a function's first instruction, where the arguments are in the registers that the ABI says, and reads the
same blocks as with debug information.
"""

from __future__ import annotations

import os
from typing import Any, Dict, List, Optional

from gdb_scripts import host
from gdb_scripts.backends.stop import StopBackend
from gdb_scripts.frozen import FrozenHook, FrozenScope, Layout
from gdb_scripts.hits import HookPlan
from gdb_scripts.layout import NO_SYMBOL, Absent
from gdb_scripts.probe import Hook


class FrozenBackend(StopBackend):
    """Breakpoints at the addresses of a layout. They are set when the program lies where it runs, and taken away when
    it ends: the next time it may lie elsewhere."""

    def __init__(self, frozen: Layout, *arguments: Any) -> None:
        super().__init__(frozen.probe, *arguments)
        self._layout = frozen
        self._base = 0
        self._pid: Optional[int] = None
        self._at: Dict[int, FrozenHook] = {}
        self._is_removed = False

    def install(self) -> None:
        """Set the breakpoints, or wait for the program to run or the library to be loaded. Raises Absent where the
        program is another build."""
        host.quiet()
        host.on_new_symbols(self._new_symbols)
        host.on_exit(lambda _: self._forget())
        is_there = self._layout.build_id in host.build_ids().values()
        if host.program() and not is_there and not self._layout.library:
            raise Absent(NO_SYMBOL, self._mismatch(host.program(), host.build_id()))
        self._new_symbols()

    def pending(self) -> List[str]:
        """What it waits for."""
        return [] if self._at else ["%s (build id %s…)" % (self._layout.binary, self._layout.build_id[:12])]

    def places(self) -> List[str]:
        return [
            "%-8s %s at %s%s, frozen in %s"
            % (
                hook.hook.event,
                hook.function,
                "%s:%d, " % (hook.file, hook.line) if hook.file else "",
                "0x%x" % (hook.address + self._base) if self._at else "linked at 0x%x" % hook.address,
                os.path.basename(self._layout.path),
            )
            for hook in self._layout.hooks
        ]

    def remove(self, at_a_stop: bool = False) -> None:
        self._is_removed = True
        super().remove(at_a_stop)

    def _mismatch(self, file: str, build_id: str) -> str:
        return "the layout is for build id %s… (%s); %s is %s" % (
            self._layout.build_id[:12],
            self._layout.binary,
            os.path.basename(file),
            build_id[:12] + "…" if build_id else "one without a build id",
        )

    def _new_symbols(self) -> None:
        """Set them at once: the addresses need no symbols, and the program may be about to run past them."""
        if self._is_removed or (self._at and host.pid() == self._pid):
            return
        self._warn_of_another_build()
        start = host.section_start(self._layout.build_id, ".text")
        # before it runs, a position-independent program lies nowhere
        if start is None or (self._layout.relocated and not host.pid()):
            return
        self._forget()
        self._base, self._pid = start - self._layout.text, host.pid()
        self._at = {hook.address + self._base: hook for hook in self._layout.hooks}
        for address, hook in self._at.items():
            self._breakpoints.append(self._breakpoint(hook.hook, "*0x%x" % address))

    def _forget(self) -> None:
        breakpoints, self._breakpoints = self._breakpoints, []
        for breakpoint_ in breakpoints:
            if breakpoint_.is_valid():
                breakpoint_.delete()
        self._at = {}
        self._forget_places()

    def _warn_of_another_build(self) -> None:
        for file, build_id in host.build_ids().items():
            if os.path.basename(file) == self._layout.binary and build_id != self._layout.build_id:
                self._error(self._mismatch(file, build_id))

    def _is_call(self, here: host.Here) -> bool:
        return here.pc in self._at

    def _tell_unresolved(self, hook: Hook, pc: int, plan: HookPlan) -> None:
        self.tell_missing(hook, plan.unresolved)

    def _scope(self, hook: Hook, pc: int) -> FrozenScope:
        return FrozenScope(self._at[pc], self._base)
