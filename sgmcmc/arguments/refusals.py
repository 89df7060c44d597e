"""What cannot be combined: one row for each pair of arguments, with what one of them must be and why.

The checks of a call, their tests and the page "What works with what" read these tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from sgmcmc.arguments import is_auto
from sgmcmc.arguments.data import shards
from sgmcmc.arguments.gradient import controlVariates, saga
from sgmcmc.arguments.minibatch import WITHIN, adaptive
from sgmcmc.core.schedules import exploring
from sgmcmc.core.transforms import DENSE, LOW_RANK
from sgmcmc.dataset.arrays import described
from sgmcmc.dataset.memory import InMemory
from sgmcmc.dataset.remote import Remotes
from sgmcmc.draws.temperature import of_posterior
from sgmcmc.dynamics import Dynamics
from sgmcmc.gradients import Gradient
from sgmcmc.kernel.movement import climbs
from sgmcmc.kernel.statistics import of_dynamics
from sgmcmc.laplace.whitening import MOST_DENSE
from sgmcmc.model import Model
from sgmcmc.run.mode import AutomaticSearch, ModeSearch
from sgmcmc.run.other_samplers import OwnSampler
from sgmcmc.run.sampler import Sampler

if TYPE_CHECKING:
    from sgmcmc.arguments.choices import Choices
    from sgmcmc.arguments.common import CommonChoices

MOST_ELEMENTS = 100_000  # beyond which the directions of the curvature take too much memory


class Refusal(NamedTuple):
    """A combination that is an error: `argument` must `must`, unless `found` returns None, not the offending value."""

    argument: str
    must: str
    found: Callable[[Any], Any]


Table = Mapping[str, tuple[Refusal, ...]]
"""Refusals by what the arguments are combined with."""


def refuse(table: Table, sampler: str, asked: Any) -> None:
    """Raise a ValueError for the first combination in the table that is asked for."""
    for rows in table.values():
        for argument, must, found in rows:
            if (got := found(asked)) is not None:
                raise ValueError(f"{argument} of {sampler} must {must}; got {got}.")


def _if(condition: Any, got: Any) -> Any:
    return got if condition else None


def _lone(choices: CommonChoices) -> str | None:
    return _if(choices.asked_chains is None, "nChains=None")


OF_ALL: Table = {
    "`nChains`": (
        Refusal("starts", "come with nChains", lambda c: _if(c.starts is not None, _lone(c))),
        Refusal("sharedMinibatch", "come with nChains", lambda c: _if(c.sharedMinibatch is True, _lone(c))),
    ),
    "`shards` as the dataset": (
        Refusal(
            "subsampling",
            f"be {' or '.join(map(repr, WITHIN))} for a dataset of shards",
            lambda c: _if(
                isinstance(c.dataset, shards) and not _is_one_of(c.subsampling, WITHIN), _name(c.subsampling)
            ),
        ),
        Refusal(
            "minibatchSize",
            "be a number for a dataset of shards",
            lambda c: _if(isinstance(c.dataset, shards) and isinstance(c.minibatchSize, adaptive), "adaptive"),
        ),
    ),
    "`minibatchSize=adaptive()`": (
        Refusal(
            "subsampling",
            "draw each minibatch afresh, for an adaptive size",
            lambda c: _if(
                isinstance(c.minibatchSize, adaptive) and _is_one_of(c.subsampling, ("reshuffled", "symmetric")),
                _name(c.subsampling),
            ),
        ),
    ),
}
"""Of all samplers, by the arguments as they were given."""


def _is_one_of(value: Any, words: Any) -> bool:
    return isinstance(value, str) and value in words


def _name(value: Any) -> str:
    return repr(value) if isinstance(value, str) else described(value)


@dataclass(frozen=True)
class Asked:
    """What a call of a sampler that uses gradients asks for."""

    choices: Choices
    gradient: Any  # as it was given
    estimator: Gradient
    is_users: bool  # the estimator
    search: ModeSearch | AutomaticSearch | None
    model: Model
    dynamics: Mapping[str, Dynamics]
    settings: Mapping[str, Any]  # of the dynamics

    @property
    def auto(self) -> bool:
        """Whether the stepsize is "auto"."""
        return self.choices.automatic

    @property
    def size(self) -> int:
        """The number of elements of all parameters."""
        return sum(theta.size for theta in self.choices.start.values())

    @property
    def preconditioner(self) -> Any:
        """The preconditioner that "auto" stands for, or the one given."""
        return self.choices.curvature.preconditioner

    @property
    def to_sandwich(self) -> bool:
        """Whether the target is the sandwich."""
        return self.choices.curvature.to_sandwich

    @property
    def adapts(self) -> bool:
        """Whether the minibatch size is adaptive."""
        return self.choices.minibatches.sizing is not None

    @property
    def by_constants(self) -> bool:
        """Whether it adapts by Lipschitz constants."""
        sizing = self.choices.minibatches.sizing
        return sizing is not None and sizing.threshold is not None

    @property
    def is_remote(self) -> bool:
        """Whether the data are shards with executors."""
        return isinstance(self.choices.data, Remotes)

    @property
    def is_other(self) -> bool:
        """Whether the estimator is neither plain nor control variates around the mode."""
        return self.is_users or self.estimator.has_history

    @property
    def estimates_noise(self) -> bool:
        """Whether the dynamics use an estimated covariance of the gradient noise."""
        return any(one.covariance for one in self.dynamics.values())

    @property
    def partly(self) -> bool:
        """Whether they estimate only a part of this covariance."""
        estimated = {one.covariance for one in self.dynamics.values()} - {None}
        return bool(estimated) and self.size > 1 and (estimated != {"full"} or len(self.choices.start) > 1)

    @property
    def explores_without(self) -> Any:
        """The first exploring schedule of a dynamics that does not climb without noise."""
        return self._first_exploring(lambda dynamics, *specs: not climbs(dynamics, *specs))

    @property
    def explores_with_thermostat(self) -> Any:
        """The first exploring schedule of a dynamics with a thermostat."""
        return self._first_exploring(lambda dynamics, *specs: "thermostat" in of_dynamics(dynamics, *specs))

    def _first_exploring(self, unsuitable: Callable[..., bool]) -> Any:
        choices = self.choices
        return next(
            (
                schedule
                for name, schedule in exploring(choices.stepsizes).items()
                if unsuitable(self.dynamics[name], choices.start[name].shape, choices.float_type)
            ),
            None,
        )

    @property
    def subsampling(self) -> str:
        """The argument `subsampling`, for messages."""
        return described(self.choices.subsampling)


def _several(settings: Mapping[str, Any], name: str) -> Any:
    value = settings.get(name)
    return _if(isinstance(value, Mapping) and len(set(value.values())) > 1, value)


def _has_terms(use: str, wanted: Callable[[Asked], Any]) -> Refusal:
    """The gradient noise must follow from single observations: the estimator has their terms."""
    return Refusal(
        "gradient",
        f"have `terms` for {use}, to estimate its noise",
        lambda a: _if(wanted(a) and a.estimator.terms is None, "one without"),
    )


def _is_simple(use: str, wanted: Callable[[Asked], Any]) -> Refusal:
    """The same: the scheme draws them independently."""
    return Refusal(
        "subsampling",
        f"draw observations independently (`simple`) for {use}",
        lambda a: _if(wanted(a) and not a.choices.minibatches.minibatch.simple, a.subsampling),
    )


OF_GRADIENTS: Table = {
    '`target="sandwich"`': (
        Refusal(
            "stepsize",
            "be 'auto' for target='sandwich'",
            lambda a: _if(a.to_sandwich and not a.auto, a.choices.stepsize),
        ),
        Refusal(
            "preconditioner",
            f"be {DENSE!r} for target='sandwich'",
            lambda a: _if(a.to_sandwich and not _is_one_of(a.preconditioner, (DENSE,)), repr(a.choices.preconditioner)),
        ),
        Refusal(
            "temperature",
            "be 1 for target='sandwich'",
            lambda a: _if(a.to_sandwich and a.choices.temperature != 1, a.choices.temperature),
        ),
        Refusal(
            "dataset",
            "have no shards for target='sandwich'",
            lambda a: _if(a.to_sandwich and a.choices.data.shards is not None, "shards"),
        ),
        Refusal(
            "gradient",
            "be None for target='sandwich'",
            lambda a: _if(a.to_sandwich and a.estimator.has_history, "one with a memory"),
        ),
    ),
    "`minibatchSize=adaptive()`": (
        Refusal(
            "minibatchSize",
            "be a number without control variates around the mode, since an adaptive size depends on the distance from "
            "their centre",
            lambda a: _if(a.adapts and not isinstance(a.gradient, controlVariates), "adaptive"),
        ),
        Refusal(
            "minibatchSize",
            "be a number for data that are not in memory, since these are fetched ahead",
            lambda a: _if(a.adapts and not isinstance(a.choices.data, InMemory), "adaptive"),
        ),
        Refusal(
            "temperature",
            "be 1 for adaptive sizes by Lipschitz constants, since these are not tempered",
            lambda a: _if(a.by_constants and a.choices.temperature != 1, a.choices.temperature),
        ),
        Refusal(
            "transforms",
            "be None for adaptive sizes by Lipschitz constants, which are not those on the unconstrained scale",
            lambda a: _if(
                a.by_constants and a.choices.constraints, f"transforms of {sorted(a.choices.constraints.each)}"
            ),
        ),
    ),
    "`gradient=saga()`": (
        Refusal(
            "subsampling",  # within an epoch only observations with old gradients would be left, a bias
            "draw each minibatch afresh, for saga()",
            lambda a: _if(
                isinstance(a.gradient, saga) and not a.choices.minibatches.minibatch.independent, a.subsampling
            ),
        ),
    ),
    "shards with executors": (
        Refusal(
            "gradient",
            "be None or control variates for shards with executors, of which a chain sees one at a time",
            lambda a: _if(a.is_remote and a.is_other, "another"),
        ),
        Refusal(
            "optStepsize",
            "be 'auto' for shards with executors",
            lambda a: _if(a.is_remote and isinstance(a.search, ModeSearch), getattr(a.search, "stepsize", None)),
        ),
        Refusal(
            "gibbs",
            "be None for shards with executors",
            lambda a: _if(a.is_remote and a.choices.gibbs is not None, "a function"),
        ),
    ),
    "`gibbs`": (
        Refusal("stepsize", "be given with gibbs", lambda a: _if(a.choices.gibbs and a.auto, "'auto'")),
        Refusal(
            "subsampling",
            "be uniform with gibbs, which gets no weights",
            lambda a: _if(a.choices.gibbs and a.choices.minibatches.minibatch.scale is None, "weights"),
        ),
        Refusal(
            "preconditioner",
            "be None with gibbs",
            lambda a: _if(a.choices.gibbs and a.preconditioner is not None, described(a.choices.preconditioner)),
        ),
        Refusal(
            "temperature",
            "be 1 with gibbs, whose draws would need tempering too",
            lambda a: _if(a.choices.gibbs and a.choices.temperature != 1, a.choices.temperature),
        ),
        Refusal(
            "gibbs",
            "be None with control variates around the mode, since the search has no such step",
            lambda a: _if(a.choices.gibbs and a.estimator.wants_mode, "a function"),
        ),
    ),
    '`preconditioner="lowRank"`': (
        Refusal(
            "gradient",
            f"be None or control variates with preconditioner={LOW_RANK!r}, as for many elements of params",
            lambda a: _if(a.choices.curvature.is_wide and a.is_other, "another"),
        ),
        Refusal(
            "subsampling",
            f"be uniform or by weights of your own with preconditioner={LOW_RANK!r}, as for many elements of params",
            lambda a: _if(
                a.choices.curvature.is_wide and a.choices.minibatches.minibatch.wants_importance, "preferential()"
            ),
        ),
    ),
    '`stepsize="auto"`': (
        Refusal(
            "stepsize",
            f"be a number if params have more than {MOST_ELEMENTS} elements; tune can find one",
            lambda a: _if(a.auto and a.size > MOST_ELEMENTS, f"'auto' for {a.size}"),
        ),
        Refusal(
            "preconditioner",
            f"be {LOW_RANK!r} with the stepsize 'auto' for more than {MOST_DENSE} elements of params",
            lambda a: _if(
                a.auto and a.size > MOST_DENSE and not a.choices.curvature.is_wide, repr(a.choices.preconditioner)
            ),
        ),
        Refusal(
            "stepsize",
            "be a number for Dynamics without `stationary`, from which 'auto' computes the variance of the chain",
            lambda a: _if(a.auto and any(one.stationary is None for one in a.dynamics.values()), "'auto'"),
        ),
        Refusal(
            "stepsize",
            "be given if parameters have different dynamics",
            lambda a: _if(
                a.auto and a.choices.sampler == "sample" and len({id(one) for one in a.dynamics.values()}) > 1, "'auto'"
            ),
        ),
        Refusal(
            "alpha", "be one number if the stepsize is 'auto'", lambda a: _if(a.auto, _several(a.settings, "alpha"))
        ),
        Refusal("a", "be one number if the stepsize is 'auto'", lambda a: _if(a.auto, _several(a.settings, "a"))),
        Refusal(
            "stepsize",
            "be a number unless params are one array and covariance='full': otherwise part of the covariance of the "
            "gradient noise is not estimated, which heats some directions and cools others",
            lambda a: _if(a.auto and a.partly, "'auto'"),
        ),
        Refusal(
            "stepsize", "be a number for minibatches of adaptive size", lambda a: _if(a.auto and a.adapts, "'auto'")
        ),
        Refusal(
            "stepsize",
            "be a number if a minibatch moves only some rows of params (with preconditioner='diagonal' all rows move, "
            "and 'auto' works)",
            lambda a: _if(a.auto and a.model.by_rows, f"'auto' with rows of {sorted(a.model.by_rows)}"),
        ),
        _has_terms("stepsize='auto'", lambda a: a.auto),
        _is_simple("stepsize='auto'", lambda a: a.auto),
    ),
    '`minibatchSize="auto"`': (
        Refusal(
            "minibatchSize",
            "be a number unless the stepsize is 'auto'",
            lambda a: _if(not a.auto and is_auto(a.choices.minibatchSize), "'auto'"),
        ),
    ),
    "`subsampling=preferential()`": (
        _has_terms("preferential()", lambda a: a.choices.minibatches.minibatch.wants_importance),
    ),
    'an estimated covariance of the gradient noise (`covariance`, `betaHat="fisher"`)': (
        Refusal(
            "minibatchSize",
            "be a number if the gradient noise is estimated",
            lambda a: _if(a.estimates_noise and a.adapts, "adaptive"),
        ),
        Refusal(
            "subsampling",
            "draw each minibatch afresh if the gradient noise is estimated: within an epoch it cancels",
            lambda a: _if(a.estimates_noise and not a.choices.minibatches.minibatch.independent, a.subsampling),
        ),
        Refusal(
            "minibatchSize",
            "be at least 2, to estimate the gradient noise",
            lambda a: _if(a.estimates_noise and a.choices.minibatches.n < 2, 1),
        ),
        _has_terms("the covariance of gradient noise", lambda a: a.estimates_noise),
        _is_simple("the covariance of gradient noise", lambda a: a.estimates_noise),
    ),
    "`cyclical(..., explorationFraction=...)`": (
        Refusal(
            "stepsize",
            "have explorationFraction=0 for a sampler that does not climb without noise",
            lambda a: a.explores_without,
        ),
        Refusal(
            "stepsize",
            "have explorationFraction=0 for a sampler with a thermostat, which would heat the chain",
            lambda a: a.explores_with_thermostat,
        ),
    ),
}
"""Of samplers that use gradients, by the arguments as they were converted."""


@dataclass(frozen=True)
class AskedOfTransition:
    """What a call of `sample` with a transition asks for."""

    choices: Choices
    gradient: Any


OF_TRANSITIONS: Table = {
    "`transition`": (
        Refusal(
            "gibbs",
            "be None with a transition, which is a whole iteration",
            lambda a: _if(a.choices.gibbs is not None, described(a.choices.gibbs)),
        ),
        Refusal(
            "transforms",
            "be None with a transition, which moves params themselves",
            lambda a: _if(a.choices.transforms is not None, "some"),
        ),
        Refusal(
            "stepsize",
            "be given with a transition, whose variance is unknown",
            lambda a: _if(a.choices.automatic, "'auto'"),
        ),
        Refusal(
            "preconditioner",
            "be None with a transition",
            lambda a: _if(a.choices.curvature.preconditioner is not None, described(a.choices.preconditioner)),
        ),
        Refusal(
            "stepsize",
            "have explorationFraction=0 with a transition",
            lambda a: next(iter(exploring(a.choices.stepsizes).values()), None),
        ),
        Refusal(
            "minibatchSize",
            "be a number with a transition",
            lambda a: _if(not a.choices.minibatches.is_number, described(a.choices.minibatchSize)),
        ),
        Refusal(
            "subsampling",
            "have weights with a transition, which has no mode",
            lambda a: _if(a.choices.minibatches.minibatch.wants_importance, "preferential()"),
        ),
        Refusal(
            "logLik",
            "be a function if logPrior or a temperature is given",
            lambda a: _if(
                a.choices.logLik is None and (a.choices.logPrior is not None or a.choices.temperature != 1), "None"
            ),
        ),
        Refusal(
            "gradient",
            "be None with a transition, which is a whole iteration",
            lambda a: _if(a.gradient is not None, described(a.gradient)),
        ),
    ),
}


@dataclass(frozen=True)
class AskedOfRun:
    """What a call asks for, beside its sampler."""

    sampler: Sampler
    n_iters: Any
    options: Mapping[str, Any]

    def __getitem__(self, argument: str) -> Any:
        return self.options[argument]

    @property
    def auto(self) -> bool:
        """Whether `nIters` is "auto"."""
        return is_auto(self.n_iters)

    @property
    def is_remote(self) -> bool:
        """Whether the data are shards with executors."""
        return isinstance(self.sampler.data, Remotes)


def _of_stopping_rule(argument: str) -> Refusal:
    return Refusal(
        argument,
        "come with nIters='auto'",
        lambda a: _if(not a.auto and a[argument] is not None, f"nIters={a.n_iters!r}"),
    )


OF_RUNS: Table = {
    '`nIters="auto"`': (
        *(_of_stopping_rule(argument) for argument in ("ess", "mcse", "maxIters", "maxSeconds")),
        Refusal(
            "nChains",
            "be at least 2 with nIters='auto', which compares chains",
            lambda a: _if(
                a.auto and len(a.sampler.chains) < 2,
                "a single one" if a.sampler.n_chains is None else a.sampler.n_chains,
            ),
        ),
        Refusal(
            "reduce",
            "come with collect if nIters='auto', which checks stored draws",
            lambda a: _if(
                a.auto and a["reduce"] is not None and a["collect"] is None and not a["gradients"], "reduce alone"
            ),
        ),
        Refusal("ess", "be None if mcse is given", lambda a: _if(a.auto and a["mcse"] is not None, a["ess"])),
    ),
    "`gradients=True`": (
        Refusal(
            "gradients",
            "be False with transforms, since they would be those on the unconstrained scale, not of params",
            lambda a: _if(a["gradients"] and a.sampler.transforms, True),
        ),
        Refusal(
            "gradients",
            "be False unless the target is the posterior, since functions that use them, such as ksd and "
            "zvControlVariates, assume draws from the posterior",
            lambda a: _if(a["gradients"] and not of_posterior(a.sampler.settings), True),
        ),
        Refusal(
            "gradients",
            "be False for shards with executors",
            lambda a: _if(a["gradients"] and a.is_remote, True),
        ),
        Refusal(
            "gradients",
            "be False with a transition, which estimates none",
            lambda a: _if(a["gradients"] and isinstance(a.sampler, OwnSampler), True),
        ),
    ),
    "`executor`": (
        Refusal(
            "executor",
            "be None for shards with executors of their own",
            lambda a: _if(a["executor"] is not None and a.is_remote, "one"),
        ),
        Refusal(
            "executor",
            "come with nChains, of which each job has some",
            lambda a: _if(a["executor"] is not None and a.sampler.n_chains is None, "nChains=None"),
        ),
    ),
    "`resume`": (
        Refusal(
            "resume",
            "come with storage, the store to continue",
            lambda a: _if(a["resume"] is True and a["storage"] is None, "storage=None"),
        ),
    ),
}
"""Of the arguments of a run."""

TABLES: dict[str, Table] = {
    "All samplers": OF_ALL,
    "Samplers that use gradients": OF_GRADIENTS,
    "`sample` with a transition": OF_TRANSITIONS,
    "Runs": OF_RUNS,
}
"""All of them, by what they are about."""
