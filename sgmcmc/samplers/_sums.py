"""Whether a log likelihood is a sum over the observations, by a trial on a few of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np
import tensorflow as tf

from sgmcmc.core.tracing import trace
from sgmcmc.core.types import Tree
from sgmcmc.core.warn import warn_user
from sgmcmc.dataset.some import first_rows, some_rows
from sgmcmc.model import Model
from sgmcmc.samplers._choices import Choices

SOME = 8  # observations
ADDITIVE = 1e-3  # relative
# Distances from the start: a log likelihood with a prior in it, say, may look like a sum at the start itself.
AROUND = (0.0, 0.1, 1.0)


def require_sum(name: str, model: Model, start: Mapping[str, np.ndarray], of: str) -> None:
    """Refuse a log likelihood that is not a sum, which `of` needs.

    Raises
    ------
    ValueError
        If the gradient of some observations is not the sum of those of their halves.
    """
    some = some_rows(model.data, SOME)
    halves = (_cut(some, part) for part in (slice(SOME // 2), slice(SOME // 2, None)))
    gradients = _gradients(model, start, some, *halves)
    for params in _around(start):
        whole, first, second = (gradient(params) for gradient in gradients)
        if _differ(whole, first + second):
            raise ValueError(
                f"logLik of {name} must be a sum over the observations, for {of}; got one whose gradient for some "
                "observations is not the sum of those for their halves."
            )


def warn_of_mean(choices: Choices, model: Model) -> None:
    """Warn if the log likelihood looks like a mean.

    Repeating all observations does not change a mean.
    """
    some = first_rows(choices.data, SOME)
    half = _cut(some, slice(SOME // 2))
    twice = {name: tf.concat([entry, entry], axis=0) for name, entry in some.items()}
    gradients = _gradients(model, choices.start, some, twice, half)
    for params in _around(choices.start):
        once, again, of_half = (gradient(params) for gradient in gradients)
        if not np.isfinite(once).all() or _differ(once, again) or not _differ(once, of_half):
            return
    warn_user(
        f"logLik of {choices.sampler} looks like a mean over the observations: its gradient does not change if each "
        f"of {SOME} observations comes twice. It must be their sum; otherwise the posterior is that of a single "
        "observation."
    )


def _around(start: Mapping[str, np.ndarray]) -> Iterator[Tree]:
    rng = np.random.default_rng(0)
    for scale in AROUND:
        yield {
            name: tf.constant((theta + scale * rng.normal(size=theta.shape)).astype(theta.dtype))
            for name, theta in start.items()
        }


def _cut(data: Tree, part: slice) -> Tree:
    return {name: entry[part] for name, entry in data.items()}


def _gradients(model: Model, start: Mapping[str, np.ndarray], *parts: Tree) -> list[Callable[[Tree], np.ndarray]]:
    """The gradient of the log likelihood of each of `parts`, as a function of the parameters."""
    specs = {name: tf.TensorSpec(theta.shape, theta.dtype) for name, theta in start.items()}

    def gradient_of(data: Tree) -> Callable[[Tree], np.ndarray]:
        traced = trace(model.log_lik_gradient, specs, data)

        def gradient(params: Tree) -> np.ndarray:
            found = traced(params, data)
            return np.concatenate([np.ravel(found[name]) for name in sorted(found)])

        return gradient

    return [gradient_of(data) for data in parts]


def _differ(x: np.ndarray, y: np.ndarray) -> bool:
    size = max(np.abs(x).max(), np.abs(y).max())
    return bool(np.isfinite(size) and np.abs(x - y).max() > ADDITIVE * size)
