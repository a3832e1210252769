"""A recorded good run beside the program under the debugger: the first step that differs, and in what."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

from gdb_scripts.session import Closed
from traces.fields import ABSENT_I64, FINISH, FINISH_NAMES
from traces.reader import Reader, Source
from traces.writer import TraceError

RMS_TOLERANCE = 1e-3
"""Relative: builds that sum in another order differ by less, a wrong position or a wrong weight by more."""

_LENGTHS = ("n_tokens", "seq_before", "seq_len")


class Baseline:
    """The steps of a good run, sequence by sequence in the order of their first steps.

    Raises TraceError where the trace cannot be read.
    """

    def __init__(self, path: str) -> None:
        self.steps = 0
        self._runs: List[List[Dict[str, Any]]] = []
        self._finish: Dict[int, int] = {}
        order: Dict[Tuple[int, Any], int] = {}
        file_run = 0
        reader = Reader(Source(path))
        for kind, value in reader.events():
            if kind == "run":
                file_run += 1
            elif kind == "step":
                at = order.setdefault((file_run, value["seq_id"]), len(order))
                if at == len(self._runs):
                    self._runs.append([])
                self._runs[at].append(value)
                self._finish[at] = value["finish"] or self._finish.get(at, 0)
                self.steps += 1
            elif kind == "note" and value.get("kind") == "finish":
                seq_id = value.get("seq_id")
                known = order.get((file_run, seq_id)) if isinstance(seq_id, int) else None
                if known is not None:
                    self._finish[known] = FINISH.get(str(value.get("finish")), 0)
            elif kind == "damage" and value.steps:
                raise TraceError("%s: is damaged at step %d; a good run has to be whole" % (path, self.steps))
        self.complete = reader.complete
        if not self.steps:
            raise TraceError("%s: has no step to compare with" % path)
        self._order: Dict[int, int] = {}
        self._done: Dict[int, int] = {}
        self._ended: Dict[int, int] = {}

    @property
    def has_begun(self) -> bool:
        """Whether the program that runs has stepped."""
        return bool(self._done)

    def begin_again(self) -> None:
        """The program was started anew: its first request is compared with the good run's first."""
        self._order.clear()
        self._done.clear()
        self._ended.clear()

    def compare(self, closed: Closed) -> Optional[str]:
        """What differs at this step, or None. Fields that one side lacks are not compared."""
        mine = closed.record
        run = self._order.setdefault(mine["seq_id"], len(self._order))
        number = self._done.get(run, 0)
        self._done[run] = number + 1
        self._ended[run] = mine["finish"] or self._ended.get(run, 0)
        if run >= len(self._runs):
            return "step %d: the good run has no request %d" % (closed.step, run)
        if number >= len(self._runs[run]):
            return "step %d: the good run's request had ended after %d steps" % (closed.step, number)
        difference = _difference(self._runs[run][number], mine)
        return None if difference is None else "step %d differs from the good run: %s" % (closed.step, difference)

    def at_the_end(self, is_whole: bool, sees_ends: bool) -> Tuple[bool, str]:
        """(whether the program ended where the good run did, how it ended, in words). is_whole: it ended by itself,
        without an error. sees_ends: the probe has a hook where a sequence ends; without, a token sampled last is never
        seen."""
        steps = sum(self._done.values())
        for run, good in enumerate(self._runs):
            done = self._done.get(run, 0)
            left = [step for step in good[done:] if sees_ends or step["n_tokens"] != 0]
            if left:
                text = "early, after %d of the good run's %d steps (request %d: %d of %d)"
                return False, text % (steps, self.steps, run, done, len(good))
            was, now = self._finish.get(run, 0), self._ended.get(run, 0) or (0 if is_whole else FINISH["abort"])
            if was != now and (FINISH["abort"] in (was, now) or (was and now)):
                text = "after %d steps as the good run, but finish of request %d is %s, was %s"
                return False, text % (steps, run, FINISH_NAMES.get(now), FINISH_NAMES.get(was))
        return True, "as the good run did, after %d steps" % steps


def _difference(good: Dict[str, Any], mine: Dict[str, Any]) -> Optional[str]:
    if ABSENT_I64 not in (good["token_id"], mine["token_id"]) and good["token_id"] != mine["token_id"]:
        return "token_id is %d, was %d" % (mine["token_id"], good["token_id"])
    for name in _LENGTHS:
        if min(good[name], mine[name]) >= 0 and good[name] != mine[name]:
            return "%s is %d, was %d" % (name, mine[name], good[name])
    for layer, (was, now) in enumerate(zip(_rows(good["cache_len"]), _rows(mine["cache_len"]))):
        if min(was, now) >= 0 and was != now:
            return "layer %d holds %d rows, held %d" % (layer, now, was)
    for layer, (was, now) in enumerate(zip(_rows(good.get("hidden_rms")), _rows(mine.get("hidden_rms")))):
        if abs(now - was) > RMS_TOLERANCE * max(abs(was), abs(now)):  # false for NaN: absent
            text = "hidden_rms of layer %d is %.6g, was %.6g (tolerance %g, relative)"
            return text % (layer, now, was, RMS_TOLERANCE)
    if good["finish"] != mine["finish"]:
        return "finish is %s, was %s" % (FINISH_NAMES.get(mine["finish"]), FINISH_NAMES.get(good["finish"]))
    return None


def _rows(value: Any) -> Any:
    return value if isinstance(value, tuple) else () if value is None else (value,)
