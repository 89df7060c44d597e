"""From the user's choices to a sampler."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sgmcmc.arguments.choices import Choices
from sgmcmc.arguments.dynamics import climbs
from sgmcmc.arguments.gradient import Estimator, chosen_gradient
from sgmcmc.arguments.minibatch import adaptive
from sgmcmc.arguments.sampler import Sgmcmc
from sgmcmc.arguments.trial import require_sum, sums_of, warn_unless_sum
from sgmcmc.core.checks import warn_of_lost_noise
from sgmcmc.core.errors import warn_user
from sgmcmc.core.schedules import exploring, first
from sgmcmc.core.transforms import LOW_RANK
from sgmcmc.core.trees import numbered
from sgmcmc.dataset.arrays import described
from sgmcmc.dataset.memory import InMemory
from sgmcmc.dataset.remote import Remotes
from sgmcmc.dynamics import Dynamics
from sgmcmc.gradients import Gradient
from sgmcmc.kernel.product import moving_by_rows
from sgmcmc.kernel.statistics import of_dynamics
from sgmcmc.kernel.user_steps import unmoved
from sgmcmc.laplace.whitening import MOST_DENSE
from sgmcmc.model import Model
from sgmcmc.run.mode import AutomaticSearch, ModeSearch
from sgmcmc.run.product import ProductSampler

MOST_WIDE = 100_000  # elements of the parameters; of more, the directions of the curvature take too much memory


def require_automatic(
    choices: Choices, model: Model, dynamics: Mapping[str, Dynamics], settings: Mapping[str, Any]
) -> None:
    """Refuse arguments with which no stepsize can be found.

    Raises
    ------
    ValueError
        Naming the argument, and what would work.
    """
    of, size = choices.sampler, sum(theta.size for theta in choices.start.values())
    if size > MOST_WIDE:
        raise choices.refuse(
            "stepsize",
            f"be a number if params have more than {MOST_WIDE} elements; tune can find one",
            f"'auto' for {size}",
        )
    if size > MOST_DENSE and not choices.curvature.is_wide:
        must = f"be {LOW_RANK!r} with the stepsize 'auto' for more than {MOST_DENSE} elements of params"
        raise choices.refuse("preconditioner", must, repr(choices.preconditioner))
    if any(one.stationary is None for one in dynamics.values()):
        raise choices.refuse(
            "stepsize",
            "be a number for Dynamics without `stationary`, from which 'auto' computes the variance of the chain",
            "'auto'",
        )
    if of == "sample" and len({id(one) for one in dynamics.values()}) > 1:
        raise choices.refuse("stepsize", "be given if parameters have different dynamics", "'auto'")
    for name, value in settings.items():
        if isinstance(value, Mapping) and len(set(value.values())) > 1:
            raise choices.refuse(name, "be one number if the stepsize is 'auto'", value)
    estimated = {one.covariance for one in dynamics.values()} - {None}
    if estimated and size > 1 and (estimated != {"full"} or len(choices.start) > 1):
        raise choices.refuse(
            "stepsize",
            "be a number unless params are one array and covariance='full': otherwise part of the covariance of the "
            "gradient's noise is not estimated, which heats some directions and cools others",
            "'auto'",
        )
    if isinstance(choices.minibatchSize, adaptive):
        raise choices.refuse("stepsize", "be a number for minibatches of an adaptive size", "'auto'")
    if model.by_rows:
        raise ValueError(
            f"stepsize of {of} must be a number if a minibatch moves only some rows of params, here of "
            f"{sorted(model.by_rows)}; got 'auto'. With preconditioner='diagonal' all rows move, and 'auto' is "
            "possible."
        )


def set_up(
    choices: Choices,
    dynamics: Dynamics | Mapping[str, Dynamics],
    gradient: Estimator | None,
    settings: Mapping[str, Any] | None = None,
    identity: Mapping[str, Any] | None = None,
) -> Sgmcmc:
    """The sampler of these choices, with one dynamics for all parameters or one for each.

    `settings` are those of the dynamics, as the user knows them; `identity` is what else identifies it.
    """
    each = dict(dynamics) if isinstance(dynamics, Mapping) else dict.fromkeys(choices.start, dynamics)
    each |= dict.fromkeys(choices.moved_by_gibbs, unmoved()._replace(leaps=next(iter(each.values())).leaps))
    own = dict(settings or {})
    _warn_of_lost_noise(choices)
    leaps = next(iter(each.values())).leaps
    chosen = chosen_gradient(choices, gradient, leaps)
    minibatch, model = choices.minibatches.for_leaps(leaps), choices.model
    shapes = {name: theta.shape for name, theta in choices.start.items()}
    curvature = choices.curvature
    remote = isinstance(choices.data, Remotes)
    may = chosen.by_rows and curvature.preconditioner is None and not minibatch.parts and not remote
    model = model.giving_rows(moving_by_rows(model, minibatch, each) if may else frozenset())
    estimator = chosen.made(model, numbered(shapes))
    search = chosen.search or (AutomaticSearch() if curvature.at_mode or estimator.wants_mode else None)
    if search is None and choices.data.shards is not None and choices.data.shards.hop > 1:
        warn_user(
            f"what the shards of {choices.sampler} do to the standard deviations of its draws is unknown, since there "
            "is no search for a mode, at which they could be compared: use control variates, stepsize='auto' or hop=1."
        )
    if remote:
        _require_stateless(choices, estimator, chosen.own, search)
    if choices.gibbs is not None:
        _require_gibbs(choices, estimator.wants_mode)
    if curvature.is_wide:
        _require_known_terms(choices, estimator, chosen.own)
    if curvature.to_sandwich and estimator.has_history:
        raise choices.refuse("gradient", "be None for target='sandwich'", "one that remembers")
    if choices.automatic:
        require_automatic(choices, model, each, own)
    elif choices.minibatches.of_size is not None:
        raise choices.refuse("minibatchSize", "be a number unless the stepsize is 'auto'", "'auto'")
    if minibatch.parts and not isinstance(choices.data, InMemory):
        raise choices.refuse(
            "minibatchSize", "be a number for data that are not in memory, since these are fetched ahead", "adaptive"
        )
    _require_covariances(choices, each)
    _require_known_noise(choices, each, estimator)
    _require_noise(choices, each)
    _require_constants(choices)
    by_terms = {
        "a covariance of its noise": any(one.covariance for one in each.values()),
        "stepsize='auto'": choices.automatic,
        "subsampling by weights": minibatch.scale is None,
        "gradient=saga()": chosen.by_terms,
    }
    sums = sums_of(choices.trial, choices.given)
    if any(by_terms.values()):
        require_sum(choices.sampler, sums, next(what for what, wanted in by_terms.items() if wanted))
    else:
        warn_unless_sum(choices.sampler, sums)
    sampler = ProductSampler(
        **choices.of_sampler | {"minibatch": minibatch},
        model=model,
        gradient=estimator,
        own_gradient=chosen.own,
        dynamics=each,
        search=search,
        curvature=curvature,
        sizing=choices.minibatches.sizing,
        of_size=choices.minibatches.of_size,
        touched=choices.trial.whole.touched,
        gibbs=choices.step_of_user,
        settings=choices.settings | own | chosen.settings | dict(identity or {}),
    )
    return Sgmcmc(sampler, own, choices.dataset, seeded=choices.seed is not None)


def _warn_of_lost_noise(choices: Choices) -> None:
    """Warn of steps that rounding swallows; with a search or a preconditioner they are known later."""
    if choices.automatic or choices.curvature.preconditioner is not None:
        return
    noise = {
        name: first(eps, choices.float_type) ** 0.5
        for name, eps in choices.stepsizes.items()
        if name not in choices.moved_by_gibbs
    }
    positions = choices.chain_starts if isinstance(choices.chain_starts, dict) else choices.start
    warn_of_lost_noise(choices.sampler, noise, positions)


def _require_constants(choices: Choices) -> None:
    """Refuse Lipschitz constants of another density than the chain's."""
    sizing = choices.minibatches.sizing
    if sizing is None or sizing.threshold is None:
        return
    if choices.temperature != 1:
        raise choices.refuse(
            "temperature",
            "be 1 for adaptive sizes by Lipschitz constants, since these are not tempered",
            choices.temperature,
        )
    if choices.constraints:
        raise choices.refuse(
            "transforms",
            "be None for adaptive sizes by Lipschitz constants, which are not those of what the chain moves",
            f"transforms of {sorted(choices.constraints.each)}",
        )


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
    """Refuse an exploring schedule, which takes the noise away, with a thermostat or steps that need noise."""
    for name, schedule in exploring(choices.stepsizes).items():
        if not climbs(dynamics[name], choices.start[name].shape, choices.float_type):
            raise choices.refuse(
                "stepsize", "have explorationFraction=0 for a sampler that does not climb without noise", schedule
            )
        if "thermostat" in of_dynamics(dynamics[name], choices.start[name].shape, choices.float_type):
            raise choices.refuse(
                "stepsize",
                "have explorationFraction=0 for a sampler with a thermostat, which would heat the chain",
                schedule,
            )


def _require_stateless(choices: Choices, estimator: Gradient, own: bool, search: Any) -> None:
    """Refuse what cannot be done where the observations of a shard are."""
    if own or estimator.has_history:
        must = "be None or control variates for shards with executors, of which a chain sees one at a time"
        raise choices.refuse("gradient", must, "another")
    if isinstance(search, ModeSearch):
        raise choices.refuse("optStepsize", "be 'auto' for shards with executors", search.stepsize)
    if choices.gibbs is not None:
        raise choices.refuse("gibbs", "be None for shards with executors", "a function")


def _require_known_terms(choices: Choices, estimator: Gradient, own: bool) -> None:
    """Refuse what needs the terms of single observations, of which there are too many elements."""
    if own or estimator.has_history:
        must = f"be None or control variates with preconditioner={LOW_RANK!r}, as for many elements of params"
        raise choices.refuse("gradient", must, "another")
    if choices.minibatches.minibatch.wants_importance:
        must = f"be uniform or by weights of your own with preconditioner={LOW_RANK!r}, as for many elements of params"
        raise choices.refuse("subsampling", must, "preferential()")


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
