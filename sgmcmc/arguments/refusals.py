"""What cannot be combined: one row for each pair of arguments, with what one of them must be and why.

The checks of a call, their tests and the page "What works with what" read these tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sgmcmc.arguments import is_auto
from sgmcmc.arguments.data import shards
from sgmcmc.arguments.gradient import controlVariates, saga
from sgmcmc.arguments.minibatch import WITHIN, adaptive
from sgmcmc.core.errors import refused
from sgmcmc.core.schedules import exploring
from sgmcmc.core.transforms import DENSE, LOW_RANK
from sgmcmc.dataset.arrays import described
from sgmcmc.dataset.memory import InMemory
from sgmcmc.dataset.remote import RemoteShards
from sgmcmc.draws.temperature import of_posterior
from sgmcmc.dynamics import Dynamics
from sgmcmc.gradients import Gradient
from sgmcmc.kernel.iterations import of_dynamics
from sgmcmc.kernel.movement import climbs
from sgmcmc.laplace.whitening import MOST_DENSE
from sgmcmc.minibatch import Minibatch
from sgmcmc.model import Model
from sgmcmc.run.mode import AutomaticSearch, ModeSearch
from sgmcmc.run.other_samplers import TransitionSampler
from sgmcmc.run.sampler import Sampler

if TYPE_CHECKING:
    from sgmcmc.arguments.choices import Choices


MOST_ELEMENTS = 100_000  # beyond which the directions of the curvature take too much memory


class Refusal(NamedTuple):
    """A combination that is an error."""

    sentence: str  # an argument and what it must be
    found: Callable[[Any], Any]  # the offending value, or what is false

    @property
    def argument(self) -> str:
        return self.sentence.partition(" must ")[0]

    @property
    def must(self) -> str:
        return self.sentence.partition(" must ")[2]


class With:
    """What the arguments of these rows are combined with, and whether a call asks for it."""

    def __init__(self, given: str, applies: Callable[[Any], Any], *rows: Refusal) -> None:
        self.given, self.applies, self.rows = given, applies, rows


Table = tuple[With, ...]


def refuse(table: Table, sampler: str, asked: Any) -> None:
    """Raise a ValueError for the first combination in the table that is asked for."""
    for group in table:
        for row in group.rows if group.applies(asked) else ():
            if got := row.found(asked):
                raise refused(sampler, row.argument, row.must, got)


def _is_one_of(value: Any, words: Iterable[str]) -> bool:
    return isinstance(value, str) and value in words


def _is_true(value: Any) -> bool:
    return isinstance(value, bool | np.bool_) and bool(value)


def _name(value: Any) -> str:
    return repr(value) if isinstance(value, str) else described(value)


OF_ALL: Table = (
    With(
        "`nChains=None`",
        lambda c: c.asked_chains is None,
        Refusal("starts must come with nChains", lambda c: c.starts is not None and "nChains=None"),
        Refusal("sharedMinibatch must come with nChains", lambda c: _is_true(c.sharedMinibatch) and "nChains=None"),
    ),
    With(
        "`shards` as the dataset",
        lambda c: isinstance(c.dataset, shards),
        Refusal(
            f"subsampling must be {' or '.join(map(repr, WITHIN))} for a dataset of shards",
            lambda c: not _is_one_of(c.subsampling, WITHIN) and _name(c.subsampling),
        ),
        Refusal(
            "minibatchSize must be a number for a dataset of shards",
            lambda c: isinstance(c.minibatchSize, adaptive) and "adaptive",
        ),
    ),
    With(
        "`minibatchSize=adaptive()`",
        lambda c: isinstance(c.minibatchSize, adaptive),
        Refusal(
            "subsampling must draw each minibatch afresh, for an adaptive size",
            lambda c: _is_one_of(c.subsampling, ("reshuffled", "symmetric")) and _name(c.subsampling),
        ),
    ),
)
"""Of all samplers, by the arguments as they were given."""


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
        return self.choices.automatic

    @property
    def n_elements(self) -> int:
        return sum(theta.size for theta in self.choices.start.values())

    @property
    def preconditioner(self) -> Any:
        """The preconditioner that "auto" stands for, or the one given."""
        return self.choices.curvature.preconditioner

    @property
    def adapts(self) -> bool:
        return self.choices.minibatches.sizing is not None

    @property
    def by_constants(self) -> bool:
        sizing = self.choices.minibatches.sizing
        return sizing is not None and sizing.threshold is not None

    @property
    def is_remote(self) -> bool:
        return isinstance(self.choices.data, RemoteShards)

    @property
    def is_other(self) -> bool:
        """Whether the estimator is neither plain nor control variates around the mode."""
        return self.is_users or self.estimator.has_history

    @property
    def estimates_noise(self) -> bool:
        return any(one.covariance for one in self.dynamics.values())

    @property
    def estimates_part_of_noise(self) -> bool:
        estimated = {one.covariance for one in self.dynamics.values()} - {None}
        return bool(estimated) and self.n_elements > 1 and (estimated != {"full"} or len(self.choices.start) > 1)

    def explores_if(self, unsuitable: Callable[..., bool]) -> Any:
        """The first exploring schedule of a dynamics that is unsuitable for it."""
        for name, schedule in exploring(self.choices.stepsizes).items():
            if unsuitable(self.dynamics[name], self.choices.start[name].shape, self.choices.float_type):
                return schedule
        return None

    @property
    def minibatch(self) -> Minibatch:
        return self.choices.minibatches.minibatch

    @property
    def subsampling(self) -> str:
        return described(self.choices.subsampling)

    @property
    def another_temperature(self) -> Any:
        return self.choices.temperature != 1 and self.choices.temperature

    def several(self, setting: str) -> Any:
        """The setting, if parameters have different values of it."""
        value = self.settings.get(setting)
        return isinstance(value, Mapping) and len(set(value.values())) > 1 and value


def _has_terms(use: str) -> Refusal:
    """The estimator has the terms of single observations, from which the gradient noise follows."""
    sentence = f"gradient must have `terms` for {use}, to estimate its noise"
    return Refusal(sentence, lambda a: a.estimator.terms is None and "one without")


def _is_simple(use: str) -> Refusal:
    """The scheme draws observations independently, so that the gradient noise follows from single ones."""
    sentence = f"subsampling must draw observations independently (`simple`) for {use}"
    return Refusal(sentence, lambda a: not a.minibatch.simple and a.subsampling)


OF_GRADIENTS: Table = (
    With(
        '`target="sandwich"`',
        lambda a: a.choices.curvature.targets_sandwich,
        Refusal("stepsize must be 'auto' for target='sandwich'", lambda a: not a.auto and repr(a.choices.stepsize)),
        Refusal(
            f"preconditioner must be {DENSE!r} for target='sandwich'",
            lambda a: not _is_one_of(a.preconditioner, (DENSE,)) and repr(a.choices.preconditioner),
        ),
        Refusal("temperature must be 1 for target='sandwich'", lambda a: a.another_temperature),
        Refusal("dataset must have no shards for target='sandwich'", lambda a: a.choices.data.shards and "shards"),
        Refusal(
            "gradient must be None for target='sandwich'", lambda a: a.estimator.has_history and "one with a memory"
        ),
    ),
    With(
        "`minibatchSize=adaptive()`",
        lambda a: a.adapts,
        Refusal(
            "minibatchSize must be a number without control variates around the mode, since an adaptive size depends "
            "on the distance from their centre",
            lambda a: not isinstance(a.gradient, controlVariates) and "adaptive",
        ),
        Refusal(
            "minibatchSize must be a number for data that are not in memory, and for groups and windows, since their "
            "minibatches are fetched ahead",
            lambda a: not isinstance(a.choices.data, InMemory) and "adaptive",
        ),
        Refusal(
            "temperature must be 1 for adaptive sizes by Lipschitz constants, since these are not tempered",
            lambda a: a.by_constants and a.another_temperature,
        ),
        Refusal(
            "transforms must be None for adaptive sizes by Lipschitz constants, which are not those on the "
            "unconstrained scale",
            lambda a: (
                a.by_constants and a.choices.constraints and f"transforms of {sorted(a.choices.constraints.each)}"
            ),
        ),
    ),
    With(
        "`gradient=saga()`",
        lambda a: isinstance(a.gradient, saga),
        Refusal(  # within an epoch only observations with old gradients would be left, a bias
            "subsampling must draw each minibatch afresh, for saga()",
            lambda a: not a.minibatch.independent and a.subsampling,
        ),
    ),
    With(
        "shards with executors",
        lambda a: a.is_remote,
        Refusal(
            "gradient must be None or control variates for shards with executors, of which a chain sees one at a time",
            lambda a: a.is_other and "another",
        ),
        Refusal(
            "optStepsize must be 'auto' for shards with executors",
            lambda a: isinstance(a.search, ModeSearch) and a.search.stepsize,
        ),
        Refusal("gibbs must be None for shards with executors", lambda a: a.choices.gibbs and "a function"),
    ),
    With(
        "`gibbs`",
        lambda a: a.choices.gibbs is not None,
        Refusal("stepsize must be given with gibbs", lambda a: a.auto and "'auto'"),
        Refusal(
            "subsampling must be uniform with gibbs, which gets no weights",
            lambda a: a.minibatch.scale is None and "weights",
        ),
        Refusal(
            "preconditioner must be None with gibbs",
            lambda a: a.preconditioner is not None and described(a.choices.preconditioner),
        ),
        Refusal(
            "temperature must be 1 with gibbs, whose draws would need tempering too", lambda a: a.another_temperature
        ),
        Refusal(
            "gibbs must be None with control variates around the mode, since the search has no such step",
            lambda a: a.estimator.wants_mode and "a function",
        ),
    ),
    With(
        '`preconditioner="lowRank"`',
        lambda a: a.choices.curvature.is_low_rank,
        Refusal(
            f"gradient must be None or control variates with preconditioner={LOW_RANK!r}, as for many elements of "
            "params",
            lambda a: a.is_other and "another",
        ),
        Refusal(
            f"subsampling must be uniform or your own weights with preconditioner={LOW_RANK!r}, as for many elements "
            "of params",
            lambda a: a.minibatch.wants_importance and "preferential()",
        ),
    ),
    With(
        '`stepsize="auto"`',
        lambda a: a.auto,
        Refusal(
            f"stepsize must be a number if params have more than {MOST_ELEMENTS} elements; tune can find one",
            lambda a: a.n_elements > MOST_ELEMENTS and f"'auto' for {a.n_elements}",
        ),
        Refusal(
            f"preconditioner must be {LOW_RANK!r} with the stepsize 'auto' for more than {MOST_DENSE} elements of "
            "params",
            lambda a: (
                a.n_elements > MOST_DENSE and not a.choices.curvature.is_low_rank and repr(a.choices.preconditioner)
            ),
        ),
        Refusal(
            "stepsize must be a number for Dynamics without `stationary`, from which 'auto' computes the variance of "
            "the chain",
            lambda a: any(one.stationary is None for one in a.dynamics.values()) and "'auto'",
        ),
        Refusal(
            "stepsize must be given if parameters have different dynamics",
            lambda a: a.choices.sampler == "sample" and len({id(one) for one in a.dynamics.values()}) > 1 and "'auto'",
        ),
        Refusal("alpha must be one number if the stepsize is 'auto'", lambda a: a.several("alpha")),
        Refusal("a must be one number if the stepsize is 'auto'", lambda a: a.several("a")),
        Refusal(
            "stepsize must be a number unless params are one array and covariance='full': otherwise part of the "
            "covariance of the gradient noise is not estimated, which heats some directions and cools others",
            lambda a: a.estimates_part_of_noise and "'auto'",
        ),
        Refusal("stepsize must be a number for minibatches of adaptive size", lambda a: a.adapts and "'auto'"),
        Refusal(
            "stepsize must be a number if a minibatch moves only some rows of params (with preconditioner='diagonal' "
            "all rows move, and 'auto' works)",
            lambda a: a.model.by_rows and f"'auto' with rows of {sorted(a.model.by_rows)}",
        ),
        _has_terms("stepsize='auto'"),
        _is_simple("stepsize='auto'"),
    ),
    With(
        '`minibatchSize="auto"`',
        lambda a: is_auto(a.choices.minibatchSize),
        Refusal("minibatchSize must be a number unless the stepsize is 'auto'", lambda a: not a.auto and "'auto'"),
    ),
    With("`subsampling=preferential()`", lambda a: a.minibatch.wants_importance, _has_terms("preferential()")),
    With(
        'an estimated covariance of the gradient noise (`covariance`, `betaHat="fisher"`)',
        lambda a: a.estimates_noise,
        Refusal("minibatchSize must be a number if the gradient noise is estimated", lambda a: a.adapts and "adaptive"),
        Refusal(
            "subsampling must draw each minibatch afresh if the gradient noise is estimated: within an epoch it "
            "cancels",
            lambda a: not a.minibatch.independent and a.subsampling,
        ),
        Refusal(
            "minibatchSize must be at least 2, to estimate the gradient noise",
            lambda a: a.choices.minibatches.n < 2 and 1,
        ),
        _has_terms("the covariance of gradient noise"),
        _is_simple("the covariance of gradient noise"),
    ),
    With(
        "`cyclical(..., explorationFraction=...)`",
        lambda a: exploring(a.choices.stepsizes),
        Refusal(
            "stepsize must have explorationFraction=0 for a sampler that does not climb without noise",
            lambda a: a.explores_if(lambda *dynamics: not climbs(*dynamics)),
        ),
        Refusal(
            "stepsize must have explorationFraction=0 for a sampler with a thermostat, which would heat the chain",
            lambda a: a.explores_if(lambda *dynamics: "thermostat" in of_dynamics(*dynamics)),
        ),
    ),
)
"""Of samplers that use gradients, by the arguments as they were converted."""


class AskedOfTransition(NamedTuple):
    """What a call of `sample` with a transition asks for."""

    choices: Choices
    gradient: Any


OF_TRANSITIONS: Table = (
    With(
        "`transition`",
        lambda a: True,
        Refusal(
            "gibbs must be None with a transition, which is a whole iteration",
            lambda a: a.choices.gibbs is not None and described(a.choices.gibbs),
        ),
        Refusal(
            "transforms must be None with a transition, which moves params themselves",
            lambda a: a.choices.transforms is not None and "some",
        ),
        Refusal(
            "stepsize must be given with a transition, whose variance is unknown",
            lambda a: a.choices.automatic and "'auto'",
        ),
        Refusal(
            "preconditioner must be None with a transition",
            lambda a: a.choices.curvature.preconditioner is not None and described(a.choices.preconditioner),
        ),
        Refusal(
            "stepsize must have explorationFraction=0 with a transition",
            lambda a: next(iter(exploring(a.choices.stepsizes).values()), None),
        ),
        Refusal(
            "minibatchSize must be a number with a transition",
            lambda a: not a.choices.minibatches.is_number and described(a.choices.minibatchSize),
        ),
        Refusal(
            "subsampling must have weights with a transition, which has no mode",
            lambda a: a.choices.minibatches.minibatch.wants_importance and "preferential()",
        ),
        Refusal(
            "logLik must be a function if logPrior or a temperature is given",
            lambda a: (
                a.choices.logLik is None and (a.choices.logPrior is not None or a.choices.temperature != 1) and "None"
            ),
        ),
        Refusal(
            "gradient must be None with a transition, which is a whole iteration",
            lambda a: a.gradient is not None and described(a.gradient),
        ),
    ),
)


@dataclass(frozen=True)
class AskedOfRun:
    """What a call asks for, beside its sampler."""

    sampler: Sampler
    n_iters: Any
    options: Mapping[str, Any]

    def __getitem__(self, argument: str) -> Any:
        return self.options[argument]

    @property
    def stores_gradients(self) -> bool:
        return _is_true(self["gradients"])

    @property
    def auto(self) -> bool:
        return is_auto(self.n_iters)

    @property
    def is_remote(self) -> bool:
        return isinstance(self.sampler.data, RemoteShards)


def _of_stopping_rule(argument: str) -> Refusal:
    return Refusal(
        f"{argument} must come with nIters='auto'", lambda a: a[argument] is not None and f"nIters={a.n_iters!r}"
    )


OF_RUNS: Table = (
    With(
        "a number as `nIters`", lambda a: not a.auto, *map(_of_stopping_rule, ("ess", "mcse", "maxIters", "maxSeconds"))
    ),
    With(
        '`nIters="auto"`',
        lambda a: a.auto,
        Refusal(
            "nChains must be at least 2 with nIters='auto', which compares chains",
            lambda a: len(a.sampler.chains) < 2 and ("a single one" if a.sampler.n_chains is None else 1),
        ),
        Refusal(
            "reduce must come with collect if nIters='auto', which checks stored draws",
            lambda a: a["reduce"] is not None and a["collect"] is None and not a.stores_gradients and "reduce alone",
        ),
        Refusal(
            "ess must be None if mcse is given",
            lambda a: a["mcse"] is not None and a["ess"] is not None and repr(a["ess"]),
        ),
    ),
    With(
        "`gradients=True`",
        lambda a: a.stores_gradients,
        Refusal(
            "gradients must be False with transforms, since they would be those on the unconstrained scale, not of "
            "params",
            lambda a: bool(a.sampler.transforms),
        ),
        Refusal(
            "gradients must be False unless the target is the posterior, since functions that use them, such as ksd "
            "and zvControlVariates, assume draws from the posterior",
            lambda a: not of_posterior(a.sampler.settings),
        ),
        Refusal("gradients must be False for shards with executors", lambda a: a.is_remote),
        Refusal(
            "gradients must be False with a transition, which estimates none",
            lambda a: isinstance(a.sampler, TransitionSampler),
        ),
    ),
    With(
        "`executor`",
        lambda a: a["executor"] is not None,
        Refusal("executor must be None for shards with executors of their own", lambda a: a.is_remote and "one"),
        Refusal(
            "executor must come with nChains, of which each job has some",
            lambda a: a.sampler.n_chains is None and "nChains=None",
        ),
    ),
    With(
        "`executor=None`",
        lambda a: a["executor"] is None,
        Refusal(
            "chainsPerJob must come with executor",
            lambda a: a["chainsPerJob"] is not None and f"{a['chainsPerJob']!r} without one",
        ),
    ),
    With(
        "`resume`",
        lambda a: _is_true(a["resume"]),
        Refusal(
            "resume must come with storage, the store to continue", lambda a: a["storage"] is None and "storage=None"
        ),
    ),
)
"""Of the arguments of a run."""

TABLES: dict[str, Table] = {
    "All samplers": OF_ALL,
    "Samplers that use gradients": OF_GRADIENTS,
    "`sample` with a transition": OF_TRANSITIONS,
    "Runs": OF_RUNS,
}
