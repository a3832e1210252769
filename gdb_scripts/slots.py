"""Which request a slot serves: an engine that is seen only at its forwards reuses its slots and does not say when.

A request begins where rows begin at 0, where prompt tokens come after sampled ones, or where the length falls and no
shift or rejected draft explains it.
"""

from __future__ import annotations

from typing import Dict, List, NamedTuple, Optional, Sequence

from traces import fields

_PREFILL, _DECODE, _VERIFY = (fields.PHASES[name] for name in ("prefill", "decode", "verify"))


class Placed(NamedTuple):
    """Where a forward's tokens belong. ended: the request that had the slot before, where this one is new."""

    seq_id: int
    phase: int
    n_drafted: Optional[int]
    ended: Optional[int]


class _Slot:
    """What the slot's last forward was. sampled: its last token gave logits, so the next token may be a sampled one."""

    def __init__(self, seq_id: int) -> None:
        self.seq_id = seq_id
        self.phase = _PREFILL
        self.end: Optional[int] = None
        self.all_outputs = False
        self.sampled = True


class Slots:
    """The requests of one session, numbered as they come."""

    def __init__(self) -> None:
        self._slots: Dict[int, _Slot] = {}
        self._next = 0

    def place(self, slot: int, before: Optional[int], n: int, outputs: Optional[Sequence[int]]) -> Placed:
        """The request and the phase of a forward that feeds `n` tokens behind `before` rows.

        outputs: which tokens give logits. A prompt asks for the last one's, drafts for all of theirs.
        """
        was = self._slots.get(slot)
        all_outputs = n > 1 and bool(outputs) and all(outputs or [])
        phase = self._phase(was, before, n, outputs, all_outputs)
        ended = None
        if was is None or self._is_new(was, before, phase):
            if was is not None:
                ended, phase = was.seq_id, _PREFILL
            was = self._slots[slot] = _Slot(self._next)
            self._next += 1
        was.phase, was.all_outputs = phase, all_outputs
        was.end = None if before is None else before + n
        was.sampled = outputs is None or bool(outputs[-1])
        return Placed(was.seq_id, phase, n - 1 if phase == _VERIFY else None, ended)

    def shifted(self, slot: int, n_discard: int) -> Optional[int]:
        """Rows left the slot; the request they belonged to, None where it has none."""
        was = self._slots.get(slot)
        if was is None:
            return None
        if was.end is not None:
            was.end -= n_discard
        return was.seq_id

    def forget(self) -> None:
        """The program ended: another one's slots have nothing to do with these."""
        self._slots.clear()

    @property
    def live(self) -> List[int]:
        """The requests that have a slot."""
        return [slot.seq_id for slot in self._slots.values()]

    @staticmethod
    def _phase(
        was: Optional[_Slot], before: Optional[int], n: int, outputs: Optional[Sequence[int]], all_outputs: bool
    ) -> int:
        if was is None:  # one token behind rows: a debugger that came later than the prompt
            return _DECODE if n == 1 and before and (outputs is None or outputs[-1]) else _PREFILL
        if before == 0:
            return _PREFILL
        if n > 1:
            prompt_with_all = was.phase == _PREFILL and was.all_outputs
            return _VERIFY if all_outputs and not prompt_with_all else _PREFILL
        return _PREFILL if (outputs and not outputs[-1]) or not was.sampled else _DECODE

    @staticmethod
    def _is_new(was: _Slot, before: Optional[int], phase: int) -> bool:
        fell = before is not None and was.end is not None and before < was.end
        return before == 0 or (fell and was.phase != _VERIFY) or (phase == _PREFILL and was.phase != _PREFILL)
