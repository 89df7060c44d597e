"""The user's own estimator of the gradient, checked by a trial."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from sgmcmc.core.checks import IN_OPERATIONS, attempted, types_and_shapes
from sgmcmc.core.tracing import trace
from sgmcmc.core.types import Batch, Estimate, Gradient, Tree
from sgmcmc.model import Model
from sgmcmc.run.product import first_estimate
from sgmcmc.samplers._choices import Choices
from sgmcmc.samplers._trial import require_pure

NO_PREPARATION = Gradient._field_defaults["prepare"]


def checked_estimator(choices: Choices, estimator: Callable[[Model], Any], model: Model) -> Gradient:
    """The user's estimator, whose results are checked when it is traced, and now if it needs no preparation.

    Raises
    ------
    ValueError
        If it returns no Gradient, or its results have other shapes than the parameters and its memory.
    """
    label = f"gradient of {choices.sampler}"
    own = attempted(f"{label} {IN_OPERATIONS}", lambda: estimator(model))
    if not isinstance(own, Gradient):
        raise ValueError(f"{label} must return a Gradient; got {own!r}.")
    if bool(own.every) != bool(own.renew):
        raise ValueError(f"{label} must have both `every` and `renew`, or none; got every={own.every}.")

    def estimate(params: Tree, batch: Batch, constants: Tree, memory: Any) -> Estimate:
        made = own.estimate(params, batch, constants, memory)
        if not isinstance(made, Estimate):
            raise ValueError(f"{label} must return an Estimate; got {type(made).__name__}.")
        scalar = tf.zeros([], model.dtype)
        for before, after in ((scalar, made.value), (params, made.gradient), (memory, made.memory)):
            if types_and_shapes(before) != types_and_shapes(after):
                raise ValueError(
                    f"{label} must return a scalar, gradients like params, and a memory like that before, here "
                    f"{types_and_shapes(before)}; got {types_and_shapes(after)}."
                )
        return made

    checked = own._replace(estimate=estimate)
    if own.prepare is NO_PREPARATION and not own.wants_mode:
        params = {name: tf.constant(theta) for name, theta in choices.start.items()}
        trial = first_estimate(model, choices.minibatches.minibatch, checked, {})
        traced = attempted(f"{label} {IN_OPERATIONS}", lambda: trace(trial, params))
        require_pure(label, traced.graph, "The noise of an estimate must come from its minibatch.")
    return checked
