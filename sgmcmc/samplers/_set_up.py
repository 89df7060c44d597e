"""From the user's choices to a sampler."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from sgmcmc.core.covariance import Covariance
from sgmcmc.core.parameters import numbered
from sgmcmc.core.schedules import exploring
from sgmcmc.core.tracing import trace
from sgmcmc.core.types import Dynamics, Given, Gradient
from sgmcmc.dataset.entry import described
from sgmcmc.dataset.memory import InMemory
from sgmcmc.kernel.product import moving_by_rows
from sgmcmc.kernel.statistics import of_dynamics
from sgmcmc.run.gibbs import at_rest
from sgmcmc.run.identity import summed, told
from sgmcmc.run.mode import AutomaticSearch
from sgmcmc.run.product import ProductSampler
from sgmcmc.samplers._automatic import require_automatic
from sgmcmc.samplers._checks import require_count
from sgmcmc.samplers._choices import Choices
from sgmcmc.samplers._gradient import chosen_gradient
from sgmcmc.samplers._sgmcmc import Sgmcmc
from sgmcmc.samplers._sums import Sums, require_sum, warn_unless_sum
from sgmcmc.samplers._trial import require_pure
from sgmcmc.samplers.estimators import Estimator

PROBE_SCALES = (0.1, 1.0, 3.0)


def set_up(
    choices: Choices,
    dynamics: Dynamics | Mapping[str, Dynamics],
    gradient: Estimator | None,
    settings: Mapping[str, Any] | None = None,
    told_apart: Mapping[str, Any] | None = None,
) -> Sgmcmc:
    """The sampler of these choices, with one dynamics for all parameters or one for each.

    `settings` are those of the dynamics, as the user knows them; `told_apart` is what else identifies it.
    """
    each = dict(dynamics) if isinstance(dynamics, Mapping) else dict.fromkeys(choices.start, dynamics)
    each |= dict.fromkeys(choices.moved_by_user, at_rest()._replace(leaps=next(iter(each.values())).leaps))
    own, eps = dict(settings or {}), choices.stepsizes
    chosen = chosen_gradient(choices, gradient, next(iter(each.values())).leaps)
    seed, minibatch, model = choices.random_seed, choices.minibatches.minibatch, choices.model
    shapes = {name: theta.shape for name, theta in choices.start.items()}
    curvature = choices.curvature
    may = chosen.by_rows and curvature.preconditioner is None and not minibatch.parts
    model = model.giving_rows(moving_by_rows(model, minibatch, each) if may else frozenset())
    estimator = chosen.made(model, numbered(shapes))
    search = chosen.search or (AutomaticSearch() if curvature.at_mode or estimator.wants_mode else None)
    if choices.gibbs is not None:
        _require_gibbs(choices, estimator.wants_mode)
    if choices.automatic:
        require_automatic(choices, model, each, own)
    if minibatch.parts and not isinstance(choices.data, InMemory):
        raise choices.refuse(
            "minibatchSize", "be a number for data that are not in memory, since these are fetched ahead", "adaptive"
        )
    _require_covariances(choices, each)
    _require_known_noise(choices, each, estimator)
    _require_noise(choices, each)
    sizing = choices.minibatches.sizing
    if sizing is not None and sizing.threshold is not None and choices.temperature != 1:
        raise choices.refuse(
            "temperature",
            "be 1 for adaptive sizes by Lipschitz constants, since these are not tempered",
            choices.temperature,
        )
    by_terms = {
        "a covariance of its noise": any(one.covariance for one in each.values()),
        "stepsize='auto'": choices.automatic,
        "subsampling by weights": minibatch.scale is None,
        "gradient=saga()": chosen.by_terms,
    }
    sums = Sums(choices.trial.whole.gradient, choices.trial.half.gradient, choices.data, choices.start)
    if any(by_terms.values()):
        require_sum(choices.sampler, sums, next(what for what, wanted in by_terms.items() if wanted))
    else:
        warn_unless_sum(choices.sampler, sums)
    sampler = ProductSampler(
        name=choices.sampler,
        data=choices.data,
        dtype=choices.float_type,
        model=model,
        minibatch=minibatch,
        gradient=estimator,
        own_gradient=chosen.own,
        dynamics=each,
        stepsize=eps,
        start=choices.start,
        seed=seed,
        search=search,
        curvature=curvature,
        n_chains=choices.n_chains,
        starts=choices.chain_starts,
        shared_minibatch=choices.shared_minibatch,
        sizing=choices.minibatches.sizing,
        gibbs=choices.step_of_user,
        settings=choices.settings | own | chosen.settings | dict(told_apart or {}),
    )
    return Sgmcmc(sampler, own, choices.dataset, seeded=choices.seed is not None)


def _require_covariances(choices: Choices, dynamics: Mapping[str, Dynamics]) -> None:
    """Refuse minibatches that cannot estimate a covariance of the gradient's noise, if one is needed."""
    if any(one.covariance for one in dynamics.values()):
        if choices.minibatches.minibatch.parts:
            raise choices.refuse("minibatchSize", "be a number if the noise of the gradient is estimated", "adaptive")
        if not choices.minibatches.minibatch.independent:
            raise choices.refuse(
                "subsampling",
                "draw each minibatch afresh if the noise of the gradient is estimated: within an epoch it cancels",
                described(choices.subsampling),
            )
        if choices.minibatches.n < 2:
            raise choices.refuse("minibatchSize", "be at least 2, to estimate the noise of the gradient", 1)


