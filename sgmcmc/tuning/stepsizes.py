"""checkStepsize: whether half the stepsize gives a different result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import signature
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from sgmcmc.arguments import AUTO
from sgmcmc.arguments.common import Stepsize
from sgmcmc.core import random
from sgmcmc.core.errors import refused, require_count
from sgmcmc.core.random import Purpose
from sgmcmc.core.schedules import Schedule, explores
from sgmcmc.dataset.arrays import described
from sgmcmc.draws.arviz import require_arviz
from sgmcmc.draws.summary import table
from sgmcmc.model import LogLik
from sgmcmc.tuning.candidates import setup_of, unknown

if TYPE_CHECKING:
    import pandas as pd

    from sgmcmc.draws.draws import Draws


FALSE_ALARMS = 0.01
MOMENTS = ("mean", "sd")
KEPT_ELSEWHERE = ("reduce", "storage", "resume")


def changes(at_stepsize: Draws, at_half: Draws) -> pd.DataFrame:
    """The table described in `checkStepsize`."""
    import pandas as pd

    one, half = (table(draws, None, diagnosed=True) for draws in (at_stepsize, at_half))
    columns: dict[str, Any] = {}
    for moment in MOMENTS:
        error = np.hypot(one[f"mcse_{moment}"], half[f"mcse_{moment}"])
        columns |= {moment: one[moment], f"{moment}_half": half[moment]}
        columns[f"{moment}_change"] = (half[moment] - one[moment]) / error
    result = pd.DataFrame(columns)
    found = result[[f"{moment}_change" for moment in MOMENTS]].abs().fillna(0.0)  # 0 for elements that do not move
    label, column = found.stack().idxmax()
    size, moment = float(found.loc[label, column]), column.removesuffix("_change")
    bound = NormalDist().inv_cdf(1 - FALSE_ALARMS / 2 / found.size)  # Bonferroni's
    result.attrs = {
        "changed": size > bound,
        "worst": f"At half the stepsize, the {moment} of {label} changes most: from {result.loc[label, moment]:.4g} to "
        f"{result.loc[label, f'{moment}_half']:.4g}, by {size:.1f} Monte Carlo standard errors (by chance more than "
        f"{bound:.1f} in {FALSE_ALARMS:.0%} of such checks).",
        "seed": at_stepsize.seed,
    }
    return result


def checkStepsize(
    sampler: Callable,
    logLik: LogLik,
    dataset: Mapping[str, Any],
    params: Mapping[str, Any],
    stepsize: Stepsize = "auto",
    *,
    nIters: int = 10**4,
    burnIn: int | None = None,
    seed: int | None = None,
    **arguments: Any,
) -> pd.DataFrame:
    """Run a sampler at a stepsize and at half of it, and compare the results.

    The second run has twice the iterations, so that both runs cover the same time of
    the diffusion. A schedule eps(k) becomes eps(k / 2) / 2. Halving the stepsize halves
    the error that it causes, so the change is about as large as the error that remains
    at half the stepsize. The change is given in Monte Carlo standard errors: if the
    stepsize caused no error, it would be standard normal.

    Parameters
    ----------
    sampler : callable
        A sampler of the package that runs in one call, such as `sgld`.
    logLik : callable
        As for the sampler.
    dataset : dict of str to array_like, a table, or an object
        As for the sampler.
    params : dict of str to array_like
        As for the sampler.
    stepsize : float, schedule, or dict of str to either, default "auto"
        The stepsize to check; "auto" is the one that the sampler finds.
    nIters : int, default 10**4
        Number of iterations at this stepsize; the run at half of it makes twice as
        many.
    burnIn : int, optional
        Number of these iterations to discard at the beginning. By default half.
    seed : int, optional
        The same seed gives the same table.
    arguments : any
        Further arguments of the sampler. With `collect`, its results are compared; with
        `nChains`, the draws of all chains together.

    Returns
    -------
    pandas.DataFrame
        A row for each element of each parameter: `mean` and `sd` at the stepsize,
        `mean_half` and `sd_half` at half of it, and `mean_change` and `sd_change`, the
        changes in Monte Carlo standard errors. ``table.attrs["worst"]`` describes the
        largest change in a sentence. ``table.attrs["changed"]`` is True if that change
        exceeds the level that chance alone exceeds in 1% of such checks, given the
        number of changes in the table.

    Raises
    ------
    ValueError
        If an argument is invalid; the message names it, what it got and what would work.
    DivergenceError
        If the chain diverges at the stepsize, or at half of it.

    See Also
    --------
    tune : Choose a stepsize.

    Notes
    -----
    All settings other than the stepsize are the same in both runs, so errors that they
    cause, such as that of `a` in SGNHT, do not show. The standard errors are ArviZ's.
    They are too small if effective sample sizes are below about one hundred; a change
    then means that the run is too short. No change means that the error is below about
    two standard errors; more iterations reveal smaller errors.

    Examples
    --------
    >>> import numpy as np
    >>> import tensorflow as tf
    >>> from sgmcmc import checkStepsize, sgld
    >>> dataset = {"x": np.random.default_rng(0).normal(3.0, 1.0, size=1000)}
    >>> def logLik(params, dataset):
    ...     return -0.5 * tf.reduce_sum((dataset["x"] - params["theta"]) ** 2)
    >>> table = checkStepsize(
    ...     sgld, logLik, dataset, {"theta": 3.0}, stepsize=2e-3, minibatchSize=500, verbose=False, seed=1
    ... )
    >>> bool(table.loc["theta", "sd"] > 1.2 * table.loc["theta", "sd_half"]), table.attrs["changed"]
    (True, True)
    """
    require_arviz("checkStepsize")
    setup_of("checkStepsize", sampler)
    _require_comparable(sampler, stepsize, arguments)
    n = require_count("nIters", "checkStepsize", nIters, 2)
    skip = n // 2 if burnIn is None else require_count("burnIn", "checkStepsize", burnIn, 0)
    thin = require_count("thin", "checkStepsize", arguments.pop("thin", 1), 1)
    given = {**arguments, "nIters": n, "burnIn": skip, "thin": thin, "seed": seed}
    at_stepsize = sampler(logLik, dataset, params, stepsize, **given)
    given |= {"nIters": 2 * n, "burnIn": 2 * skip, "thin": 2 * thin}
    given["seed"] = random.child_seed(at_stepsize.seed, Purpose.HALF)
    if isinstance(stepsize, str):  # the first run found it, relative to its preconditioner
        stepsize = at_stepsize.settings["stepsize"]
        if isinstance(given.setdefault("preconditioner", AUTO), str):
            given["preconditioner"] = at_stepsize.settings["preconditioner"]
    names = at_stepsize.settings["parameters"]
    if given.get("collect") is None and set(names) <= set(at_stepsize) and not _is_centre(given):
        # The second run begins at the last draw of the first.
        params = {name: at_stepsize[name][-1 if at_stepsize.nChains is None else (0, -1)] for name in names}
    return changes(at_stepsize, sampler(logLik, dataset, params, _halved(stepsize), **given))


def _require_comparable(sampler: Callable, stepsize: Any, arguments: Mapping[str, Any]) -> None:
    for argument, value in arguments.items():
        if argument in KEPT_ELSEWHERE:
            must = "be left out, since checkStepsize holds the draws of both runs in memory"
            raise refused("checkStepsize", argument, must, described(value))
        if argument not in signature(sampler).parameters:
            raise unknown("checkStepsize", argument, sampler.__name__)
    if any(explores(eps) for eps in (stepsize.values() if isinstance(stepsize, Mapping) else [stepsize])):
        must = "have explorationFraction=0, since draws made during exploration are not from the posterior"
        raise refused("checkStepsize", "stepsize", must, repr(stepsize))


def _is_centre(arguments: Mapping[str, Any]) -> bool:
    """Whether the estimator depends on `params`, which must then be the same in both runs."""
    gradient = arguments.get("gradient")
    return callable(gradient) or getattr(gradient, "nItersOpt", None) == 0 or arguments.get("nItersOpt") == 0


def _halved(stepsize: Any) -> Any:
    """Half the stepsize; schedules also change half as fast."""
    if isinstance(stepsize, Mapping):
        return {name: _halved(eps) for name, eps in stepsize.items()}
    return _Halved(stepsize) if callable(stepsize) else stepsize / 2


@dataclass(frozen=True)
class _Halved:
    schedule: Schedule

    def __call__(self, iteration: tf.Tensor) -> tf.Tensor:
        return self.schedule(iteration / 2) / 2
