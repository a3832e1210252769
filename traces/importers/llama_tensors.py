"""The eval callback's dump of every tensor: the sum of each layer's output becomes a fingerprint of the step.

`l_out-N` is the residual stream behind layer N; its first dimension is the model's width, its second the tokens fed.
`hidden_sum` holds the sum of its values over all of them. A forward is a step: the first one is
prefill, a later one of one token is decode. The dump says nothing about lengths, rows or ids, and so they stay absent.
"""

from __future__ import annotations

import math
import re
from typing import Any

from traces.importers.log import MOST_LAYERS, NUMBER, Line, LogTrace, amount

_HEAD = re.compile(r"(?:ggml_debug|cb_eval\w*): +(\S.*?) = \(\w+\) .*= \{(\d+), (\d+), \d+, \d+\}\s*$")
_LAYER = re.compile(r"l_out-(\d+)")
_SUM = re.compile(rf"^\s*sum = (-?{NUMBER})\s*$")


class Tensors:
    """Reads headers and sums; a forward ends where the next one begins."""

    def __init__(self, trace: LogTrace) -> None:
        self._trace = trace
        self._name = ""
        self._n_tokens = 0
        self._sums: dict[int, float] = {}
        self._forwards = self._layers = 0
        self.seen = False

    def line(self, line: Line) -> bool:
        """Whether the line belongs to a dump."""
        if "{" in line.text and (match := _HEAD.search(line.text)):
            self._head(match[1].strip(), int(match[3]))
            return True
        if not self._name or "sum = " not in line.text:
            return False
        if match := _SUM.match(line.text):
            self._sum(line, amount(match[1]))
            return True
        return False

    def _head(self, name: str, n_tokens: int) -> None:
        self.seen = True
        layer = _LAYER.fullmatch(name)
        if layer and int(layer[1]) >= MOST_LAYERS:
            raise ValueError(f"{name} is a layer beyond measure")
        self._name = name
        if layer and int(layer[1]) in self._sums:
            self._close()
        if layer and not self._sums:
            self._n_tokens = n_tokens  # later layers may keep only the rows whose logits are wanted

    def _sum(self, line: Line, value: float) -> None:
        layer = _LAYER.fullmatch(self._name)
        if not layer or int(layer[1]) in self._sums:
            return
        if not math.isfinite(value):
            self._trace.doubt(line, f"the sum of {self._name} is {value}")
        self._sums[int(layer[1])] = value

    def _close(self) -> None:
        if not self._sums:
            return
        if not self._forwards:
            self._layers = max(self._sums) + 1
            self._trace.extra = [["hidden_sum", "F64", [self._layers]]]
            self._trace.fact("model", n_layers=self._layers)
        sums: list[Any] = [self._sums.get(layer) for layer in range(self._layers)]
        decode = self._forwards > 0 and self._n_tokens == 1
        self._trace.step(phase="decode" if decode else "prefill", seq_id=0, n_tokens=self._n_tokens, hidden_sum=sums)
        self._forwards += 1
        self._sums = {}

    def end(self) -> None:
        """The last forward."""
        self._close()
        if self._forwards:
            self._trace.note("gap", seq_id=0, why="a dump of tensors has no token ids")
        elif self.seen:
            self._trace.message("no l_out-N among the tensors: print them all, or those at least")
