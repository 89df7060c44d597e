"""dpMixture: a Dirichlet process mixture of categorical or multinomial data, by a stochastic slice sampler."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from sgmcmc.core import process
from sgmcmc.core.checksum import checksum
from sgmcmc.core.errors import DivergenceError
from sgmcmc.dataset.entry import described, numeric
from sgmcmc.models.dp.allocation import CATEGORIES, COUNTS
from sgmcmc.models.dp.mixture import Mixture
from sgmcmc.models.dp.rows import Rows, checked_rows
from sgmcmc.models.dp.sampler import PARAMETERS, MixtureSampler, observed
from sgmcmc.models.dp.transition import MixtureModel
from sgmcmc.samplers._checks import POSITIVE, is_integer, require_count, require_flag
from sgmcmc.samplers._common import CommonChoices
from sgmcmc.samplers._run_arguments import checked_run
from sgmcmc.simplex.scir import scir
from sgmcmc.simplex.sgrld import sgrld

NAME = "dpMixture"
METHODS = {"gibbs": None, "scir": scir, "sgrld": sgrld}
STEPSIZES: dict[str, dict[str, float]] = {  # Baker (2018), table B.5.3
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
    alphaPrior: tuple[float, float] = (1.0, 1.0),
    maxComponents: int = 100,
    starts: Any = 20,
    nChains: int | None = None,
    thin: int = 10,
    burnIn: int = 0,
    assignments: bool = False,
    storage: str | Path | None = None,
    resume: bool = False,
) -> Mixture:
    """A Dirichlet process mixture of multinomials: clusters of categorical data, without a number to choose.

    The model is::

        x_i | theta, z_i ~ Multi(n_i, theta_{z_i}),   theta_j ~ Dir(a, ..., a),
        P(z_i = j) = w_j = v_j (1 - v_1) ... (1 - v_{j-1}),   v_j ~ Beta(1, alpha),
        alpha ~ Gamma(alphaPrior)

    for j = 1, 2, ...: there are infinitely many components, of which finitely many have observations. Each iteration
    assigns a minibatch of the observations anew, and costs as much, however many there are in all. It is the stochastic
    slice sampler of [1]_, appendix B.4, but the counts of all observations are kept, so that with ``method="gibbs"``
    every draw is from its exact distribution given the others, and the chain has the posterior as its distribution,
    whatever the size of the minibatches.

    Parameters
    ----------
    counts : array_like or sparse matrix
        A row for each of N observations and a column for each of d categories, (N, d): how often an observation has a
        category. An array, a DataFrame or a sparse matrix of SciPy's. Single categories are rows with a single 1. Of
        each row only what is not 0 is kept, padded to as many entries as the longest row has.
    minibatchSize : int or float, default 0.01
        Observations that are assigned anew in an iteration: a number from 1 to N, or a proportion of N in (0, 1).
    nIters : int, default 10**4
        Iterations to run.
    verbose : bool, default True
        Whether to show progress.
    seed : int, optional
        The same seed gives the same draws. By default a fresh one, which is in `settings`.
    method : {"gibbs", "scir", "sgrld"}, default "gibbs"
        "gibbs" draws weights and components from their distributions given all assignments. "scir" and "sgrld" are
        those of [1]_: the stochastic Cox-Ingersoll-Ross process, and Riemannian Langevin dynamics, which move them by
        counts that are estimated from the minibatch. The noise of these makes clusters that are not there.
    stepsize : float or dict of str to float, optional
        Of "scir" and "sgrld": a number, or one for "theta" and one for "weights". By default those of [1]_, 0.1 for
        "scir"; 0.001 for theta and 0.005 for weights for "sgrld".
    a : float, default 0.5
        Of the symmetric Dirichlet prior of the components. Positive.
    alpha : float, optional
        The concentration, if it is known. By default it is inferred.
    alphaPrior : (float, float), default (1.0,1.0)
        Shape b1 and rate b2 of the Gamma prior of the concentration, both positive. It starts at their ratio.
    maxComponents : int, default 100
        Components that there is room for in the arrays, at least 2. This is no truncation of the prior: an observation
        that might need one behind them stays where it is in that iteration, which leaves the posterior as it is, and
        when the last of them has an observation, that is a `NoRoomError`, which carries the draws made before. Choose
        several times the number that is occupied.
    starts : int or array_like, default 20
        Over how many components the observations are scattered at random at first, or over `maxComponents` if that is
        less; or their assignments, integers from 0 on, (N,) or (nChains, N).
    nChains : int, optional
        Chains that run side by side. By default a single one, whose draws have no chain axis.
    thin : int, default 10
        Of every so many iterations the last is kept: a draw has all components.
    burnIn : int, default 0
        Iterations at the start of which nothing is kept.
    assignments : bool, default False
        Whether the assignments of all N observations are kept too.
    storage : str or Path, optional
        A Zarr store, "run.zarr", to which the draws are written as they come; by default they are kept in memory.
    resume : bool, default False
        Whether to go on where the store left off, up to `nIters` in all.

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
        If there is no room for a component, with the draws made before.
    DivergenceError
        If "sgrld" or "scir" reaches NaN or infinity, with the draws made before.

    Notes
    -----
    A mixture has many posterior modes, and a chain that moves one observation at a time may stay near one of them.
    Chains with several seeds show whether it does.

    References
    ----------
    .. [1] Baker, J. (2019). Stochastic gradient Markov chain Monte Carlo. PhD thesis, Lancaster University.
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
    >>> out = dpMixture(x, minibatchSize=100, nIters=2000, burnIn=1000, verbose=False, seed=1)
    >>> together, apart = out.coClustering(x, [[0, 2], [0, 1]])
    >>> bool(together > 0.9), bool(apart < 0.1)
    (True, True)
    >>> bool(out.logPredictive(x) > -4)
    True
    """
    process.use()
    given = _Arguments(
        counts, minibatchSize, seed, method, stepsize, a, alpha, alphaPrior, maxComponents, starts, nChains
    )
    sampler = given.sampler()
    options: Any = {"thin": thin, "burnIn": burnIn, "storage": storage, "resume": resume, "gradients": False}
    options |= {"collect": observed(require_flag("assignments", NAME, assignments)), "reduce": None}
    run = checked_run(sampler, seed is not None, nIters, verbose, options)
    try:
        return Mixture(run.draws())
    except DivergenceError as error:
        raise error.with_draws(Mixture(error.draws), len(error.draws.iterations)) from None


@dataclass
class _Arguments:
    """What users pass, checked and converted."""

    counts: Any
    minibatchSize: Any
    seed: Any
    method: Any
    stepsize: Any
    a: Any
    alpha: Any
    alphaPrior: Any
    maxComponents: Any
    starts: Any
    nChains: Any

    @cached_property
    def rows(self) -> Rows:
        """`counts`, checked."""
        return checked_rows("counts", NAME, self.counts)

    @cached_property
    def common(self) -> CommonChoices:
        """What this sampler shares with all others."""
        return CommonChoices(
            sampler=NAME,
            dataset={CATEGORIES: self.rows.categories, COUNTS: self.rows.counts},
            params=dict.fromkeys(PARAMETERS, 0.0),
            stepsize=self._stepsize(),
            minibatchSize=self.minibatchSize,
            seed=self.seed,
            subsampling="uniform",
            integers=(CATEGORIES, COUNTS),
            dtype="float32",
            nChains=self.nChains,
            starts=None,
            sharedMinibatch=False,
        )

    def sampler(self) -> MixtureSampler:
        """The sampler of these arguments."""
        method, common = self._method(), self.common
        a = common.number("a", self.a, POSITIVE)
        prior = self._alpha_prior()
        alpha = prior[0] / prior[1] if self.alpha is None else common.number("alpha", self.alpha, POSITIVE)
        room = require_count("maxComponents", NAME, self.maxComponents, 2)
        begin = self._begin(room)
        rule = METHODS[method]
        mixture = MixtureModel(
            common.minibatches.minibatch, a, prior if self.alpha is None else None, None if rule is None else rule()
        )
        float_type = common.float_type.as_numpy_dtype
        settings = {
            "parameters": [],
            "method": method,
            "stepsize": {} if rule is None else common.stepsizes,
            "a": a,
            "alpha": None if self.alpha is None else alpha,
            "alphaPrior": None if mixture.alpha_prior is None else list(prior),
            "maxComponents": room,
            "starts": checksum(begin) if isinstance(begin, np.ndarray) else begin,
        }
        return MixtureSampler(
            name=NAME,
            data=common.data,
            dtype=common.float_type,
            minibatch=mixture.minibatch,
            stepsize=common.stepsizes,
            start={
                "alpha": np.array(alpha, float_type),
                "assignments": np.zeros(len(self.rows.counts), np.int32),
                "components": np.zeros([], np.int32),
                "log_theta": np.zeros([room, self.rows.width], float_type),
                "sticks": np.zeros([room, 2], float_type),
            },
            seed=common.random_seed,
            n_chains=common.n_chains,
            settings=common.settings | settings,
            mixture=mixture,
            begin=begin,
        )

    def _method(self) -> str:
        if not isinstance(self.method, str) or self.method not in METHODS:
            names = ", ".join(map(repr, METHODS))
            raise ValueError(f"method of {NAME} must be one of {names}; got {self.method!r}.")
        return self.method

    def _stepsize(self) -> Any:
        """`stepsize`, or that of the thesis; of "gibbs", which has none, any."""
        method = self._method()
        if method != "gibbs":
            return STEPSIZES[method] if self.stepsize is None else self.stepsize
        if self.stepsize is not None:
            raise ValueError(f"stepsize of {NAME} must be None for method='gibbs'; got {self.stepsize!r}.")
        return 1.0

    def _alpha_prior(self) -> tuple[float, float]:
        pair = self.alphaPrior
        if not isinstance(pair, tuple | list | np.ndarray) or len(pair) != 2:
            raise ValueError(f"alphaPrior of {NAME} must be a pair (shape, rate); got {described(pair)}.")
        shape, rate = (self.common.number(f"alphaPrior[{k}]", x, POSITIVE) for k, x in enumerate(pair))
        return shape, rate

    def _begin(self, room: int) -> int | np.ndarray:
        """`starts`: a number of components, or assignments [C, N]."""
        if is_integer(self.starts) or isinstance(self.starts, float):
            return min(require_count("starts", NAME, self.starts, 1), room)
        assignments = numeric("starts", NAME, self.starts)
        n_data, n_chains = len(self.rows.counts), self.common.n_chains
        if assignments.shape not in ((n_data,), (n_chains or 1, n_data)) or assignments.dtype.kind not in "iu":
            raise ValueError(
                f"starts of {NAME} must be a number of components, or integers ({n_data},) or (nChains, {n_data}); "
                f"got {described(self.starts)}."
            )
        if assignments.min() < 0 or assignments.max() >= room:
            raise ValueError(
                f"starts of {NAME} must be assignments from 0 to maxComponents - 1 = {room - 1}; got "
                f"{assignments.min()} to {assignments.max()}."
            )
        return np.array(np.broadcast_to(assignments, (n_chains or 1, n_data)), np.int32)
