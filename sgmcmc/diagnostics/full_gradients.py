"""fullGradients: the gradient of the log posterior at every draw, from all data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sgmcmc.arguments.choices import Choices
from sgmcmc.arguments.destination import checked_executor, require_portable
from sgmcmc.arguments.signatures import SETUP_DEFAULTS
from sgmcmc.arguments.transforms import Joint, is_joint
from sgmcmc.core.errors import refused, require_flag
from sgmcmc.core.progress import Progress
from sgmcmc.dataset.arrays import with_levels
from sgmcmc.diagnostics._per_draw import read_finite
from sgmcmc.draws.draws import Draws
from sgmcmc.laplace.posterior import Posterior
from sgmcmc.model import LogLik, LogPrior
from sgmcmc.parallel.executors import Executor, each, workers_of

NAME = "fullGradients"


def fullGradients(
    draws: Any,
    logLik: LogLik,
    dataset: Mapping[str, Any],
    logPrior: LogPrior | None = None,
    *,
    integers: Sequence[str] | None = None,
    dtype: str | None = None,
    nChains: int | None = None,
    temperature: float | None = None,
    executor: Executor | None = None,
    verbose: bool = True,
) -> Any:
    """The exact gradients of the log posterior at the draws, from all data.

    They are used by `ksd` and `zvControlVariates`. Each draw takes one pass over the
    data, in blocks; pass ``out[::10]`` to use only every tenth draw.

    Parameters
    ----------
    draws : Draws or dict of str to array_like
        The result of a sampler, with the draws of all parameters; or your own arrays,
        of shape (T, *shape) for T draws.
    logLik : callable
        As for the samplers.
    dataset : dict of str to array_like, a table, or an object
        As for the samplers; may be on disk.
    logPrior : callable, optional
        As for the samplers.
    integers : sequence of str, optional
        Entries of `dataset` that are integers. By default those of the run, or none for
        your own arrays.
    dtype : str, optional
        The float type of the computation, "float32" or "float64". By default that of
        the run, or float64 for your own arrays. Sums over blocks of data are in
        float64.
    nChains : int, optional
        The number of chains, if the arrays of a dict have the shape (nChains, T,
        *shape). A `Draws` has its own.
    temperature : float, optional
        The temperature of the posterior, as for the samplers. By default that of the
        run, or 1 for your own arrays.
    executor : Executor, optional
        Its workers compute the gradients of different draws, as for the samplers. The
        results do not change.
    verbose : bool, default True
        Show the progress.

    Returns
    -------
    dict of numpy.ndarray
        The gradients by parameter, in the shape of the draws and in float64.

    Raises
    ------
    ValueError
        If an argument is invalid, or if the draws lack a parameter that `logLik` needs.

    Examples
    --------
    >>> import numpy as np
    >>> import tensorflow as tf
    >>> from sgmcmc.diagnostics import fullGradients
    >>> def logLik(params, dataset):
    ...     return -0.5 * tf.reduce_sum((dataset["x"] - params["theta"]) ** 2)
    >>> draws = {"theta": np.array([1.0, 2.0])}
    >>> fullGradients(draws, logLik, {"x": [1.0, 2.0, 4.0]}, verbose=False)
    {'theta': array([4., 1.])}
    """
    if not isinstance(draws, Mapping):
        must = "be the result of a sampler or a dict of arrays with the names of logLik's parameters"
        raise refused(NAME, "draws", must, type(draws).__name__)
    settings: Mapping[str, Any] = draws.settings if isinstance(draws, Draws) else {"dtype": "float64"}
    points = read_finite(NAME, "draws", draws, nChains, settings.get("parameters"))
    shown, flat = require_flag("verbose", NAME, verbose), points.flat()
    given = {"integers": integers, "dtype": dtype, "temperature": temperature}
    of_run = {name: settings[name] for name in given if name in settings}
    options: dict[str, Any] = {
        **SETUP_DEFAULTS,
        **of_run,
        **{k: value for k, value in given.items() if value is not None},
    }
    params = {name: array[(0,) * len(points.lead)] for name, array in points.arrays.items()}
    if is_joint(logPrior):
        logPrior = Joint(f"logPrior of {NAME}", logPrior).log_prior
    dataset = with_levels(NAME, dataset, settings.get("levels", {}))
    choices = Choices(NAME, dataset, params, 1.0, 1, 0, logLik=logLik, logPrior=logPrior, **options)
    posterior, gradients = Posterior(choices.model, points.shapes), np.empty(flat.shape)
    if executor is not None:
        checked_executor(NAME, executor, None, len(flat))
        require_portable(NAME, posterior)
    with Progress(len(flat), "gradients", "draw", shown) as progress, workers_of(executor) as workers:
        for k, gradient in enumerate(each(workers, _gradient, posterior, list(flat))):
            gradients[k] = gradient
            progress.reached(k + 1)
    return points.restored(gradients, points.lead)


def _gradient(posterior: Posterior, theta: np.ndarray) -> np.ndarray:
    return posterior.value_and_gradient(theta)[1]
