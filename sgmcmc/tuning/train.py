"""train: starts for chains near modes of the posterior, such as trained networks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Unpack

import numpy as np

from sgmcmc.arguments import STEPSIZE, require_number
from sgmcmc.arguments.choices import Choices
from sgmcmc.arguments.common import Stepsize
from sgmcmc.arguments.sampler import set_up
from sgmcmc.arguments.signatures import RUN_DEFAULTS, SETUP_DEFAULTS, RunOptions, SetupOptions, TrainOptions, public
from sgmcmc.core.errors import require_count
from sgmcmc.core.schedules import cyclical
from sgmcmc.dynamics.descent import adam
from sgmcmc.model import LogLik, LogPrior


@public
def train(
    logLik: LogLik,
    dataset: Mapping[str, Any],
    params: Mapping[str, Any],
    stepsize: Stepsize = 1e-3,
    logPrior: LogPrior | None = None,
    minibatchSize: float = 0.01,
    nIters: int = 10**4,
    verbose: bool = True,
    seed: int | None = None,
    **options: Unpack[TrainOptions],
) -> list[dict[str, np.ndarray]]:
    """Maximise the log posterior by Adam, in several chains at once.

    The results are starting points for chains: pass the ensemble of trained networks as
    `starts` of a sampler. Chains with different `starts` reach different modes if there
    are any. The objective is the log posterior of the samplers, estimated from
    minibatches, so the prior acts as a penalty on the weights.

    See Also
    --------
    fromKeras : Convert a network to arguments of this function; its `initial` gives untrained starts.
    checkTemperature : Find a stepsize for chains that begin here.

    Notes
    -----
    This is the Adam of Kingma and Ba [1]_, with its default decay rates. With
    `transforms` the objective is the density on the unconstrained scale on which a
    sampler moves.

    References
    ----------
    .. [1] Kingma, D. P. and Ba, J. (2015). Adam: a method for stochastic optimization. ICLR.

    Examples
    --------
    Two modes of a network with one hidden unit, which differ in sign:

    >>> import numpy as np
    >>> import tensorflow as tf
    >>> from sgmcmc import baoab, train
    >>> x = np.random.default_rng(0).normal(size=1000)
    >>> dataset = {"x": x, "y": np.tanh(2 * x)}
    >>> params = {"a": 0.0, "b": 0.0}
    >>> def logLik(params, dataset):
    ...     return -50.0 * (dataset["y"] - params["b"] * tf.tanh(params["a"] * dataset["x"])) ** 2
    >>> trained = train(
    ...     logLik, dataset, params, stepsize=0.01, minibatchSize=100, nIters=1000, verbose=False, seed=1,
    ...     starts=[{"a": 1.0, "b": 1.0}, {"a": -1.0, "b": -1.0}],
    ... )
    >>> [round(float(one["a"])) for one in trained]
    [2, -2]
    >>> out = baoab(logLik, dataset, params, 1e-7, minibatchSize=100, nIters=100, starts=trained, verbose=False)
    >>> out["a"].shape
    (2, 100)
    """
    length = require_count("nIters", "train", nIters, 1)
    if not callable(stepsize) and not isinstance(stepsize, Mapping):
        largest = require_number("stepsize", "train", stepsize, STEPSIZE)
        stepsize = cyclical(largest, length) if length > 1 else largest
    chosen: SetupOptions = {**SETUP_DEFAULTS, "preconditioner": None, **options}
    choices = Choices(
        "train", dataset, params, stepsize, minibatchSize, seed, logLik=logLik, logPrior=logPrior, **chosen
    )
    last: RunOptions = {**RUN_DEFAULTS, "thin": length}
    out = set_up(choices, adam(), None).run(length, verbose, **last)
    ends = out.groups["posterior"]  # [C, 1, ...]
    return [{name: ends[name][c, -1] for name in out} for c in range(len(choices.chains))]
