"""The argument `gibbs`: the user's own step, after a trial on abstract tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import tensorflow as tf

from sgmcmc.core.checks import attempted
from sgmcmc.core.tracing import trace
from sgmcmc.core.transforms import Transforms
from sgmcmc.core.types import Tree
from sgmcmc.run.gibbs import GibbsStep, Update
from sgmcmc.samplers._trial import require_pure

if TYPE_CHECKING:
    from sgmcmc.samplers._choices import Choices


def checked_gibbs(choices: Choices) -> GibbsStep:
    """The step, and the parameters that it moves.

    Raises
    ------
    ValueError
        If `gibbs` is not a function, if it raises, or if it does not return new values
        of some of the parameters.
    """
    function, name, dtype = choices.gibbs, choices.sampler, choices.float_type
    if not callable(function):
        raise choices.refuse("gibbs", "be None or a function of (params, dataset, seed)", repr(function))
    params = {key: tf.TensorSpec(theta.shape, dtype) for key, theta in choices.given.items()}
    data = choices.data.layout.specs([choices.minibatches.n])

    def update(params: Tree, data: Tree, seed: tf.Tensor) -> Tree:
        new = function(dict(params), dict(data), seed)
        if not isinstance(new, dict) or not new or not new.keys() <= params.keys():
            raise TypeError(f"it must return a dict with new values for some of {sorted(params)}, not {new!r}")
        return {key: tf.convert_to_tensor(x, dtype_hint=dtype) for key, x in new.items()}

    must = f"gibbs of {name} must be a function of (params, dataset, seed) in TensorFlow operations"
    traced = attempted(must, lambda: trace(update, params, data, tf.TensorSpec([2], tf.int32)))
    require_pure(f"gibbs of {name}", traced.graph, "Use seed with tf.random.stateless_normal and similar functions.")
    returned = traced.structured_outputs
    for key, value in returned.items():
        like = params[key]
        if (value.shape, value.dtype) != (like.shape, like.dtype):
            raise choices.refuse(
                "gibbs", f"return {key!r} as {like.dtype.name}{like.shape}", f"{value.dtype.name}{value.shape}"
            )
    if returned.keys() == params.keys():
        raise choices.refuse("gibbs", "leave at least one of params to the gradients", "new values for all")

    return GibbsStep(_of_positions(update, choices.constraints), frozenset(returned))


def _of_positions(update: Update, transforms: Transforms) -> Update:
    """The step between the real numbers that the chain moves; NaN, and so an error, for values outside a support."""
    if not transforms:
        return update

    def of_positions(params: Tree, data: Tree, seed: tf.Tensor) -> Tree:
        new = update(transforms.forward(params), data, seed)
        return {
            name: tf.where(transforms.each[name].holds(new[name]), u, np.nan) if name in transforms.each else u
            for name, u in transforms.inverse(new).items()
        }

    return of_positions
