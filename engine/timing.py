"""Where a step's time goes: a clock around every part of a forward, and around every call of a sampler."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from engine.model import Model
from engine.sampling import Pick, Sampler
from engine.weights import Array

GEMM_PARTS = ("qkv", "o", "gate_up", "down")
"""The matrix products inside a layer; their times add up to gemm_ms."""


class ForwardTimer:
    """Times the parts of one forward, in ns of the monotonic clock.

    attn covers everything between the qkv and the o product: q/k norm, RoPE, growing the cache, scores,
    softmax and the weighted sum. Norms, biases, activations and residual sums of a layer belong to forward_ms
    alone.

    first_full: the layer whose first written row is kept, -1 for none.
    """

    now = staticmethod(time.perf_counter_ns)

    def __init__(self, n_layers: int, first_full: int = 0) -> None:
        self.n_layers, self.first_full = n_layers, first_full
        self.reset()

    def reset(self) -> None:
        """Forget the previous forward."""
        self.part_ns = dict.fromkeys((*GEMM_PARTS, "lm_head"), 0)
        self.gemm_ns = [0] * self.n_layers
        self.attn_ns = [0] * self.n_layers
        self.hidden_rms: list[list[float]] = []
        self.write_pos: list[int] = []

    def add(self, part: str, layer: int, since: int) -> None:
        """The time from `since` until now went to `part` of `layer`; see `engine.model.Timer`."""
        spent = time.perf_counter_ns() - since
        if part == "attn":
            self.attn_ns[layer] += spent
            return
        self.part_ns[part] += spent
        if layer >= 0:
            self.gemm_ns[layer] += spent

    def layer_done(self, layer: int, residual: Array, write_pos: int, place: int = 0) -> None:
        """Take a layer's fingerprint, the residual stream's root mean square, and the first row it wrote."""
        if place == len(self.write_pos):
            self.hidden_rms.append([float("nan")] * self.n_layers)
            self.write_pos.append(-1)
        self.hidden_rms[place][layer] = (float(residual @ residual) / len(residual)) ** 0.5
        if layer == self.first_full and self.write_pos[place] < 0:
            self.write_pos[place] = write_pos

    def measured(self, place: int = 0) -> dict[str, Any]:
        """What it saw by field name: times in ms; gemm_ms, attn_ms, hidden_rms one a layer.

        place: the sequence's in the batch; times are the whole batch's.
        """
        return {
            **{f"{part}_ms": to_ms(spent) for part, spent in self.part_ns.items()},
            "gemm_ms": [to_ms(spent) for spent in self.gemm_ns],
            "attn_ms": [to_ms(spent) for spent in self.attn_ns],
            "hidden_rms": self.hidden_rms[place],
            "write_pos": self.write_pos[place],
        }


class Watch:
    """Stands in for the model and the samplers in a loop, calls the real ones and keeps their times.

    first_full: as ForwardTimer's.
    """

    def __init__(self, model: Model, first_full: int = 0) -> None:
        self.timer = ForwardTimer(model.config.n_layers, first_full)
        self._model = model
        self.new_cache, self.shift = model.new_cache, model.shift
        self.begin_step()

    def begin_step(self) -> None:
        """What follows belongs to another step."""
        self.forward_ns: int | None = None
        self.sample_ns: list[int] = []

    def forward(self, ids: Sequence[int], cache: Any, timer: Any = None) -> Array:
        return self._timed(self._model.forward, ids, cache)

    def forward_each(self, ids: Sequence[int], cache: Any, timer: Any = None) -> Array:
        return self._timed(self._model.forward_each, ids, cache)

    def forward_batch(self, ids: Sequence[int], caches: Any, timer: Any = None) -> Array:
        return self._timed(self._model.forward_batch, ids, caches)

    def watched(self, sampler: Sampler) -> Sampler:
        """The same sampler; every call adds its time to `sample_ns`."""

        def sample(logits: Array, sequence: Sequence[int]) -> Pick:
            began = time.perf_counter_ns()
            pick = sampler(logits, sequence)
            self.sample_ns.append(time.perf_counter_ns() - began)
            return pick

        return sample

    def measured(self, place: int = 0) -> dict[str, Any]:
        """What the forward did, by field name; nothing where none was run. place: as ForwardTimer's."""
        if self.forward_ns is None:
            return {}
        return {**self.timer.measured(place), "forward_ms": to_ms(self.forward_ns)}

    def _timed(self, forward: Callable[..., Array], ids: Sequence[int], cache: Any) -> Array:
        self.timer.reset()
        began = time.perf_counter_ns()
        logits = forward(ids, cache, self.timer)
        self.forward_ns = time.perf_counter_ns() - began
        return logits


def to_ms(ns: int) -> float:
    """Milliseconds."""
    return ns / 1e6
