"""Whether a stepsize can be found: what `stepsize="auto"` asks of the other arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from sgmcmc.core.types import Dynamics
from sgmcmc.dataset.some import some_rows
from sgmcmc.laplace.whitening import DENSE as MOST
from sgmcmc.model import Model
from sgmcmc.samplers._choices import Choices

SOME = 8  # observations by which it is tried whether the log likelihood is a sum
ADDITIVE = 1e-3  # relative
AROUND = (0.0, 0.1, 1.0)  # where params begin; a prior in the log likelihood, say, may vanish right there


def require_automatic(
    choices: Choices, model: Model, dynamics: Mapping[str, Dynamics], settings: Mapping[str, Any]
) -> None:
    """Refuse what makes the stepsize impossible to find.

    Raises
    ------
    ValueError
        Naming the argument, and what would work.
    """
    of, size = choices.sampler, sum(theta.size for theta in choices.start.values())
    if size > MOST:
        raise choices.refuse(
            "stepsize",
            f"be a number where params have more than {MOST} elements, such as tune finds",
            f"'auto' for {size}",
        )
    if any(one.stationary is None for one in dynamics.values()):
        raise choices.refuse(
            "stepsize", "be given for dynamics without stationary, which tells where they settle", "'auto'"
        )
    for name, value in settings.items():
        if isinstance(value, Mapping) and len(set(value.values())) > 1:
            raise choices.refuse(name, "be one number where the stepsize is 'auto'", value)
    if not isinstance(choices.subsampling, str):
        raise choices.refuse("subsampling", "be uniform where the stepsize is 'auto'", "weights")
    if model.by_rows:
        raise ValueError(
            f"stepsize of {of} must be a number where rows of params move alone, each by a clock of its own, here "
            f"{sorted(model.by_rows)}; got 'auto'. With preconditioner='diagonal' all rows move, and it can be found."
        )
    _require_sum(choices, model)


def _require_sum(choices: Choices, model: Model) -> None:
    """The gradient of some observations must be the sum of those of its halves."""
    some = some_rows(choices.data, SOME)
    halves = [
        {name: entry[part] for name, entry in some.items()} for part in (slice(SOME // 2), slice(SOME // 2, None))
    ]

    def gradient(params: dict, data: dict) -> np.ndarray:
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(params)
            value = model.log_lik(params, data)
        found = tape.gradient(value, params, unconnected_gradients="zero")
        return np.concatenate([np.ravel(tf.convert_to_tensor(found[name])) for name in sorted(found)])

    rng = np.random.default_rng(0)
    for scale in AROUND:
        params = {
            name: tf.constant((theta + scale * rng.normal(size=theta.shape)).astype(theta.dtype))
            for name, theta in choices.start.items()
        }
        whole, parts = gradient(params, some), gradient(params, halves[0]) + gradient(params, halves[1])
        size = max(np.abs(whole).max(), np.abs(parts).max())
        if np.isfinite(size) and np.abs(whole - parts).max() > ADDITIVE * size:
            raise choices.refuse(
                "logLik",
                "be a sum over the observations, so that the parts of a minibatch add up to it, for stepsize='auto'",
                "one whose gradient for some observations is not the sum of those for their halves",
            )
