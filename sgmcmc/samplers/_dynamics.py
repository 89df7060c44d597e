"""The user's own dynamics, checked by a trial."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf

from sgmcmc.core.checks import attempted, require_count, types_and_shapes
from sgmcmc.core.covariance import Covariance
from sgmcmc.core.tracing import trace
from sgmcmc.core.types import Dynamics, Given
from sgmcmc.kernel.movement import NOISES
from sgmcmc.run.identity import function_identity, summed
from sgmcmc.samplers._choices import Choices
from sgmcmc.samplers._trial import require_free, require_pure

PROBE_SCALES = (0.1, 1.0, 3.0)


def checked_dynamics(choices: Choices, dynamics: Any) -> dict[str, Dynamics]:
    """The user's dynamics for each parameter, after a trial on abstract tensors.

    Raises
    ------
    ValueError
        If it is not a Dynamics, or does not keep the shapes of its arguments.
    """
    each = dynamics if isinstance(dynamics, Mapping) else dict.fromkeys(choices.start, dynamics)
    if set(each) != set(choices.start) or not all(isinstance(d, Dynamics) for d in each.values()):
        raise choices.refuse(
            "dynamics", f"be a Dynamics, or a dict with one for each of {sorted(choices.start)}", repr(dynamics)
        )
    leaps = {name: require_count("leaps of dynamics", choices.sampler, d.leaps, 1) for name, d in each.items()}
    for one in each.values():
        if one.noises not in range(len(NOISES) + 1):
            raise choices.refuse("noises of dynamics", f"be an integer from 0 to {len(NOISES)}", repr(one.noises))
    if len(set(leaps.values())) > 1:
        raise choices.refuse("dynamics", "have the same number of leaps for all parameters", leaps)
    for name, one in each.items():
        if one.covariance not in (None, *(how.value for how in Covariance)):
            raise choices.refuse("covariance of dynamics", "be None, 'diag' or 'full'", repr(one.covariance))
        theta = tf.TensorSpec(choices.start[name].shape, choices.float_type)
        must = f"dynamics of {choices.sampler} must keep the shape and the type of {name!r} and of its memory"
        traced = attempted(f"{must}, in TensorFlow operations", partial(trace, _trial(one), theta))
        require_free(f"dynamics of {choices.sampler}", traced.structured_outputs[-1])
        require_pure(f"dynamics of {choices.sampler}", traced.graph, "Use given.noise, which has standard normals.")
        if choices.curvature.preconditioner is not None:
            _require_the_same_everywhere(choices, one, name)
    return dict(each)


def _require_the_same_everywhere(choices: Choices, dynamics: Dynamics, name: str) -> None:
    """Refuse steps that depend on the position: with a preconditioner they begin at the origin."""
    rng, shape = np.random.default_rng(0), choices.start[name].shape
    zero, shift, noise, gradient = (tf.constant(x, choices.float_type) for x in (0.0, *rng.normal(size=(3, *shape))))
    eps = tf.constant(0.01, choices.float_type)
    reached = []
    for theta in (zero * shift, shift):
        memory = dynamics.init(theta, Given(eps, noise))
        theta_, memory_ = dynamics.step(theta, memory, _given(dynamics, eps, noise, gradient))
        drifted = dynamics.drift(theta, memory) if dynamics.drift else theta
        renewed = dynamics.refresh(theta, memory, Given(eps, noise)) if dynamics.refresh else memory
        reached.append(tf.nest.flatten((theta_ - theta, drifted - theta, memory_, renewed)))
    if not all(np.allclose(x, y, rtol=1e-3, atol=1e-4) for x, y in zip(*reached, strict=True)):
        raise ValueError(
            f"dynamics of {choices.sampler} must move {name!r} by steps that do not depend on its position, for a "
            "preconditioner, in whose coordinates each step begins at 0; got one whose steps do."
        )


def probed(dynamics: Mapping[str, Dynamics], start: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """What each does in two steps, as JSON, so that a resumed run can check that it has the same."""
    all_told = {}
    for name, one in dynamics.items():
        rng, sums = np.random.default_rng(0), []
        for scale in PROBE_SCALES:
            shift, *others = rng.normal(size=(5, *start[name].shape)).astype(start[name].dtype)
            theta, (first, renewal, noise, gradient) = (
                tf.constant(start[name] + scale * shift),
                map(tf.constant, others),
            )
            eps = tf.constant(0.01 * scale, theta.dtype)
            memory = one.init(theta, Given(eps, first))
            for _ in range(2):
                memory = one.refresh(theta, memory, Given(eps, renewal)) if one.refresh else memory
                theta = one.drift(theta, memory) if one.drift else theta
                theta, memory = one.step(theta, memory, _given(one, eps, noise, gradient))
            stats = one.stats(memory, Given(eps)) if one.stats else {}
            sums += summed([theta, memory, stats])
        spec = tf.TensorSpec(theta.shape, theta.dtype)
        all_told[name] = {"leaps": one.leaps, "values": function_identity(sums, _trial(one), spec)}
    return all_told


def climbs(dynamics: Dynamics, shape: tuple[int, ...], dtype: tf.DType) -> bool:
    """Whether every element moves by its gradient, in two steps without noise."""
    begin, eps = tf.ones(shape, dtype), tf.ones([], dtype)
    theta, memory = begin, dynamics.init(begin, Given(eps, 0 * begin))
    for _ in range(2):
        theta = dynamics.drift(theta, memory) if dynamics.drift else theta
        theta, memory = dynamics.step(theta, memory, _given(dynamics, eps, 0 * begin, begin))
    return bool(tf.reduce_all(theta > begin))


def _given(dynamics: Dynamics, eps: tf.Tensor, noise: tf.Tensor, gradient: tf.Tensor) -> Given:
    several = tuple(noise * sign for sign in (1.0, -1.0, 0.5)[: dynamics.noises])
    norm = tf.norm(gradient) if dynamics.wants_norm else None
    given = Given(eps, several if dynamics.noises > 1 else noise, gradient, norm=norm)
    if dynamics.covariance is None:
        return given
    return given._replace(covariance=Covariance(dynamics.covariance).of_sum(tf.stack([gradient, noise])))


def _trial(dynamics: Dynamics) -> Any:
    """A function from a position to all results of the dynamics."""

    def trial(theta: tf.Tensor) -> Any:
        eps, same = tf.ones([], theta.dtype), tf.ones_like(theta)
        memory = dynamics.init(theta, Given(eps, same))
        moved, after = dynamics.step(theta, memory, _given(dynamics, eps, same, same))
        renewed = dynamics.refresh(theta, memory, Given(eps, same)) if dynamics.refresh else memory
        drifted = dynamics.drift(theta, memory) if dynamics.drift else theta
        for before, made in ((theta, moved), (theta, drifted), (memory, after), (memory, renewed)):
            tf.nest.assert_same_structure(before, made)
            if types_and_shapes(before) != types_and_shapes(made):
                raise TypeError(f"{types_and_shapes(before)} became {types_and_shapes(made)}")
        stats = dynamics.stats(memory, Given(eps)) if dynamics.stats else {}
        return moved, after, renewed, drifted, stats

    return trial
