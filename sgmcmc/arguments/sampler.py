"""Samplers as the Setup functions return them, with R's documented fields, and how choices become one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Unpack

import numpy as np
import tensorflow as tf

from sgmcmc.arguments.choices import Choices
from sgmcmc.arguments.gradient import Estimator, chosen_gradient
from sgmcmc.arguments.refusals import OF_GRADIENTS, Asked, refuse
from sgmcmc.arguments.run import checked_run
from sgmcmc.arguments.signatures import RunOptions
from sgmcmc.arguments.trial import require_masked, require_sum, sums_of, warn_unless_sum
from sgmcmc.core.errors import require_flag, warn_of_lost_noise, warn_user
from sgmcmc.core.schedules import Schedule, first
from sgmcmc.core.transforms import Transforms
from sgmcmc.core.trees import numbered
from sgmcmc.dataset.memory import InMemory
from sgmcmc.dataset.remote import RemoteShards
from sgmcmc.dataset.windows import Windows
from sgmcmc.draws.draws import Draws
from sgmcmc.dynamics import Dynamics
from sgmcmc.kernel.product import moving_by_rows
from sgmcmc.kernel.user_steps import not_moved
from sgmcmc.laplace.context import sufficient_before
from sgmcmc.laplace.posterior import Posterior
from sgmcmc.parallel.serialization import by_value
from sgmcmc.run import Prepared
from sgmcmc.run.checkpoint import require_same
from sgmcmc.run.loop import Loop
from sgmcmc.run.mode import AutomaticSearch
from sgmcmc.run.one_call import RunCache
from sgmcmc.run.product import ProductSampler
from sgmcmc.run.recorder import NOTHING
from sgmcmc.run.sampler import Sampler
from sgmcmc.run.session import Session, SessionParams, not_a_session, restored, saved


class Sgmcmc:
    """A sampler to run step by step: Setup functions return it, and `initSess` takes it.

    Attributes
    ----------
    params : dict of tf.Variable
        The current position of the chain, or of all chains, (nChains, *shape). Your own
        TensorFlow code can use these variables directly. If you assign to them between
        steps, the chain continues from there.
    N : int
        Number of observations.
    n : int
        Observations per minibatch.
    stepsize : dict of float or schedule
        The stepsize of each parameter; for "auto", NaN until `initSess` has found it.
    expected : dict
        For the stepsize "auto", the predictions for the chain, as in
        ``out.settings["expected"]``; empty until `initSess`.
    seed : int
        The seed in use.
    alpha, L, a, beta, delta, adapt
        The settings of the method, if it has them; `alpha` and `a` are dicts with a
        number for each parameter.
    paramsOpt, logPostOptGrad : dict of tf.Variable
        With control variates, the mode and the gradient of the log posterior there,
        summed over all N; `initSess` computes them. With `transforms`, the mode and the
        gradient are those of the density on the unconstrained scale, and `paramsOpt` holds
        the constrained parameters there.
    """

    def __init__(self, sampler: Sampler, settings: dict[str, Any], dataset: Any, seeded: bool) -> None:
        self._sampler, self._settings, self._dataset, self._seeded = sampler, settings, dataset, seeded
        self._cache = RunCache()  # its chains are prepared when the first run or session begins; the mode is then known
        self._loop: Loop | None = None  # compiled once for all sessions
        self.N = sampler.data.as_counted(sampler.data.size)
        self.n = sampler.data.as_counted(sampler.minibatch.size)
        self.stepsize: dict[str, float | Schedule] = dict(sampler.stepsize)  # NaN until a session finds it
        self.expected: dict[str, Any] = {}
        self.seed = sampler.seed
        self.session: Session | None = None  # the latest session, whose position is in `params`
        self.params = _variables(sampler.first_positions())
        if sampler.wants_mode:
            self.paramsOpt = _variables(sampler.as_draw(sampler.start))
            self.logPostOptGrad = _variables({name: np.zeros_like(theta) for name, theta in sampler.start.items()})
        for name, value in settings.items():
            setattr(self, name, value)

    def __reduce__(self) -> tuple:
        """Leave out compiled functions, and the session, which saveSess saves."""
        return by_value(self, vars(self) | {"session": None, "_loop": None, "_cache": RunCache()})

    def __repr__(self) -> str:
        settings = "".join(f", {name}={value}" for name, value in self._settings.items())
        parameters = ", ".join(self.params)
        return (
            f"<{self._sampler.name}: N={self.N}, n={self.n}, stepsize={self.stepsize}{settings}; params {parameters}>"
        )

    def _repr_html_(self) -> str:
        from sgmcmc.draws.printing import facts_as_html

        shapes = {name: list(variable.shape) for name, variable in self.params.items()}
        facts = {"N": self.N, "n": self.n, "stepsize": self.stepsize, **self._settings, "params": shapes}
        return facts_as_html(self._sampler.name, facts)

    @property
    def estLogPost(self) -> Any:
        """The log posterior estimated by the last iteration from its minibatch, or (nChains,) of them.

        It is NaN before the first step. Except for SGHMC, it belongs to the position
        before the last step. With `transforms` it is the density on the unconstrained
        scale.
        """
        if self.session is None or self._loop is None or self._cache.prepared is None:
            raise ValueError("estLogPost needs a session; call initSess first.")
        state, _ = self._loop.unflatten(self.session.current()[0])
        of_chains = self._cache.prepared.kernel.log_density(state).numpy()
        return of_chains[0] if self._cache.prepared.n_chains is None else of_chains

    @property
    def data(self) -> Any:
        """The dataset in the sampler's types, {name: [N, ...]}, as views.

        Data on disk are returned as given.
        """
        data = self._sampler.data
        return data.arrays() if isinstance(data, InMemory) else self._dataset

    @property
    def posterior(self) -> Posterior:
        """The log posterior as a function of one vector."""
        assert isinstance(self._sampler, ProductSampler)
        return Posterior(self._sampler.model, self._sampler.shapes)

    @property
    def transforms(self) -> Transforms:
        """The transforms from positions to draws."""
        return self._sampler.transforms

    def run(self, nIters: int | str, verbose: bool, **options: Unpack[RunOptions]) -> Draws:
        """Run a whole chain, for the one-call functions.

        Later runs reuse what the first run prepared, from logLik as it was then.
        """
        return checked_run(self._sampler, self._seeded, nIters, verbose, options, self._cache).draws()

    def start(self, verbose: bool) -> Session:
        """A new session at the beginning of the chain, for `initSess`."""
        show = require_flag("verbose", "initSess", verbose)
        prepared = self.prepared(show)
        loop = self._session_loop(prepared)
        return self._begun(loop, loop.flatten(prepared.state))

    def prepared(self, verbose: bool) -> Prepared:
        """Chains about to begin.

        The search for the mode, if there is one, runs once.
        """
        return self._cache.chains(self._sampler, verbose)

    def save(self, session: Session) -> bytes:
        """The state of the session as bytes, for `saveSess`."""
        assert self._cache.prepared is not None
        return saved(session, self._cache.prepared, self._sampler.identity)

    def restore(self, data: bytes, path: str) -> Session:
        """A session that continues from a saved state, for `restoreSess`."""
        checkpoint, beginning = restored(data, path)
        sampler, seed = self._sampler, beginning.settings.get("seed", self.seed)
        if not self._seeded and seed != self.seed:
            sampler = sampler.with_seed(seed)
        require_same(sampler.name, sampler.identity, beginning.settings, f"{path!r} was saved")
        prepared = sampler.prepared(beginning.found, beginning.mode)
        loop = sampler.loop(prepared, NOTHING)
        try:
            leaves = checkpoint.tensors(loop.flatten(prepared.state))
        except ValueError as error:
            raise not_a_session(path, error) from error
        if self._loop is not None:
            self._loop.feed.close()
        self._sampler, self.seed, self._loop, self._cache = sampler, sampler.seed, loop, RunCache(prepared)
        return self._begun(loop, leaves, checkpoint.iteration)

    def _session_loop(self, prepared: Prepared) -> Loop:
        if self._loop is None:
            self._loop = self._sampler.loop(prepared, NOTHING)
        return self._loop

    def _begun(self, loop: Loop, leaves: list[tf.Tensor], iteration: int = 0) -> Session:
        seen = SessionParams(self._sampler.transforms, self._sampler.n_chains)
        session = self.session = Session(loop, leaves, self.params, seen, self._sampler.failure, iteration)
        prepared = self._cache.prepared
        mode = prepared.mode if prepared else None
        if prepared is not None and prepared.tuning:
            self.stepsize, self.expected = prepared.settings["stepsize"], prepared.settings["expected"]
            self.n = prepared.settings.get("minibatchSize", self.n)
        if mode is not None and hasattr(self, "paramsOpt"):
            for name, theta in self._sampler.as_draw(mode.params).items():
                self.paramsOpt[name].assign(theta)
                self.logPostOptGrad[name].assign(mode.gradient[name])
        return session


def _variables(values: Mapping[str, np.ndarray]) -> dict[str, tf.Variable]:
    return {name: tf.Variable(value, name=name) for name, value in values.items()}


def set_up(
    choices: Choices,
    dynamics: Dynamics | Mapping[str, Dynamics],
    gradient: Estimator | None,
    settings: Mapping[str, Any] | None = None,
    identity: Mapping[str, Any] | None = None,
) -> Sgmcmc:
    """The sampler of these choices; `settings` are those of the dynamics, `identity` is what else identifies it."""
    given, data = choices.dataset, choices.data
    if isinstance(data, Windows) and data.automatic:
        choices = _with_enough_context(choices, data)
    each = dict(dynamics) if isinstance(dynamics, Mapping) else dict.fromkeys(choices.start, dynamics)
    leaps = next(iter(each.values())).leaps
    if choices.moved_by_gibbs:
        each |= dict.fromkeys(choices.moved_by_gibbs, not_moved()._replace(leaps=leaps))
    method_settings = dict(settings or {})
    _warn_of_lost_noise(choices)
    chosen = chosen_gradient(choices, gradient, leaps)
    minibatch, model = choices.minibatches.for_leaps(leaps), choices.model
    shapes = {name: theta.shape for name, theta in choices.start.items()}
    curvature = choices.curvature
    remote = isinstance(choices.data, RemoteShards)
    may = chosen.by_rows and curvature.preconditioner is None and not minibatch.parts and not remote
    model = model.giving_rows(moving_by_rows(model, minibatch, each) if may else frozenset())
    estimator = chosen.made(model, numbered(shapes))
    search = chosen.search or (AutomaticSearch() if curvature.needs_mode or estimator.wants_mode else None)
    if search is None and choices.data.shards is not None and choices.data.shards.hop > 1:
        warn_user(
            f"the effect of the shards of {choices.sampler} on the standard deviations of its draws is unknown, since "
            "there is no search for the mode, at which to compare them: use control variates, stepsize='auto' or hop=1."
        )
    asked = Asked(choices, gradient, estimator, chosen.is_users, search, model, each, method_settings)
    refuse(OF_GRADIENTS, choices.sampler, asked)
    needs_row_gradients = {
        "the covariance of gradient noise": asked.estimates_noise,
        "stepsize='auto'": choices.automatic,
        "subsampling by weights": minibatch.scale is None,
        "gradient=saga()": chosen.needs_row_gradients,
    }
    if choices.data.layout.rows > 1:
        require_masked(choices.trial, choices.given)
    sums = sums_of(choices.trial, choices.given)
    if any(needs_row_gradients.values()):
        require_sum(choices.sampler, sums, next(what for what, wanted in needs_row_gradients.items() if wanted))
    else:
        warn_unless_sum(choices.sampler, sums)
    sampler = ProductSampler(
        **choices.sampler_fields | {"minibatch": minibatch},
        model=model,
        gradient=estimator,
        user_gradient=chosen.is_users,
        dynamics=each,
        search=search,
        curvature=curvature,
        sizing=choices.minibatches.sizing,
        minibatch_of_size=choices.minibatches.minibatch_of_size,
        touched=choices.trial.whole.touched,
        gibbs=choices.gibbs_step,
        settings=choices.settings | method_settings | chosen.settings | dict(identity or {}),
    )
    return Sgmcmc(sampler, method_settings, given, seeded=choices.seed is not None)


def _with_enough_context(choices: Choices, data: Windows) -> Choices:
    """The same choices with as many steps before the windows of a series as needed."""
    shapes = {name: theta.shape for name, theta in choices.start.items()}
    before = sufficient_before(choices.sampler, choices.model, shapes, choices.start)
    return replace(choices, dataset=data.with_before(before))


def _warn_of_lost_noise(choices: Choices) -> None:
    """Warn of noise that rounding removes; with a search or a preconditioner it is known only later."""
    if choices.automatic or choices.curvature.preconditioner is not None:
        return
    noise = {
        name: first(eps, choices.float_type) ** 0.5
        for name, eps in choices.stepsizes.items()
        if name not in choices.moved_by_gibbs
    }
    positions = choices.chain_starts if isinstance(choices.chain_starts, dict) else choices.start
    warn_of_lost_noise(choices.sampler, noise, positions)