def _require_known_noise(choices: Choices, dynamics: Mapping[str, Dynamics], gradient: Gradient) -> None:
    """Refuse what needs the noise of the gradient where it does not follow from single observations."""
    wanted = {
        "stepsize='auto'": choices.automatic,
        "a covariance of its noise": any(one.covariance for one in dynamics.values()),
        "preferential()": choices.minibatches.minibatch.wants_importance,
    }
    for what in (what for what, is_wanted in wanted.items() if is_wanted):
        if gradient.terms is None:
            raise choices.refuse("gradient", f"have `terms` for {what}, which needs its noise", "one without")
        if not choices.minibatches.minibatch.simple:
            raise choices.refuse(
                "subsampling", f"draw observations independently (`simple`) for {what}", described(choices.subsampling)
            )


def _require_noise(choices: Choices, dynamics: Mapping[str, Dynamics]) -> None:
    """Refuse an exploring schedule with a thermostat, which would heat the chain while it has no noise."""
    for name, schedule in exploring(choices.stepsizes).items():
        if "thermostat" in of_dynamics(dynamics[name], choices.start[name].shape, choices.float_type):
            raise choices.refuse(
                "stepsize",
                "have explorationFraction=0 for a sampler with a thermostat, which would heat the chain",
                schedule,
            )


def _require_gibbs(choices: Choices, wants_mode: bool) -> None:
    """Refuse arguments that `gibbs` cannot be combined with."""
    if choices.automatic:
        raise choices.refuse("stepsize", "be given with gibbs", "'auto'")
    if choices.minibatches.minibatch.scale is None:
        raise choices.refuse("subsampling", "be uniform with gibbs, which is given no weights", "weights")
    if choices.curvature.preconditioner is not None:
        raise choices.refuse("preconditioner", "be None with gibbs", described(choices.preconditioner))
    if choices.temperature != 1:
        raise choices.refuse(
            "temperature", "be 1 with gibbs, whose draws would need tempering too", choices.temperature
        )
    if wants_mode:
        raise choices.refuse(
            "gibbs", "be None with control variates around the mode, whose search has no such step", "a function"
        )
    if choices.minibatches.minibatch.parts:
        raise choices.refuse("minibatchSize", "be a number with gibbs", "adaptive")


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
    if len(set(leaps.values())) > 1:
        raise choices.refuse("dynamics", "have the same number of leaps for all parameters", leaps)
    for name, one in each.items():
        if one.covariance not in (None, *(how.value for how in Covariance)):
            raise choices.refuse("covariance of dynamics", "be None, 'diag' or 'full'", repr(one.covariance))
        theta = tf.TensorSpec(choices.start[name].shape, choices.float_type)
        try:
            traced = trace(_trial(one), theta)
        except Exception as error:
            raise ValueError(
                f"dynamics of {choices.sampler} must keep the shape and the type of {name!r} and of its memory, in "
                f"TensorFlow operations; it raised {type(error).__name__}: {error}"
            ) from error
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
        all_told[name] = {"leaps": one.leaps, "values": told(sums, _trial(one), spec)}
    return all_told


def _given(dynamics: Dynamics, eps: tf.Tensor, noise: tf.Tensor, gradient: tf.Tensor) -> Given:
    if dynamics.covariance is None:
        return Given(eps, noise, gradient)
    return Given(eps, noise, gradient, Covariance(dynamics.covariance).of_sum(tf.stack([gradient, noise])))


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
            for x, y in zip(tf.nest.flatten(before), tf.nest.flatten(made), strict=True):
                if (x.shape, x.dtype) != (y.shape, y.dtype):
                    raise TypeError(f"{x.dtype.name}{x.shape} became {y.dtype.name}{y.shape}")
        stats = dynamics.stats(memory, Given(eps)) if dynamics.stats else {}
        return moved, after, renewed, drifted, stats

    return trial
