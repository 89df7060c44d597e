"""dpMixture: Dirichlet process mixtures of multinomials, by a stochastic slice sampler."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import numpy as np

from sgmcmc.arguments import POSITIVE
from sgmcmc.arguments.common import CommonChoices
from sgmcmc.arguments.run import checked_run
from sgmcmc.arguments.signatures import of_run
from sgmcmc.core import compilation
from sgmcmc.core.errors import DivergenceError, is_integer, require_count, require_flag, warn_user
from sgmcmc.core.schedules import Schedule
from sgmcmc.dataset.arrays import described, numeric
from sgmcmc.draws.draws import Draws
from sgmcmc.models.dp.conditionals import CATEGORIES, COUNTS
from sgmcmc.models.dp.kernel import PARAMETERS, MixtureModel
from sgmcmc.models.dp.mixture import Mixture, Rows, checked_rows, look_like_codes
from sgmcmc.models.dp.sampler import MixtureSampler, in_settings, observed
from sgmcmc.parallel.executors import Executor
from sgmcmc.simplex.scir import scir
from sgmcmc.simplex.sgrld import sgrld

NAME = "dpMixture"
KEPT = 0.01  # warn if a larger share of the observations kept their components
METHODS = {"gibbs": None, "scir": scir, "sgrld": sgrld}
STEPSIZES: dict[str, dict[str, float]] = {  # Baker (2018), table B.5.3
    "gibbs": {},
    "scir": {"theta": 0.1, "weights": 0.1},
    "sgrld": {"theta": 0.001, "weights": 0.005},
}


def dpMixture(
    counts: Any,
    minibatchSize: float = 0.01,
    nIters: int = 10**4,
    verbose: bool = True,
    seed: int | None = None,
    *,
    method: str = "gibbs",
    stepsize: float | Mapping[str, float] | None = None,
    a: float = 0.5,
    alpha: float | None = None,
    alphaPrior: tuple[float, float] | None = None,
    maxComponents: int = 100,
    starts: Any = 20,
    nChains: int | range | None = None,
    thin: int = 10,
    burnIn: int = 0,
    assignments: bool = False,
    storage: str | Path | None = None,
    resume: bool = False,
    executor: Executor | None = None,
    chainsPerJob: int | None = None,
) -> Mixture:
    """Cluster categorical data by a Dirichlet process mixture of multinomials.

    The model is::

        x_i | theta, z_i ~ Multi(n_i, theta_{z_i}),   theta_j ~ Dir(a, ..., a),
        P(z_i = j) = w_j = v_j (1 - v_1) ... (1 - v_{j-1}),   v_j ~ Beta(1, alpha),
        alpha ~ Gamma(alphaPrior)

    for j = 1, 2, ... There are infinitely many components, of which finitely many have
    observations; their number is inferred. Each iteration draws the assignments of a
    minibatch, so its cost does not depend on N. It is the stochastic slice sampler of
    [1]_, appendix B.4, except that the counts of all observations are kept. With
    ``method="gibbs"`` every draw is therefore from its exact full conditional, and the
    posterior is the stationary distribution, whatever the size of the minibatches.

    Parameters
    ----------
    counts : array_like or sparse matrix
        Counts, (N, d): a row for each of N observations and a column for each of d
        categories. An array, a DataFrame or a SciPy sparse matrix. An observation of a single
        category has a single 1. Only nonzero entries are kept, padded to the longest row.
    minibatchSize : int or float, default 0.01
        Observations in a minibatch: a number from 1 to N, or a proportion of N in (0, 1).
    nIters : int, default 10**4
        Iterations to run.
    verbose : bool, default True
        Whether to show progress.
    seed : int, optional
        The same seed gives the same draws. By default a fresh one, in ``out.seed``.
    method : {"gibbs", "scir", "sgrld"}, default "gibbs"
        "gibbs" draws weights and components from their distributions given all assignments.
        "scir" and "sgrld" are the methods of [1]_: the stochastic Cox-Ingersoll-Ross process
        and Riemannian Langevin dynamics, with counts estimated from the minibatch. The noise
        of these counts changes the distribution, and may add clusters.
    stepsize : float or dict of str to float, optional
        For "scir" and "sgrld": a number, or a dict with one for "theta" and one for "weights".
        The defaults are those of [1]_: 0.1 for "scir"; for "sgrld" 0.001 for theta and 0.005
        for weights.
    a : float, default 0.5
        The parameter of the symmetric Dirichlet prior of the components, positive.
    alpha : float, optional
        The concentration, if it is known. By default it is inferred.
    alphaPrior : (float, float), optional
        Shape b1 and rate b2 of the Gamma prior of the concentration, both positive, in place
        of `alpha`. By default both are 1. The concentration starts at b1 / b2.
    maxComponents : int, default 100
        The size of the arrays, at least 2. The model is not truncated: an observation whose
        slice may need components beyond the arrays keeps its component in that iteration,
        which leaves the posterior invariant. If an observation enters the last component,
        a `NoRoomError` is raised, with the draws so far. Choose several times the number of
        occupied components, and more for a large concentration.
    starts : int or array_like, default 20
        The number of components to which the observations are assigned at random at the
        start, at most all but the last of `maxComponents`; or the assignments themselves,
        integers from 0, (N,) or (nChains, N).
    nChains : int or range, optional
        Chains that run side by side. By default a single one, whose draws have no chain axis.
    thin : int, default 10
        Store the last of every `thin` iterations.
    burnIn : int, default 0
        Iterations at the start that are not stored.
    assignments : bool, default False
        Whether to store the assignments of all N observations too.
    storage : str or Path, optional
        A Zarr store for the draws, "run.zarr". By default they are kept in memory.
    resume : bool, default False
        Continue the run in `storage`, up to `nIters` iterations in all.
    executor : concurrent.futures.Executor or an object like it, optional
        Its workers run the chains, in groups, as for `sgld`. It requires `nChains`.
    chainsPerJob : int, optional
        Number of chains in each job of `executor`. By default at least 2, and otherwise
        such that there is a job for each worker.

    Returns
    -------
    Mixture
        The draws: see ``sgmcmc.models.Mixture``.

    Raises
    ------
    ValueError
        If an argument is invalid; the message names it.
    MemoryError
        If the draws would not fit into memory.
    NoRoomError
        If an observation enters the last of `maxComponents`; it has the draws so far.
    DivergenceError
        If "sgrld" or "scir" reaches NaN or infinity; it has the draws so far.

    Notes
    -----
    A mixture has many posterior modes, and a chain may stay near one of them. Compare
    chains with several seeds.

    References
    ----------
    .. [1] Baker, J. (2018). Large-scale Bayesian computation using stochastic gradient Markov chain Monte Carlo. PhD
       thesis, Lancaster University.
    .. [2] Walker, S. G. (2007). Sampling the Dirichlet mixture model with slices. Communications in Statistics 36.
    .. [3] Papaspiliopoulos, O. (2008). A note on posterior sampling from Dirichlet mixture models.
    .. [4] Dunson, D. B. and Xing, C. (2009). Nonparametric Bayes modeling of multivariate categorical data. Journal of
       the American Statistical Association 104.

    Examples
    --------
    Rows of ten draws each from one of two distributions:

    >>> import numpy as np
    >>> from sgmcmc import dpMixture
    >>> rng = np.random.default_rng(1)
    >>> truth = np.array([[0.8, 0.1, 0.1], [0.1, 0.1, 0.8]])
    >>> x = rng.multinomial(10, truth[np.arange(1000) % 2])
    >>> out = dpMixture(
    ...     x, minibatchSize=100, nIters=2000, burnIn=1000, starts=1, verbose=False, seed=1
    ... )
    >>> together, apart = out.coClustering(x, [[0, 2], [0, 1]])
    >>> bool(together > 0.9), bool(apart < 0.1)
    (True, True)
    >>> bool(out.logPredictive(x) > -4)
    True
    """
    compilation.use()
    rows = _rows(counts)
    sampler = _Arguments(
        sampler=NAME,
        dataset={CATEGORIES: rows.categories, COUNTS: rows.counts},
        params=dict.fromkeys(PARAMETERS, 0.0),
        stepsize=cast(Any, stepsize),
        minibatchSize=minibatchSize,
        seed=seed,
        subsampling="uniform",
        integers=(CATEGORIES, COUNTS),
        dtype="float32",
        nChains=nChains,
        starts=None,
        sharedMinibatch=False,
        rows=rows,
        method=method,
        a=a,
        alpha=alpha,
        alphaPrior=alphaPrior,
        maxComponents=maxComponents,
        begin=starts,
    ).set_up()
    collect = observed(require_flag("assignments", NAME, assignments))
    options: Any = {"thin": thin, "burnIn": burnIn, "storage": storage, "resume": resume, "collect": collect}
    options |= {"executor": executor, "chainsPerJob": chainsPerJob, "gradients": False}
    n_iterations = require_count("nIters", NAME, nIters, 1)  # not "auto": components of chains do not match
    run = checked_run(sampler, seed is not None, n_iterations, verbose, of_run(options))
    try:
        draws = run.draws()
    except DivergenceError as error:
        partial = [Mixture(draws) for draws in error.partial]
        raise error.with_draws(Mixture(error.draws), len(error.draws.iterations), partial) from None
    _warn_of_little_room(draws)
    return Mixture(draws)


def _warn_of_little_room(draws: Draws) -> None:
    kept = draws.sampleStats["kept"]
    share = float(kept[..., kept.shape[-1] // 2 :].mean()) if kept.size else 0.0
    if share > KEPT:
        warn_user(
            f"maxComponents of {NAME} must leave room beyond the occupied components; in the second half of the draws "
            f"{share:.0%} of the observations kept their components because there might be no room for another. "
            "Choose a larger one: the chain mixes too slowly to be trusted."
        )


@dataclass(frozen=True)
class _Arguments(CommonChoices):
    """The user's arguments, checked and converted; `dataset` has the rows as categories and their counts."""

    rows: Rows
    method: Any
    a: Any
    alpha: Any
    alphaPrior: Any
    maxComponents: Any
    begin: Any

    def set_up(self) -> MixtureSampler:
        rule = METHODS[self._method()]
        a = self.each.number("a", self.a, POSITIVE)
        prior = self._alpha_prior()
        alpha = self.each.number("alpha", self.alpha, POSITIVE) if prior is None else prior[0] / prior[1]
        room = require_count("maxComponents", NAME, self.maxComponents, 2)
        begin = self._begin(room)
        if not self.minibatches.is_number:
            raise self.refuse("minibatchSize", "be a number", described(self.minibatchSize))
        if schedules := [name for name, h in self.stepsizes.items() if callable(h)]:
            raise self.refuse("stepsize", "be a number", f"a schedule for {schedules[0]!r}")
        mixture = MixtureModel(self.minibatches.minibatch, a, prior, None if rule is None else rule())
        float_type = self.float_type.as_numpy_dtype
        settings = {
            "parameters": [],
            "method": self.method,
            "stepsize": self.stepsizes,
            "a": a,
            "alpha": alpha if prior is None else None,
            "alphaPrior": None if prior is None else list(prior),
            "maxComponents": room,
            "starts": in_settings(begin),
        }
        return MixtureSampler(
            name=NAME,
            data=self.data,
            dtype=self.float_type,
            minibatch=mixture.minibatch,
            stepsize=self.stepsizes,
            start={
                "alpha": np.array(alpha, float_type),
                "assignments": np.zeros(len(self.rows.counts), np.int32),
                "components": np.zeros([], np.int32),
                "log_theta": np.zeros([room, self.rows.width], float_type),
                "sticks": np.zeros([room, 2], float_type),
            },
            seed=self.random_seed,
            n_chains=self.n_chains,
            first_chain=self.chains.start,
            is_part=isinstance(self.nChains, range),
            settings=self.settings | settings,
            mixture=mixture,
            begin=begin,
        )

    def _method(self) -> str:
        if not isinstance(self.method, str) or self.method not in METHODS:
            names = ", ".join(map(repr, METHODS))
            raise self.refuse("method", f"be one of {names}", repr(self.method))
        return self.method

    @cached_property
    def stepsizes(self) -> dict[str, float | Schedule]:
        """`stepsize`, or that of the thesis; "gibbs" has none."""
        method = self._method()
        if self.stepsize is None:
            return dict(STEPSIZES[method])
        if method == "gibbs":
            raise self.refuse("stepsize", "be None for method='gibbs'", repr(self.stepsize))
        return super().stepsizes

    def _alpha_prior(self) -> tuple[float, float] | None:
        """The prior of the concentration, or None if that is known."""
        if self.alpha is not None:
            if self.alphaPrior is not None:
                must = "be None if alpha is given, since a known concentration has no prior"
                got = f"{described(self.alphaPrior)} with alpha={described(self.alpha)}"
                raise self.refuse("alphaPrior", must, got)
            return None
        pair = (1.0, 1.0) if self.alphaPrior is None else self.alphaPrior
        if not isinstance(pair, tuple | list | np.ndarray) or len(pair) != 2:
            raise self.refuse("alphaPrior", "be a pair (shape, rate)", described(pair))
        shape, rate = (self.each.number(f"alphaPrior[{k}]", x, POSITIVE) for k, x in enumerate(pair))
        return shape, rate

    def _begin(self, room: int) -> int | np.ndarray:
        if is_integer(self.begin) or isinstance(self.begin, float):
            return min(require_count("starts", NAME, self.begin, 1), room - 1)  # the last must stay free
        assignments = numeric("starts", NAME, self.begin)
        n_data, n_chains = len(self.rows.counts), self.n_chains
        if assignments.shape not in ((n_data,), (n_chains or 1, n_data)) or assignments.dtype.kind not in "iu":
            must = f"be a number of components, or integers ({n_data},) or (nChains, {n_data})"
            raise self.refuse("starts", must, described(self.begin))
        if assignments.min() < 0 or assignments.max() >= room - 1:
            must = f"be assignments from 0 to maxComponents - 2 = {room - 2}"
            raise self.refuse("starts", must, f"{assignments.min()} to {assignments.max()}")
        return np.array(np.broadcast_to(assignments, (n_chains or 1, n_data)), np.int32)


def _rows(counts: Any) -> Rows:
    rows = checked_rows("counts", NAME, counts)
    if look_like_codes(rows):
        warn_user(
            f"counts of {NAME} look like category codes: no entry is 0, all are small, and the row sums differ. "
            "A column must count one category. Turn each column of codes into a column for each of its categories, "
            "for example with pandas.get_dummies(frame.astype(str))."
        )
    return rows
