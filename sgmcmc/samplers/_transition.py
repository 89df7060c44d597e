"""The argument `transition` of `sample`: an iteration of the user's own, after a trial on abstract tensors."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import tensorflow as tf

from sgmcmc.core.checks import IN_OPERATIONS, attempted, require_flag, types_and_shapes
from sgmcmc.core.tracing import trace
from sgmcmc.core.transforms import Transforms
from sgmcmc.core.types import Transition, Tree
from sgmcmc.dataset.entry import described
from sgmcmc.model import Model
from sgmcmc.run.own import OwnSampler
from sgmcmc.samplers._choices import Choices
from sgmcmc.samplers._sgmcmc import Sgmcmc
from sgmcmc.samplers._trial import require_free, require_pure


class TransitionChoices(Choices):
    """The choices with a transition: those of gradients are not used."""

    def check(self) -> None:
        """Refuse those of gradients, then check the others."""
        if self.gibbs is not None:
            raise self.refuse("gibbs", "be None with a transition, which is all of an iteration", described(self.gibbs))
        if self.transforms is not None:
            raise self.refuse("transforms", "be None with a transition, which moves params themselves", "some")
        if self.automatic:
            raise self.refuse("stepsize", "be given with a transition, of which no variance is known", "'auto'")
        super().check()
        if self.curvature.preconditioner is not None:
            raise self.refuse("preconditioner", "be None with a transition", described(self.preconditioner))
        self.refuse_exploring(" with a transition")
        if not self.minibatches.is_number:
            raise self.refuse("minibatchSize", "be a number with a transition", described(self.minibatchSize))
        if self.minibatches.minibatch.wants_importance:
            raise self.refuse("subsampling", "have weights with a transition, which has no mode", "preferential()")

    @cached_property
    def constraints(self) -> Transforms:
        """None, also where the prior is a joint distribution."""
        return Transforms()

    @cached_property
    def model(self) -> Model | None:  # type: ignore[override]
        """The posterior, or None for a transition that needs none."""
        if self.logLik is not None:
            return super().model
        if self.logPrior is not None or self.temperature != 1:
            raise self.refuse("logLik", "be a function where logPrior or a temperature is given", "None")
        return None


def set_up(choices: TransitionChoices, transition: Callable[[Model | None], Any], gradient: Any) -> Sgmcmc:
    """The sampler with a transition of the user's own."""
    if gradient is not None:
        raise choices.refuse("gradient", "be None with a transition, which is all of an iteration", described(gradient))
    label = f"transition of {choices.sampler}"
    own = _checked(label, attempted(f"{label} {IN_OPERATIONS}", lambda: transition(choices.model)))
    sampler = OwnSampler(**choices.of_sampler, settings=choices.settings, transition=own)
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
