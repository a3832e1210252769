"""Where a torch model's time goes, by forward hooks on its decoder layers; and each layer's fingerprint.

Products are an attention module's projections and the MLP; attention is the rest of the attention module (rotation,
cache, scores, mixing). Hooks see when Python enters and leaves a module: on the CPU that is the time it took, on a
device that works behind Python's back it is not, so there nothing is timed.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

_ATTENTION = ("self_attn", "attn", "attention", "self_attention")
_MLP = ("mlp", "feed_forward", "block_sparse_moe", "ffn")
_now = time.perf_counter_ns


def compiling() -> Callable[[], bool]:
    """torch's own question whether a graph is being traced: a hook must leave no mark in one."""
    asked: Callable[[], bool] = sys.modules["torch"].compiler.is_compiling
    return asked


class LayerTimers:
    """Sums over one forward, one entry a layer. `reset` before a forward, `values` after it."""

    def __init__(self, model: Any, n_layers: int, timed: bool) -> None:
        self._handles: list[Any] = []
        self._attention_ns, self._projections_ns, self._mlp_ns = ([0] * n_layers for _ in range(3))
        self._rms: list[Any] = []
        self._compiling = compiling()
        self.layers = _decoder_layers(model, n_layers)
        self.timed = timed and all(_child(layer, _ATTENTION) and _child(layer, _MLP) for layer in self.layers)
        for i, layer in enumerate(self.layers):
            self._handles.append(layer.register_forward_hook(self._fingerprint))
            if self.timed:
                self._time_layer(layer, i)

    def reset(self) -> None:
        """Forget the last forward."""
        for sums in (self._attention_ns, self._projections_ns, self._mlp_ns):
            sums[:] = [0] * len(sums)
        self._rms = []

    def values(self, n_rows: int) -> list[dict[str, Any]]:
        """By field name, for each of the `n_rows` sequences of the forward: gemm_ms, attn_ms (the whole forward's),
        hidden_rms (of the sequence's last position)."""
        times: dict[str, Any] = {}
        if self.timed:
            whole = zip(self._attention_ns, self._projections_ns, strict=True)
            products = zip(self._projections_ns, self._mlp_ns, strict=True)
            times["attn_ms"] = [(attention - projections) / 1e6 for attention, projections in whole]
            times["gemm_ms"] = [(projections + mlp) / 1e6 for projections, mlp in products]
        by_layer = [rms.tolist() for rms in self._rms]
        if not by_layer or len(by_layer) != len(self.layers):
            return [times] * n_rows
        return [{**times, "hidden_rms": [rms[row] for rms in by_layer]} for row in range(n_rows)]

    def remove(self) -> None:
        """Take the hooks off the model."""
        for handle in self._handles:
            handle.remove()

    def _time_layer(self, layer: Any, i: int) -> None:
        attention = _child(layer, _ATTENTION)
        self._time(attention, self._attention_ns, i)
        for part in attention.children():
            if "Linear" in type(part).__name__ or type(part).__name__ == "Conv1D":
                self._time(part, self._projections_ns, i)
        self._time(_child(layer, _MLP), self._mlp_ns, i)

    def _time(self, module: Any, sums: list[int], i: int) -> None:
        began, compiling = 0, self._compiling

        def before(*_: Any) -> None:
            nonlocal began
            if not compiling():
                began = _now()

        def after(*_: Any) -> None:
            if not compiling():
                sums[i] += _now() - began

        self._handles += [module.register_forward_pre_hook(before), module.register_forward_hook(after)]

    def _fingerprint(self, _module: Any, _args: Any, output: Any) -> None:
        if self._compiling():
            return
        residual = output[0] if isinstance(output, tuple) else output
        self._rms.append(residual[:, -1].float().square().mean(-1).sqrt())


def _child(module: Any, names: tuple[str, ...]) -> Any:
    return next((child for name, child in module.named_children() if name in names), None)


def _decoder_layers(model: Any, n_layers: int) -> list[Any]:
    """The text decoder's layers: the first list of `n_layers` modules that have attention; empty where none is."""
    decoder = model.get_decoder() if hasattr(model, "get_decoder") else model
    for module in decoder.modules():
        children = list(module.children())
        if len(children) == n_layers and all(_child(child, _ATTENTION) for child in children):
            return children
    return []
