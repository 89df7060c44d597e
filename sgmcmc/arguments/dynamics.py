"""The user's own update rules: the arguments `dynamics` and `transition`, checked by a trial."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property, partial
from typing import Any

import numpy as np
import tensorflow as tf

from sgmcmc.arguments.choices import Choices
from sgmcmc.arguments.data import require_number_before
from sgmcmc.arguments.refusals import OF_TRANSITIONS, AskedOfTransition, refuse
from sgmcmc.arguments.sampler import Sgmcmc
from sgmcmc.arguments.trial import require_free, require_masked, require_pure
from sgmcmc.core.covariance import Covariance
from sgmcmc.core.errors import IN_OPERATIONS, attempted, require_count, require_flag, types_and_shapes
from sgmcmc.core.tracing import trace
from sgmcmc.core.transforms import Transforms
from sgmcmc.core.trees import Tree
from sgmcmc.dataset.arrays import described
from sgmcmc.dynamics import Dynamics, Given
from sgmcmc.kernel import Transition
from sgmcmc.kernel.movement import NOISES, inputs_for
from sgmcmc.model import Model
from sgmcmc.run.checkpoint import function_identity, summed
from sgmcmc.run.other_samplers import TransitionSampler

PROBE_SCALES = (0.1, 1.0, 3.0)


def checked_dynamics(choices: Choices, dynamics: Any) -> dict[str, Dynamics]:
    each = dynamics if isinstance(dynamics, Mapping) else dict.fromkeys(choices.start, dynamics)
    if set(each) != set(choices.start) or not all(isinstance(d, Dynamics) for d in each.values()):
        must = f"be a Dynamics, or a dict with one for each of {sorted(choices.start)}"
        raise choices.refuse("dynamics", must, repr(dynamics))
    leaps = {name: require_count("leaps of dynamics", choices.sampler, d.leaps, 1) for name, d in each.items()}
    for one in each.values():
        if one.noises not in range(len(NOISES) + 1):
            raise choices.refuse("noises of dynamics", f"be an integer from 0 to {len(NOISES)}", repr(one.noises))
    if len(set(leaps.values())) > 1:
        raise choices.refuse("dynamics", "have the same number of leaps for all parameters", leaps)
    label = f"dynamics of {choices.sampler}"
    for name, one in each.items():
        if one.covariance not in (None, *(how.value for how in Covariance)):
            raise choices.refuse("covariance of dynamics", "be None, 'diag' or 'full'", repr(one.covariance))
        theta = tf.TensorSpec(choices.start[name].shape, choices.float_type)
        must = f"{label} must keep the shape and the type of {name!r} and of its memory, in TensorFlow operations"
        traced = attempted(must, partial(trace, _trial(one), theta))
        require_free(label, traced.structured_outputs[-1])
        require_pure(label, traced.graph, "Use given.noise, which holds standard normal draws.")
        if choices.curvature.preconditioner is not None:
            _require_the_same_everywhere(choices, one, name)
    return dict(each)


def _drifted(dynamics: Dynamics, theta: tf.Tensor, memory: Any) -> tf.Tensor:
    return dynamics.drift(theta, memory) if dynamics.drift else theta


def _refreshed(dynamics: Dynamics, theta: tf.Tensor, memory: Any, given: Given) -> Any:
    return dynamics.refresh(theta, memory, given) if dynamics.refresh else memory


def _stats(dynamics: Dynamics, memory: Any, eps: tf.Tensor) -> Any:
    return dynamics.stats(memory, Given(eps)) if dynamics.stats else {}


def _require_the_same_everywhere(choices: Choices, dynamics: Dynamics, name: str) -> None:
    """Refuse steps that depend on the position: with a preconditioner they begin at the origin."""
    rng, shape = np.random.default_rng(0), choices.start[name].shape
    zero, shift, noise, gradient = (tf.constant(x, choices.float_type) for x in (0.0, *rng.normal(size=(3, *shape))))
    eps = tf.constant(0.01, choices.float_type)
    given, reached = Given(eps, noise), []
    for theta in (zero * shift, shift):
        memory = dynamics.init(theta, given)
        moved, after = dynamics.step(theta, memory, inputs_for(dynamics, eps, noise, gradient))
        drifted = _drifted(dynamics, theta, memory)
        refreshed = _refreshed(dynamics, theta, memory, given)
        reached.append(tf.nest.flatten((moved - theta, drifted - theta, after, refreshed)))
    if not all(np.allclose(x, y, rtol=1e-3, atol=1e-4) for x, y in zip(*reached, strict=True)):
        raise ValueError(
            f"dynamics of {choices.sampler} must move {name!r} by steps that do not depend on its position if there is "
            "a preconditioner, in whose coordinates each step begins at 0; got one whose steps do."
        )


def probed(dynamics: Mapping[str, Dynamics], start: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """The results of two steps of each, as JSON, so that a resumed run can check that its dynamics are the same."""
    results = {}
    for name, one in dynamics.items():
        rng, sums = np.random.default_rng(0), []
        for scale in PROBE_SCALES:
            shift, *others = rng.normal(size=(5, *start[name].shape)).astype(start[name].dtype)
            theta = tf.constant(start[name] + scale * shift)
            first, renewal, noise, gradient = map(tf.constant, others)
            eps = tf.constant(0.01 * scale, theta.dtype)
            memory = one.init(theta, Given(eps, first))
            for _ in range(2):
                memory = _refreshed(one, theta, memory, Given(eps, renewal))
                theta = _drifted(one, theta, memory)
                theta, memory = one.step(theta, memory, inputs_for(one, eps, noise, gradient))
            sums += summed([theta, memory, _stats(one, memory, eps)])
        spec = tf.TensorSpec(theta.shape, theta.dtype)
        results[name] = {"leaps": one.leaps, "values": function_identity(sums, _trial(one), spec)}
    return results


def _trial(dynamics: Dynamics) -> Any:
    """A function from a position to all results of the dynamics."""

    def trial(theta: tf.Tensor) -> Any:
        eps, same = tf.ones([], theta.dtype), tf.ones_like(theta)
        given = Given(eps, same)
        memory = dynamics.init(theta, given)
        moved, after = dynamics.step(theta, memory, inputs_for(dynamics, eps, same, same))
        refreshed = _refreshed(dynamics, theta, memory, given)
        drifted = _drifted(dynamics, theta, memory)
        for before, made in ((theta, moved), (theta, drifted), (memory, after), (memory, refreshed)):
            tf.nest.assert_same_structure(before, made)
            if (given_types := types_and_shapes(before)) != (made_types := types_and_shapes(made)):
                raise TypeError(f"{given_types} became {made_types}")
        return moved, after, refreshed, drifted, _stats(dynamics, memory, eps)

    return trial


class TransitionChoices(Choices):
    """Without the choices of gradients."""

    may_bundle = False  # a transition may use the observations themselves

    @cached_property
    def gibbs_step(self) -> None:
        return None

    @cached_property
    def constraints(self) -> Transforms:
        return Transforms()  # even if the prior is a joint distribution

    @cached_property
    def model(self) -> Model | None:  # type: ignore[override]
        return None if self.logLik is None else super().model


def set_up(choices: TransitionChoices, transition: Callable[[Model | None], Any], gradient: Any) -> Sgmcmc:
    refuse(OF_TRANSITIONS, choices.sampler, AskedOfTransition(choices, gradient))
    require_number_before(choices.sampler, choices.data)
    if choices.logLik is not None and choices.data.layout.rows > 1:
        require_masked(choices.trial, choices.given)
    label = f"transition of {choices.sampler}"
    own = attempted(f"{label} {IN_OPERATIONS}", lambda: transition(choices.model))
    if not isinstance(own, Transition):
        raise ValueError(f"{label} must return a Transition; got {described(own)}.")
    require_flag("wants_noise", label, own.wants_noise)
    require_flag("vectorized", label, own.vectorized)
    sampler = TransitionSampler(**choices.sampler_fields, settings=choices.settings, transition=own)
    _try(sampler)
    return Sgmcmc(sampler, {}, choices.dataset, seeded=choices.seed is not None)


def _try(sampler: TransitionSampler) -> None:
    """Refuse steps that do not keep shapes and types, or that draw random numbers of their own."""
    label = f"transition of {sampler.name}"
    start = {name: tf.TensorSpec(shape, sampler.dtype) for name, shape in sampler.shapes.items()}
    step = sampler.first_step()

    def trial(params: Tree) -> Any:
        memory, made = sampler.first_memory(params), step(params)
        if not isinstance(made, tuple) or len(made) != 3:
            raise ValueError(f"{label} must return params, memory and a value from `step`; got {described(made)}.")
        given = {"params": params, "memory": memory, "a value": tf.zeros([], sampler.dtype)}
        for (what, before), after in zip(given.items(), made, strict=True):
            if (wanted := types_and_shapes(before)) != (got := types_and_shapes(after)):
                raise ValueError(f"{label} must keep {what} as {wanted} in `step`; got {got}.")
        stats = sampler.transition.stats(memory) if sampler.transition.stats else {}
        require_free(label, stats)
        return made, stats

    traced = attempted(f"{label} {IN_OPERATIONS}", lambda: trace(trial, start))
    advice = "Use given.noise, or given.seed with tf.random.stateless_normal and similar functions."
    require_pure(label, traced.graph, advice)
