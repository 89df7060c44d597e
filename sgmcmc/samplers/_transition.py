"""The argument `transition` of `sample`: an iteration of the user's own, after a trial on abstract tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from sgmcmc.core.checks import IN_OPERATIONS, attempted, require_flag, types_and_shapes
from sgmcmc.core.schedules import exploring
from sgmcmc.core.tracing import trace
from sgmcmc.core.types import Transition, Tree
from sgmcmc.dataset.entry import described
from sgmcmc.model import Model
from sgmcmc.run.own import OwnSampler
from sgmcmc.samplers._choices import Choices
from sgmcmc.samplers._common import CommonChoices
from sgmcmc.samplers._sgmcmc import Sgmcmc
from sgmcmc.samplers._trial import require_free, require_pure


class TransitionChoices(Choices):
    """The choices with a transition: those of gradients are not used."""

    stepsizes = CommonChoices.stepsizes


def set_up(choices: TransitionChoices, transition: Callable[[Model | None], Any], gradient: Any) -> Sgmcmc:
    """The sampler with a transition of the user's own."""
    for name, value in (("gradient", gradient), ("gibbs", choices.gibbs)):
        if value is not None:
            raise choices.refuse(name, "be None with a transition, which is all of an iteration", described(value))
    if choices.automatic:
        raise choices.refuse("stepsize", "be given with a transition, of which no variance is known", "'auto'")
    if choices.curvature.preconditioner is not None:
        raise choices.refuse("preconditioner", "be None with a transition", described(choices.preconditioner))
    for schedule in exploring(choices.stepsizes).values():
        raise choices.refuse("stepsize", "have explorationFraction=0 with a transition", schedule)
    fields, minibatch = choices.of_sampler, choices.minibatches.minibatch
    if minibatch.parts:
        raise choices.refuse("minibatchSize", "be a number with a transition", "adaptive")
    if minibatch.wants_importance:
        raise choices.refuse("subsampling", "have weights with a transition, which has no mode", "preferential()")
    model = None if choices.logLik is None else choices.model
    if model is None and (choices.logPrior is not None or choices.temperature != 1):
        raise choices.refuse("logLik", "be a function where logPrior or a temperature is given", "None")
    label = f"transition of {choices.sampler}"
    own = _checked(label, attempted(f"{label} {IN_OPERATIONS}", lambda: transition(model)))
    sampler = OwnSampler(**fields, settings=choices.settings, transition=own)
    _try(sampler)
    return Sgmcmc(sampler, {}, choices.dataset, seeded=choices.seed is not None)


def _checked(label: str, own: Any) -> Transition:
    if not isinstance(own, Transition):
        raise ValueError(f"{label} must return a Transition; got {described(own)}.")
    require_flag("wants_noise", label, own.wants_noise)
    require_flag("vectorized", label, own.vectorized)
    return own


def _try(sampler: OwnSampler) -> None:
    """Refuse steps that do not keep shapes and types, or that draw random numbers of their own."""
    label = f"transition of {sampler.name}"
    start = {name: tf.TensorSpec(shape, sampler.dtype) for name, shape in sampler.shapes.items()}
    step = sampler.first_step()

    def trial(params: Tree) -> Any:
        memory, made = sampler.first_memory(params), step(params)
        if not isinstance(made, tuple) or len(made) != 3:
            raise ValueError(f"{label} must return params, memory and a value from `step`; got {described(made)}.")
        for what, before, after in (
            ("params", params, made[0]),
            ("memory", memory, made[1]),
            ("a value", tf.zeros([], sampler.dtype), made[2]),
        ):
            if types_and_shapes(before) != types_and_shapes(after):
                raise ValueError(
                    f"{label} must keep {what} as {types_and_shapes(before)} in `step`; got {types_and_shapes(after)}."
                )
        stats = sampler.transition.stats(memory) if sampler.transition.stats else {}
        require_free(label, stats)
        return made, stats

    traced = attempted(f"{label} {IN_OPERATIONS}", lambda: trace(trial, start))
    require_pure(label, traced.graph, "Use given.noise, or given.seed with tf.random.stateless_normal and the like.")
