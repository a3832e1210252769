"""From logits to one token: the best, or one drawn after temperature, top-k, top-p and min-p.

Greedy never sorts and never computes a softmax: the best and the second best come from two passes over the
logits. Drawing uses float64 and its own seeded generator, so that a seed repeats a run bit for bit.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.errors import EngineError
from engine.weights import Array


@dataclass(frozen=True)
class SamplerSettings:
    """How a token is chosen. temperature ≤ 0 is greedy; top_k 0, top_p ≥ 1, min_p 0 and penalty 1 are off.

    seed: None is a different draw each time; `with_seed` settles on one.
    Raises EngineError for values out of range.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    seed: int | None = None

    def __post_init__(self) -> None:
        for name, good, says in (
            ("temperature", np.isfinite(self.temperature), "a finite number"),
            ("top_k", self.top_k >= 0, "0 (off) or more"),
            ("top_p", self.top_p > 0, "above 0; 1 is off"),
            ("min_p", 0 <= self.min_p <= 1, "from 0 (off) to 1"),
            ("repetition_penalty", 1e-3 <= self.repetition_penalty <= 1e3, "from 0.001 to 1000; 1 is off"),
            ("seed", self.seed is None or self.seed >= 0, "0 or more"),
        ):
            if not good:
                raise EngineError(f"{name} is {getattr(self, name)}; it is {says}")

    @property
    def is_greedy(self) -> bool:
        """Whether the best token is always taken."""
        return self.temperature <= 0

    def with_seed(self) -> SamplerSettings:
        """These settings with a seed, drawn where there is none, so that the run can be repeated."""
        if self.is_greedy or self.seed is not None:
            return self
        return replace(self, seed=secrets.randbits(32))


@dataclass(frozen=True)
class Pick:
    """A sampled token and how sure the model was, after the repetition penalty and before the temperature.

    logit: the token's own. margin: the best logit less the second best, whose id is `runner_up`, whichever
    token was drawn; infinite for a vocabulary of one.
    """

    token_id: int
    logit: float
    margin: float
    runner_up: int


Sampler = Callable[[Array, Sequence[int]], Pick]
"""(logits (vocab_size,), the ids so far) -> the next token"""


def resolve_sampling(
    advised: Mapping[str, Any] | None = None,
    *,
    temperature: float | None = 0.0,
    top_k: int | None = None,
    top_p: float | None = None,
    min_p: float | None = None,
    repetition_penalty: float | None = None,
    seed: int | None = None,
) -> SamplerSettings:
    """What the caller asked for, completed with what the model's generation_config.json advises.

    None means that the caller did not say. A temperature of None takes the model's own (0 unless it says
    `do_sample`); a temperature ≤ 0, the default, is plain greedy and takes no advice at all, so that it is
    the argmax of the logits. Advice fills only what the caller left open.
    """
    said = {"top_k": top_k, "top_p": top_p, "min_p": min_p, "repetition_penalty": repetition_penalty}
    known = dict(advised or {})
    if temperature is None:
        temperature = known.get("temperature", 1.0) if known.get("do_sample") else 0.0
    elif temperature <= 0:
        known = {}
    chosen: dict[str, Any] = {n: known.get(n) if value is None else value for n, value in said.items()}
    return SamplerSettings(
        temperature=temperature,
        seed=seed,
        **{name: value for name, value in chosen.items() if value is not None},
    )


def make_sampler(settings: SamplerSettings) -> Sampler:
    """A sampler for one sequence, with its own random generator; logits are left as they were."""
    if settings.is_greedy:
        return lambda logits, sequence: pick_greedy(_penalised(logits, sequence, settings.repetition_penalty))
    generator = np.random.Generator(np.random.PCG64(settings.seed))

    def sample(logits: Array, sequence: Sequence[int]) -> Pick:
        logits = _penalised(logits, sequence, settings.repetition_penalty)
        best = pick_greedy(logits)
        ids, probabilities = candidates(logits, settings)
        drawn = np.searchsorted(np.cumsum(probabilities), generator.random() * probabilities.sum(), side="right")
        token_id = int(ids[min(int(drawn), len(ids) - 1)])
        return Pick(token_id, float(logits[token_id]), best.margin, best.runner_up)

    return sample


def pick_greedy(logits: Array) -> Pick:
    """The best token, the lowest id among equals. Raises EngineError for logits that are not finite."""
    top = int(logits.argmax())
    best = logits[top]
    if not np.isfinite(best):
        raise EngineError(f"the best logit is {best}; the weights are damaged or overflowed, check the model's files")
    # hiding the best for a moment finds the second best without a sort or a copy
    logits[top] = -np.inf
    runner_up = int(logits.argmax())
    margin = float(best - logits[runner_up])
    logits[top] = best
    return Pick(top, float(best), margin, runner_up)


def candidates(logits: Array, settings: SamplerSettings) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """The ids that may be drawn, by falling probability (equals by id), and their probabilities, which sum to
    1.

    Temperature, top-k, top-p (nucleus, Holtzman et al. 2020, https://arxiv.org/abs/1904.09751) and min-p
    (Nguyen et al. 2024, https://arxiv.org/abs/2407.01082) apply in this order, as in transformers; ids that
    tie with the k-th stay.
    """
    scaled = (logits.astype(np.float64) - float(logits.max())) / settings.temperature
    ids = np.arange(len(scaled))
    if 0 < settings.top_k < len(scaled):
        kth = np.partition(scaled, -settings.top_k)[-settings.top_k]
        ids = np.flatnonzero(scaled >= kth)
    ids = ids[np.argsort(-scaled[ids], kind="stable")]
    probabilities = np.exp(scaled[ids])
    probabilities /= probabilities.sum()
    if settings.top_p < 1:
        before = np.cumsum(probabilities) - probabilities
        kept = max(1, int(np.count_nonzero(before < settings.top_p)))
        ids, probabilities = ids[:kept], probabilities[:kept]
    if settings.min_p > 0:
        kept = int(np.count_nonzero(probabilities >= settings.min_p * probabilities[0]))
        ids, probabilities = ids[:kept], probabilities[:kept]
    return ids, probabilities / probabilities.sum()


def _penalised(logits: Array, sequence: Sequence[int], penalty: float) -> Array:
    """Logits of the ids seen so far made less likely (Keskar et al. 2019, https://arxiv.org/abs/1909.05858)."""
    if penalty == 1:
        return logits
    penalised = logits.copy()
    seen = np.unique(np.asarray(sequence, dtype=np.intp))
    values = penalised[seen]
    penalised[seen] = np.where(values > 0, values / penalty, values * penalty)
    return penalised
