"""checkTemperature: the largest stepsize at which the temperatures of all parameters are right.

For exact draws of theta and momentum u, and any point c that does not depend on them,

    kinetic:         E |u|^2 / (p eps) = 1
    configurational: -E <theta - c, grad log p(theta)> / p = 1

with p the number of elements of a parameter; the second follows from integration by parts. Here c is the chain's
position in the middle of its iterations. A separate minibatch estimates the gradient, so that its noise averages out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import tensorflow as tf

from sgmcmc.arguments import FRACTION, require_number
from sgmcmc.arguments.common import PerParameter
from sgmcmc.core import random
from sgmcmc.core.errors import refused, require_count, require_flag, warn_user
from sgmcmc.core.progress import Progress
from sgmcmc.core.random import Purpose
from sgmcmc.core.trees import Tree
from sgmcmc.draws.arviz import require_arviz
from sgmcmc.draws.summary import TIME
from sgmcmc.kernel import IterationInputs, State
from sgmcmc.kernel.iterations import of_dynamics
from sgmcmc.model import LogLik
from sgmcmc.run import Plan
from sgmcmc.run.checkpoint import Beginning
from sgmcmc.run.product import ProductSampler
from sgmcmc.run.recorder import Recorder
from sgmcmc.tuning.candidates import (
    AROUND,
    around_rule,
    listed_stepsizes,
    of_each,
    require_known,
    run_candidates,
    set_up,
    setup_of,
    with_stepsizes,
)

if TYPE_CHECKING:
    import pandas as pd


KINETIC = "kinetic_temperature"
BATCHES = 20  # of consecutive draws, whose averages give the Monte Carlo error


class Temperatures(NamedTuple):
    """Averages and their Monte Carlo standard errors for one parameter of one chain; infinite if it diverged."""

    kinetic: float
    kinetic_error: float
    configurational: float
    configurational_error: float


def temperatures(
    sampler: ProductSampler,
    beginning: Beginning,
    stepsizes: Sequence[Mapping[str, float]],
    n_iterations: int,
    thin: int,
    progress: Callable[[int], None],
) -> list[dict[str, Temperatures]]:
    """The temperatures of each parameter in the second half of each chain."""
    _, prepared = with_stepsizes(sampler, stepsizes, beginning, monitored=True)
    kernel, names = prepared.kernel, sorted(sampler.start)
    plan = Plan(n_iterations, thin, n_iterations // 2)
    per_batch = (plan.n_rows - 1) // BATCHES
    zeros = tf.zeros([BATCHES, len(stepsizes), len(names)], tf.float64)

    def init() -> dict[str, Any]:
        centre = tf.nest.map_structure(tf.zeros_like, kernel.params(prepared.state))
        return {"centre": centre, "row": tf.constant(0), "kinetic": zeros, "configurational": zeros}

    def update(sums: dict[str, Any], constants: Tree, state: State, inputs: IterationInputs) -> dict[str, Any]:
        assert kernel.gradient is not None
        row, params = sums["row"], kernel.params(state)
        centre = {name: tf.where(row == 0, theta, sums["centre"][name]) for name, theta in params.items()}
        gradient = kernel.gradient(constants, state, inputs)
        products = [(centre[name] - params[name]) * gradient[name] for name in names]
        means = [tf.reduce_mean(tf.reshape(x, [x.shape[0], -1]), axis=1) for x in products]
        now = {
            "kinetic": kernel.stats(constants, state, inputs.iteration + tf.constant(1, tf.uint32))[KINETIC],
            "configurational": tf.stack(means, axis=1),
        }
        batch = tf.one_hot(tf.where(row == 0, -1, (row - 1) // per_batch), BATCHES, dtype=tf.float64)
        added = {key: sums[key] + batch[:, None, None] * tf.cast(x, tf.float64) for key, x in now.items()}
        return {"centre": centre, "row": row + 1, **added}

    ran = run_candidates(prepared, Recorder(lambda *_: {}, init, update), plan, progress)

    def of(key: str, c: int, p: int) -> tuple[float, float]:
        averages = ran.accumulated[key].numpy()[:, c, p] / per_batch
        return float(averages.mean()), float(averages.std(ddof=1) / BATCHES**0.5)

    diverged = Temperatures(*[np.inf] * 4)
    return [
        {
            name: Temperatures(*of("kinetic", c, p), *of("configurational", c, p)) if finite else diverged
            for p, name in enumerate(names)
        }
        for c, finite in enumerate(ran.finite)
    ]


FEWEST = 4 * (BATCHES + 1)  # iterations, so that each batch of the second half has a draw
FURTHER = 3  # number of times that stepsizes beyond the first ones are tried
CLEARLY = 3  # Monte Carlo standard errors
BETWEEN = 10.0 ** (np.arange(1, 5) / 10)  # four stepsizes between two that differ by the root of ten


def checkTemperature(
    sampler: Callable,
    logLik: LogLik,
    dataset: Mapping[str, Any],
    params: Mapping[str, Any],
    stepsize: Sequence[PerParameter] | None = None,
    *,
    tolerance: float = 0.05,
    nIters: int = 2000,
    verbose: bool = True,
    seed: int | None = None,
    **arguments: Any,
) -> pd.DataFrame:
    """Find the largest stepsize at which the temperatures of all parameters are right.

    This is meant for posteriors that are far from normal, such as those of neural
    networks. For these ``stepsize="auto"``, which predicts the standard deviations of
    the draws from the curvature at the mode, cannot be used. Temperatures can be
    measured for any posterior, in short chains. They are averages over the elements of
    a parameter, such as the weights of a layer, so they are only a guide: they
    guarantee nothing about the standard deviations of single elements.

    Parameters
    ----------
    sampler : callable
        A sampler of the package that runs in one call and has a momentum: `sghmc`,
        `sghmccv`, `sgnht`, `sgnhtcv`, `ccadl`, `baoab`, `badodab`, or `sample` with
        such a dynamics.
    logLik : callable
        As for the sampler.
    dataset : dict of str to array_like, a table, or an object
        As for the sampler.
    params : dict of str to array_like
        As for the sampler. All chains begin here, or at the mode with control variates.
        Begin where the posterior has most of its mass, such as at a trained network:
        a chain that is still on its way there is hot at any stepsize.
    stepsize : sequence of float or dict of str to float, optional
        The stepsizes to try. By default nine around the first guess for an unknown
        posterior, as for `tune`, and further ones if all or none of them are right; then
        four between the largest right one and the next, a factor of 1.26 apart.
    tolerance : float, default 0.05
        The largest allowed relative error of a temperature. A run of a sampler warns
        above 0.1.
    nIters : int, default 2000
        Iterations of each chain. The temperatures are those of the second half.
    verbose : bool, default True
        Show a progress bar.
    seed : int, optional
        The same seed gives the same table.
    arguments : any
        Further arguments of the sampler, such as `logPrior` or `minibatchSize`.
        Arguments for the number of chains, the length of the run and its storage are
        not allowed.

    Returns
    -------
    pandas.DataFrame
        A row for each stepsize and parameter: its `kinetic` and `configurational`
        temperature, divided by their values for exact draws, their Monte Carlo standard
        errors `kinetic_error` and `configurational_error`, and whether they are
        `right`. All are infinite if the chain diverged. ``table.attrs["stepsize"]`` is
        the largest stepsize that is right for all parameters; None, with a warning, if
        there is none. Errors grow with the stepsize, so a stepsize that is wrong below
        several that are right, or right above several that are wrong, is attributed to
        chance. ``table.attrs["seed"]`` is the seed in use.

    Raises
    ------
    ValueError
        If an argument is invalid; the message names it, what it got and what would
        work.
    ModeSearchError
        If the search for the mode diverges, with control variates.

    See Also
    --------
    tune : Choose a stepsize and other settings by the kernel Stein discrepancy.
    checkStepsize : Whether half the stepsize gives a different result.

    Notes
    -----
    The kinetic temperature is the mean of u^2 / eps over the p elements of the momentum
    u of a parameter theta, and the configurational temperature is ::

        -<theta - c, gradient of the log posterior at theta> / p

    with c the position of the chain in the middle of its iterations. For exact draws the
    averages of both are 1 in any posterior that vanishes at infinity (Leimkuhler and
    Matthews [1]_; with networks, Wenzel et al. [2]_). For `sghmc` the expected kinetic
    temperature is slightly above 1 (see there), and the measured one is divided by it.

    A temperature is wrong if its error exceeds both the tolerance and three Monte Carlo
    standard errors. The configurational temperature may also be smaller than 1: directions
    in which the chain has hardly moved in the second half of its iterations add nothing to
    it. This is not a sign of too large a stepsize, and is allowed. In `sgnht` and
    `badodab` a thermostat drives the kinetic temperature to 1, over 1/a iterations or
    more. Give them a larger `nIters`, and check the configurational temperature, which
    alone shows the error.

    References
    ----------
    .. [1] Leimkuhler, B. and Matthews, C. (2015). Molecular Dynamics. Springer.
    .. [2] Wenzel, F. et al. (2020). How good is the Bayes posterior in deep neural networks really? ICML.

    Examples
    --------
    >>> import numpy as np
    >>> import tensorflow as tf
    >>> from sgmcmc import baoab, checkTemperature
    >>> rng = np.random.default_rng(0)
    >>> dataset = {"x": rng.normal(3.0, 1.0, size=(1000, 20))}
    >>> params = {"theta": dataset["x"].mean(axis=0)}
    >>> def logLik(params, dataset):
    ...     return -0.5 * tf.reduce_sum((dataset["x"] - params["theta"]) ** 2)
    >>> table = checkTemperature(
    ...     baoab, logLik, dataset, params, [1e-7, 1e-6, 1e-5], minibatchSize=100, verbose=False, seed=1
    ... )
    >>> table["right"].tolist(), table.attrs["stepsize"]
    ([True, True, False], 1e-06)
    """
    require_arviz("checkTemperature")
    setup = setup_of("checkTemperature", sampler)
    require_known("checkTemperature", setup, sampler.__name__, arguments, "nIters")
    allowed = require_number("tolerance", "checkTemperature", tolerance, FRACTION)
    length = require_count("nIters", "checkTemperature", nIters, FEWEST, ", so that there are enough draws to average")
    show = require_flag("verbose", "checkTemperature", verbose)
    tried = None if stepsize is None else listed_stepsizes("checkTemperature", stepsize)
    made = set_up("checkTemperature", setup, (logLik, dataset, params), tried, {**arguments, "seed": seed})
    _require_momentum(sampler.__name__, made)
    search = _Search(made, Beginning({}, *made.find(show)), allowed, length, show)
    found = search.around() if tried is None else search.among(tried)
    if found is None:
        warn_user(
            "no stepsize that checkTemperature tried gives the right temperatures: all may be too large, or the chains "
            "may not yet have moved from `params` to where the posterior has its mass."
        )
    import pandas as pd

    table = pd.DataFrame(search.rows)
    table.attrs = {"stepsize": found, "seed": made.seed}
    return table


def _require_momentum(name: str, made: ProductSampler) -> None:
    for parameter, dynamics in made.dynamics.items():
        recorded = of_dynamics(dynamics, made.start[parameter].shape, made.dtype)
        if TIME in recorded:
            raise refused("checkTemperature", "sampler", "have draws of equal weight", name)
        if KINETIC not in recorded:
            must = "have a momentum and record its kinetic temperature, as sghmc, sgnht, ccadl, baoab and badodab do"
            raise refused("checkTemperature", "sampler", must, name)


@dataclass
class _Search:
    sampler: ProductSampler
    beginning: Beginning
    tolerance: float
    n_iterations: int
    show: bool
    rows: list[dict[str, Any]] = field(default_factory=list)  # of the table, for the stepsizes tried so far

    def around(self) -> float | None:
        """The largest right stepsize around the guide's, or further from it if all or none of these are right."""
        tried = around_rule(self.sampler)
        found = self.among(tried)
        too_large = found is None
        for _ in range(FURTHER):
            if found is not None and (too_large or found < tried[-1]):
                break
            tried = _times(tried[0], AROUND[:4]) if too_large else _times(tried[-1], AROUND[5:])
            found = self.among(tried) or found
        return None if found is None else self.among(_times(found, BETWEEN)) or found

    def among(self, stepsizes: Sequence[Any]) -> Any:
        """The largest of these that is right, apart from chance; None if there is none."""
        each = [of_each("checkTemperature", self.sampler, eps) for eps in stepsizes]
        order = sorted(range(len(each)), key=lambda k: sum(np.log(list(each[k].values()))))
        sampler = self.sampler.with_seed(random.child_seed(self.sampler.seed + len(self.rows), Purpose.PILOT))
        ascending, thin = [each[k] for k in order], 1 if sampler.leaps > 1 else 2
        title = f"Temperatures of {sampler.name}, {len(each)} stepsizes"
        with Progress(self.n_iterations, title, "iteration", self.show) as progress:
            of_chains = temperatures(sampler, self.beginning, ascending, self.n_iterations, thin, progress.reached)
        right = []
        for k, of_chain in zip(order, of_chains, strict=True):
            rows = [self._row(stepsizes[k], name, one) for name, one in of_chain.items()]
            self.rows += rows
            right.append(all(row["right"] for row in rows))
        last = _last_right(right)
        return None if last is None else stepsizes[order[last]]

    def _row(self, stepsize: Any, name: str, found: Temperatures) -> dict[str, Any]:
        expected = self.sampler.dynamics[name].temperature
        kinetic, error = found.kinetic / expected, found.kinetic_error / expected
        hot = found.configurational - 1 > max(self.tolerance, CLEARLY * found.configurational_error)
        wrong = not np.isfinite(kinetic) or abs(kinetic - 1) > max(self.tolerance, CLEARLY * error)
        return {
            "stepsize": stepsize,
            "parameter": name,
            "kinetic": kinetic,
            "configurational": found.configurational,
            "kinetic_error": error,
            "configurational_error": found.configurational_error,
            "right": not (hot or wrong),
        }


def _last_right(right: Sequence[bool]) -> int | None:
    """The index of the last right one in ascending order: the smallest boundary with the fewest exceptions.

    Errors grow with the stepsize, so a wrong one below right ones, or a right one above wrong ones, is chance.
    """
    exceptions = [right[:k].count(False) + right[k:].count(True) for k in range(len(right) + 1)]
    boundary = exceptions.index(min(exceptions))
    return boundary - 1 if boundary else None


def _times(stepsize: float, factors: np.ndarray) -> list[float]:
    return [float(f"{stepsize * factor:.2g}") for factor in factors]
