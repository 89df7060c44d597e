"""What a run returns: R's dictionary of arrays, with settings and statistics."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sgmcmc.core.errors import reason, require_flag, require_iterations
from sgmcmc.core.trees import Tree
from sgmcmc.draws.arviz import to_arviz, to_frame
from sgmcmc.draws.check import Check, Compared
from sgmcmc.draws.elements import checked_labels, refused
from sgmcmc.draws.loading import from_file, from_store, joined, to_file
from sgmcmc.draws.predictions import predictions
from sgmcmc.draws.stein import of_draws
from sgmcmc.draws.summary import summary

if TYPE_CHECKING:
    import pandas as pd
    import tensorflow as tf
    import xarray as xr


WORTH = 1.5  # times fewer gradients for a draw
LARGE, ENOUGH = 3, 1000  # a minibatch is too large beyond this multiple of the best size, or of this size if larger


class Draws(dict[str, Any]):
    """The draws of each parameter, a dict of arrays.

    Each array has shape (T, *shape) for T draws, or (nChains, T, *shape) given
    `nChains`. ``out["theta"]`` is one array. ``out[100:]`` leaves out the first hundred
    draws and ``out[::10]`` keeps every tenth, together with their statistics. With
    ``storage=`` the arrays are xarray's, read from disk when they are used.

    Parameters
    ----------
    groups : dict of dict of array
        The recorded arrays, ``{"posterior": {name: array}, "sample_stats": ...}``, with
        axes (chain, draw, ...).
    nChains, iterations, settings, reduced, timings, divergence : see the attributes
        The attributes below; `iterations` may be a range, and the last three are optional.

    Attributes
    ----------
    seed : int
        The seed in use; the same seed and settings give the same draws.
    settings : dict
        The arguments of the run after conversion, by R's names. With ``stepsize="auto"``
        also `expected`, the accuracy predicted before the run, and `advice` on more
        efficient settings.
    nChains : int or None
        The number of chains, or None for a single chain without a chain axis.
    chains : list of int
        The numbers of the chains, as in ArviZ and in a `DivergenceError`: 0, 1, ...,
        unless `nChains` of the run was a range.
    iterations : numpy.ndarray
        The iteration after which each draw was made, counted from 1.
    sampleStats : dict of numpy.ndarray
        Statistics of each draw, by ArviZ's names. The arrays have shape (T,) for T
        draws, or (nChains, T) given `nChains`. Those marked [P] have one more axis, for
        the P parameters in order of name, with NaN for parameters without the statistic.

        - "lp": the log posterior up to a constant, summed over all N observations, as
          estimated from the minibatch of the iteration, at the position of the last
          gradient: for SGHMC the draw itself, for UBU and zig-zag half a step before
          it, and for all other samplers the position one iteration earlier.
        - "kinetic_temperature" [P], for samplers with momentum: the mean of
          momentum^2 / stepsize over the elements: near 1 in a well-tuned chain, or near
          1 / (1 - alpha/2) for SGHMC.
        - "thermostat" [P], for SGNHT, CCAdL and BADODAB: the thermostat xi.
        - "variance_ratio" [P]: its average over a chain estimates the variance of the
          chain divided by the posterior's, if the posterior is normal.
          For SGLD it is 1 + stepsize/4 times the mean of gradient^2 over the elements,
          for Barker dynamics 1 + the mean of z^2/stepsize tanh(z gradient/2)^2,
          for SGNHT 1 - xi/2, for BAOAB 1 + (kinetic_temperature - 1) (1 - alpha/2)^2,
          and for CCAdL 1 - (xi + stepsize/2 * v)/2 with v the mean of the estimated
          variances of the gradient noise.
        - "step_size" [P], if a stepsize is a schedule: the stepsizes of the iteration.
        - "exploring" [P], if a schedule explores: 1 in iterations without noise,
          otherwise 0.
        - "minibatch_size" and "observations", for minibatches of adaptive size: the
          total number of observations in the minibatches of the iteration, and in those
          of all iterations so far.
    gradients : dict of numpy.ndarray or None
        With ``gradients=True``, the gradient of the log posterior at each draw,
        estimated from a separate minibatch, in the shapes of the draws.
    reduced : dict
        With ``reduce=``, the results of the reducers by name.
    timings : dict of str to float
        Seconds: "sampling" (which includes compilation), "total", and "modeSearch" if
        the run searched for the mode.
    divergence : dict or None
        For the draws of a `DivergenceError`, its iteration, chain and parameter;
        otherwise None.

    Examples
    --------
    >>> import numpy as np
    >>> import tensorflow as tf
    >>> from sgmcmc import sgld
    >>> dataset = {"x": np.random.default_rng(0).normal(3.0, 1.0, size=1000)}
    >>> def logLik(params, dataset):
    ...     return -0.5 * tf.reduce_sum((dataset["x"] - params["theta"]) ** 2)
    >>> out = sgld(logLik, dataset, {"theta": 0.0}, 1e-4, minibatchSize=100, nIters=500, verbose=False, seed=1)
    >>> out
    <draws of sgld, seed 1: theta (500,)>
    >>> out.burnIn(100)["theta"].shape, out.logPosterior.shape
    ((400,), (500,))
    """

    comparison: Any = None  # the arguments of the call, for `check` and `toArviz`

    def __init__(
        self,
        groups: Tree,
        *,
        nChains: int | None,
        iterations: np.ndarray | range,
        settings: Mapping[str, Any],
        reduced: Tree | None = None,
        timings: Mapping[str, float] | None = None,
        divergence: Mapping[str, Any] | None = None,
    ) -> None:
        self.nChains, self._iterations = nChains, iterations
        self.settings = {"parameters": sorted(settings.get("stepsize", {})), "advice": advice(settings), **settings}
        self.reduced, self.timings = reduced or {}, dict(timings or {})
        self.divergence = dict(divergence) if divergence else None
        self._others = {group: members for group, members in groups.items() if group != "posterior"}
        self._on_disk = {
            name: array for name, array in groups.get("posterior", {}).items() if not isinstance(array, np.ndarray)
        }
        super().__init__(self._public(groups.get("posterior", {})))

    @property
    def groups(self) -> Tree:
        """All arrays in ArviZ's groups, {"posterior": {name: [C, T, ...]}, ...}."""
        posterior = {name: self._with_chain_axis(name, array) for name, array in self.items()}
        return ({"posterior": posterior} if posterior else {}) | self._others

    def _with_chain_axis(self, name: str, array: Any) -> Any:
        if self.nChains is not None:
            return array
        # Adding an axis to an array on disk would read all of it.
        return self._on_disk[name] if name in self._on_disk else np.asarray(array)[None]

    @property
    def iterations(self) -> np.ndarray:
        """The iteration after which each draw was made, counted from 1."""
        steps = self._iterations
        return np.arange(steps.start, steps.stop, steps.step) if isinstance(steps, range) else steps

    @property
    def chains(self) -> list[int]:
        """The numbers of the chains."""
        return self.settings.get("chains", list(range(self.nChains or 1)))

    @property
    def seed(self) -> int:
        """The seed in use."""
        return self.settings["seed"]

    @property
    def sampleStats(self) -> dict[str, Any]:
        """The statistics of each draw; see the class."""
        return self._public(self._others.get("sample_stats", {}))

    @property
    def logPosterior(self) -> Any:
        """``sampleStats["lp"]``."""
        return self.sampleStats["lp"]

    @property
    def gradients(self) -> dict[str, Any] | None:
        """The estimated gradients, if the run stored them; see the class."""
        return self._public(self._others["gradients"]) if "gradients" in self._others else None

    def _public(self, members: Tree) -> dict[str, Any]:
        return {name: array[0] if self.nChains is None else array for name, array in members.items()}

    def __getitem__(self, key: Any) -> Any:
        """The array of a parameter, or the draws that a slice selects."""
        if isinstance(key, list | tuple | np.ndarray):
            raise TypeError(
                "draws are selected by a slice, such as out[100:] or out[::10], and parameters by name; got "
                f"{type(key).__name__}. For single draws index the arrays, as in out['theta'][[1, 2]]."
            )
        if not isinstance(key, slice):
            return super().__getitem__(key)
        if key.step is not None and key.step < 1:
            raise ValueError(f"the step of a slice of draws must be positive; got {key.step}.")
        groups = {group: {name: x[:, key] for name, x in members.items()} for group, members in self.groups.items()}
        same = {name: getattr(self, name) for name in ("nChains", "settings", "reduced", "timings", "divergence")}
        chosen = Draws(groups, iterations=self._iterations[key], **same)
        chosen.comparison = self.comparison
        return chosen

    def __missing__(self, name: Any) -> Any:
        raise KeyError(f"draws have no {name!r}; there are {sorted(self)}")

    def __setitem__(self, name: str, array: Any) -> None:
        """Add or replace an array, which must have as many draws as the others."""
        array = array if hasattr(array, "shape") else np.asarray(array)
        lead = (len(self.iterations),) if self.nChains is None else (self.nChains, len(self.iterations))
        if tuple(array.shape[: len(lead)]) != lead:
            raise ValueError(
                f"out[{name!r}] must have shape ({', '.join(map(str, lead))}, ...), as many draws as the others; got "
                f"{tuple(array.shape)}. To drop draws, drop them from all arrays: out = out.burnIn(k) drops those of "
                "the first k iterations, out = out[k:] the first k draws."
            )
        if np.dtype(getattr(array.dtype, "as_numpy_dtype", array.dtype)).kind not in "biuf":
            raise ValueError(f"out[{name!r}] must have real numbers; got {array.dtype}.")
        self._on_disk = {key: x for key, x in self._on_disk.items() if key != name}  # copies may share the dict
        super().__setitem__(name, array)

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Like dict.update, with the checks of an assignment."""
        for name, array in dict(*args, **kwargs).items():
            self[name] = array

    def __ior__(self, other: Any) -> Draws:  # type: ignore[override]
        self.update(other)
        return self

    def __or__(self, other: Any) -> Draws:  # type: ignore[override]
        """These draws with further arrays."""
        if isinstance(other, Draws):
            raise TypeError("draws of two runs cannot be joined by |, which would keep those of the second alone.")
        joined = self.copy()
        joined.update(other)
        return joined

    def setdefault(self, name: str, default: Any = None) -> Any:
        """Like dict.setdefault, with the checks of an assignment."""
        if name not in self:
            self[name] = default
        return self[name]

    def __getattr__(self, name: str) -> Any:
        hint = f"; the draws of {name!r} are out[{name!r}]" if name in self else ""
        raise AttributeError(f"'Draws' has no attribute {name!r}{hint}", name=name, obj=self)

    def __reduce__(self) -> tuple:
        return _remade, (dict(self), {**vars(self), "comparison": None})

    def copy(self) -> Draws:
        """The same draws in another dict; the arrays are shared."""
        return self[:]

    def burnIn(self, k: int) -> Draws:
        """The draws without those of the first `k` iterations of the run.

        Parameters
        ----------
        k : int
            A number of iterations, counted before thinning, as `nIters` is.

        Returns
        -------
        Draws
        """
        k = require_iterations("k", "burnIn", k)
        return self[int(np.searchsorted(self.iterations, k, side="right")) :]

    @staticmethod
    def concat(runs: Sequence[Draws]) -> Draws:
        """The draws of different chains of one run, side by side.

        Parameters
        ----------
        runs : sequence of Draws
            Runs of the same seed and with the same settings, each of some of the chains,
            such as ``nChains=range(0, 4)`` and ``nChains=range(4, 8)``. Draws on disk
            stay there.

        Returns
        -------
        Draws
            All chains, in the order of their numbers. Up to rounding they equal those of
            one run of all chains, which is another program.

        Raises
        ------
        ValueError
            If there are no runs, if a chain occurs twice, or if settings or numbers of
            draws differ; the message names the difference.

        Examples
        --------
        >>> import numpy as np
        >>> import tensorflow as tf
        >>> from sgmcmc import Draws, sgld
        >>> dataset = {"x": np.random.default_rng(0).normal(3.0, 1.0, size=1000)}
        >>> def logLik(params, dataset):
        ...     return -0.5 * tf.reduce_sum((dataset["x"] - params["theta"]) ** 2)
        >>> def task(chains):
        ...     return sgld(
        ...         logLik, dataset, {"theta": 0.0}, 1e-4, minibatchSize=100, nIters=500, nChains=chains,
        ...         verbose=False, seed=1,
        ...     )
        >>> out = Draws.concat([task(range(0, 2)), task(range(2, 5))])
        >>> out, out.chains
        (<draws of sgld, seed 1: theta (5, 500)>, [0, 1, 2, 3, 4])
        >>> bool(np.allclose(out["theta"], task(5)["theta"], rtol=1e-4))
        True
        """
        if not isinstance(runs, Sequence) or not runs or not all(isinstance(run, Draws) for run in runs):
            raise refused("concat", "runs", "be a list of what a sampler returned", repr(runs))
        return Draws(**joined(runs))

    def labelled(self, labels: Mapping[str, str | Sequence[Any]]) -> Draws:
        """The same draws, with labels for the elements of some parameters.

        `summary`, the plots and `toArviz` then show "effect[UA]" in place of
        "effect[3]".

        Parameters
        ----------
        labels : dict of str to str or sequence
            For each parameter, the labels along its first axis: a list, or the name of a
            categorical entry of the dataset.

        Returns
        -------
        Draws

        Raises
        ------
        ValueError
            If a parameter is not stored or has no axis, or if the number of distinct
            labels differs from the length of its first axis.

        Examples
        --------
        >>> import numpy as np
        >>> import pandas as pd
        >>> import tensorflow as tf
        >>> from sgmcmc import sgld
        >>> frame = pd.DataFrame({"colour": ["red", "blue"] * 100, "y": [1.0, 3.0] * 100})
        >>> frame = frame.astype({"colour": "category"})
        >>> def logLik(params, dataset):
        ...     return -((dataset["y"] - tf.gather(params["mean"], dataset["colour"])) ** 2)
        >>> out = sgld(logLik, frame, {"mean": np.zeros(2)}, 1e-3, minibatchSize=20, nIters=999, verbose=False, seed=1)
        >>> list(out.labelled({"mean": "colour"}).summary().index)
        ['mean[blue]', 'mean[red]']
        """
        labelled = self.copy()
        labelled.settings = {**self.settings, "labels": checked_labels(self, labels)}
        return labelled

    def summary(
        self, names: str | Sequence[str] | None = None, diagnostics: bool = True, weighted: bool | None = None
    ) -> pd.DataFrame:
        """Mean, sd, quantiles and ArviZ's diagnostics of every element of every parameter.

        Parameters
        ----------
        names : str or sequence of str, optional
            Parameters, or parts such as "beta[0]" and "W[3, 2]"; by default all.
        diagnostics : bool, default True
            Whether to compute ArviZ's diagnostics, which take some milliseconds per
            element. Without them, a table of tens of thousands of elements takes
            seconds.
        weighted : bool, optional
            Whether to weight each draw by its stepsize, for stepsizes that change (Teh,
            Thiery and Vollmer 2016), or by its time step, if that is recorded, as by
            `samadams`. By default only in the second case. Draws made while a schedule
            explores have weight 0. The table is then limited to mean, sd and quantiles,
            since ArviZ's diagnostics do not support weights.

        Returns
        -------
        pandas.DataFrame
            A row for each element, with the columns mean, sd, 5%, 50%, 95%, mcse_mean,
            mcse_sd, ess_bulk, ess_tail and r_hat (NaN for a single chain). Samplers with
            momentum add the mean kinetic temperature of the parameter, its 99% band
            (`temperature_0.5%`, `temperature_99.5%`), and the temperature of a
            well-tuned chain (`temperature_right`). If the sampler records it (BADODAB,
            pSGLD, SCIR and SGRLD do not), `variance_ratio` estimates the chain's
            variance divided by the posterior's, if that is normal, with its 99% band
            (`variance_ratio_0.5%`, `variance_ratio_99.5%`). With ``stepsize="auto"``,
            `expected_sd_ratio` is the chain's sd divided by the posterior's, as
            predicted before the run. In rows returned by `collect`, temperature and
            variance ratio are those of the parameter farthest from its correct value. A
            row with the name of a parameter is taken for that parameter, so give
            transformed parameters other names.

        Raises
        ------
        ValueError
            If a name is neither a parameter nor an element, or if no draws are stored.
        """
        return summary(self, names, diagnostics, weighted)

    def check(self, verbose: bool = True) -> Check:
        """Whether the draws are good enough: a table with a row for each element, and a verdict.

        With ``stepsize="auto"`` it compares the posterior with the normal approximation
        for which the stepsize was chosen. This takes 500 evaluations of `logLik` on all
        data, in blocks; the draws hold the arguments of their call for this purpose. It
        also computes the standard deviations of the sandwich, which reveal a misspecified
        model (see `target` of `sgld`). Draws returned by `load` lack these arguments, and
        the columns that require them are NaN.

        Parameters
        ----------
        verbose : bool, default True
            Show the progress of this comparison.

        Returns
        -------
        Check
            Its `verdict` says what is missing, its `table` shows where, and `plot` draws
            it.

        Raises
        ------
        ValueError
            If no draws are stored.

        Examples
        --------
        >>> import numpy as np
        >>> import tensorflow as tf
        >>> from sgmcmc import sgldcv
        >>> dataset = {"x": np.random.default_rng(0).normal(3.0, 1.0, size=1000)}
        >>> def logLik(params, dataset):
        ...     return -0.5 * tf.reduce_sum((dataset["x"] - params["theta"]) ** 2)
        >>> out = sgldcv(logLik, dataset, {"theta": 0.0}, nIters="auto", verbose=False, seed=1)
        >>> found = out.check(verbose=False)
        >>> found.isGood, found.paretoK < 0.5
        (True, True)
        """
        mode, shown = self.settings.get("expected", {}).get("mode"), require_flag("verbose", "check", verbose)
        if self.comparison is None or mode is None:
            return Check(self, Compared())
        return Check(self, self.comparison(mode, self.seed, shown))

    def predict(
        self,
        function: Callable[..., tf.Tensor],
        dataset: Mapping[str, Any] | None = None,
        quantiles: Sequence[float] = (0.05, 0.5, 0.95),
        batchSize: int | None = None,
        diagnostics: bool = False,
        draws: bool = False,
    ) -> dict[str, np.ndarray]:
        """Mean, sd and quantiles over all draws of a function of the parameters.

        Parameters
        ----------
        function : callable
            ``function(params)``, or given a dataset ``function(params, dataset)``, in
            TensorFlow operations. It takes one draw, with the names and shapes of
            `params`, and returns a tensor of any shape, such as a prediction for each
            row of the dataset. With an argument named `seed` it may simulate new
            observations, for instance by ``tf.random.stateless_normal(shape, seed)``: two
            integers that differ for each draw and batch, and are derived from the seed of
            the run.
        dataset : dict of str to array_like, optional
            Passed to the function as a whole, or in batches, with the types and category
            codes of the sampler's own dataset. Tables and arrays on disk are allowed.
        quantiles : sequence of float, optional
            Numbers in (0, 1). Quantiles require the results of all draws in memory; with
            ``()``, only those of a block are held. ``out[::10].predict(...)`` uses every
            tenth draw.
        batchSize : int, optional
            The number of rows of the dataset to process at a time, which bounds memory for
            any number of rows. The function then returns a result for each row. All draws
            are read for each batch. By default all rows are processed at once.
        diagnostics : bool, default False
            Whether to compute the effective sample size and R-hat of the results. They
            show whether chains agree in their predictions, even if the parameters are not
            identified, as in networks. Like quantiles, they require the results of all
            draws in memory.
        draws : bool, default False
            Whether to return the results of all draws too.

        Returns
        -------
        dict of numpy.ndarray
            "mean", "sd" and the quantiles as "5%", "50%", "95%", each with the shape of
            the function's result, over all chains together. With `diagnostics`, also
            "ess_bulk" and "r_hat" (NaN for a single chain, and where all draws are equal,
            such as probabilities of 1). With `draws`, also "draws", (T, ...), or
            (nChains, T, ...) given `nChains`.

        Raises
        ------
        ValueError
            If there are no draws, or if an argument is invalid; the message names it.

        Examples
        --------
        >>> import numpy as np
        >>> import tensorflow as tf
        >>> from sgmcmc import sgld
        >>> x = np.random.default_rng(0).normal(size=1000)
        >>> def mean(params, dataset):
        ...     return params["slope"] * dataset["x"]
        >>> def logLik(params, dataset):
        ...     return -0.5 * tf.reduce_sum((dataset["y"] - mean(params, dataset)) ** 2)
        >>> out = sgld(logLik, {"x": x, "y": 2 * x}, {"slope": 2.0}, 1e-4, nIters=500, verbose=False, seed=1)
        >>> predicted = out.predict(mean, {"x": [0.0, 1.0]})
        >>> predicted["mean"].round(), sorted(predicted)
        (array([0., 2.]), ['5%', '50%', '95%', 'mean', 'sd'])
        """
        return predictions(self, function, dataset, quantiles, batchSize, diagnostics, draws)

    def ksd(self, scale: float | Mapping[str, Any] = 1.0) -> float:
        """The kernel Stein discrepancy of the draws, by their gradients.

        It is small if the draws represent the posterior; too large a stepsize and too
        short a chain both increase it. It has no absolute scale: use it to compare runs.
        The kernel is the inverse multiquadric
        ``(1 + |x - y|^2)^(-1/2)`` of the draws divided by `scale`. It is most sensitive
        to differences at distances of about 1, so give rough standard deviations of the
        posterior, the same for all runs that are compared. The noise of the gradients
        adds a constant, so compare runs with equal minibatch sizes and equal numbers of
        draws. The time grows with the square of the number of draws:
        ``out[::10].ksd()`` uses every tenth draw and takes a hundredth of the time.

        Parameters
        ----------
        scale : float or dict of str to array_like, default 1.0
            One number for all parameters, or a dict with a number or an array of the parameter's shape for each.

        Returns
        -------
        float
            The sum over all elements of all parameters, for the draws of all chains
            together.

        Raises
        ------
        ValueError
            If the run stored no gradients (``gradients=True``), or `scale` is invalid.

        References
        ----------
        .. [1] Gorham, J. and Mackey, L. (2017). Measuring sample quality with kernels. ICML.

        Examples
        --------
        >>> import numpy as np
        >>> import tensorflow as tf
        >>> from sgmcmc import sgld
        >>> dataset = {"x": np.random.default_rng(0).normal(3.0, 1.0, size=1000)}
        >>> def logLik(params, dataset):
        ...     return -0.5 * tf.reduce_sum((dataset["x"] - params["theta"]) ** 2)
        >>> def ksd(stepsize):  # the posterior has the standard deviation 0.03
        ...     out = sgld(
        ...         logLik, dataset, {"theta": 3.0}, stepsize, minibatchSize=200, nIters=1000, gradients=True,
        ...         verbose=False, seed=1,
        ...     )
        ...     return out.ksd(scale=0.03)
        >>> ksd(2e-4) < ksd(2e-3)
        True
        """
        return of_draws(self, scale)

    def toDataFrame(self) -> pd.DataFrame:
        """The draws as a table, with a column for each element.

        Returns
        -------
        pandas.DataFrame
            With the names of `summary` as columns, and the number of the chain and the
            iteration of the draw as index. All draws are read into memory.

        Raises
        ------
        ValueError
            If no draws are stored.

        Examples
        --------
        >>> import numpy as np
        >>> import tensorflow as tf
        >>> from sgmcmc import sgld
        >>> dataset = {"x": np.random.default_rng(0).normal(3.0, 1.0, size=(1000, 2))}
        >>> def logLik(params, dataset):
        ...     return -0.5 * tf.reduce_sum((dataset["x"] - params["theta"]) ** 2)
        >>> out = sgld(logLik, dataset, {"theta": [0.0, 0.0]}, 1e-4, nIters=500, verbose=False, seed=1)
        >>> frame = out.toDataFrame()
        >>> list(frame.columns), frame.index.names, len(frame)
        (['theta[0]', 'theta[1]'], FrozenList(['chain', 'draw']), 500)
        """
        return to_frame(self)

    def toArviz(self, logLikelihood: bool = False) -> xr.DataTree:
        """The draws as a tree of xarray datasets, the form that ArviZ uses.

        Parameters
        ----------
        logLikelihood : bool, default False
            Whether to add the log likelihood of each observation at each draw, for the
            functions of ArviZ that compare models, such as ``loo``. This takes an
            evaluation of `logLik` on all data for each draw, and memory for a number per
            draw and observation: ``out[::10].toArviz(True)`` uses every tenth draw. The
            draws hold the arguments of their call for this purpose; those returned by
            `load` do not.

        Returns
        -------
        xarray.DataTree
            With the groups `posterior` and `sample_stats`, and `gradients` if they are
            stored. `sample_stats` includes the stepsize and the minibatch size if they
            are constant. With `logLikelihood`, also `log_likelihood`.

        Raises
        ------
        ValueError
            If no draws are stored, or if `logLikelihood` is requested of draws that lack
            the arguments of their call, or the parameters.
        """
        return to_arviz(self, require_flag("logLikelihood", "toArviz", logLikelihood))

    def save(self, path: str | Path) -> None:
        """Write the draws to one file, an npz archive without pickled objects.

        Parameters
        ----------
        path : str or Path
            The name of the file, which ends in ".npz".
        """
        path = _path(path, "save", ".npz")
        if not path.absolute().parent.is_dir():
            raise refused("save", "path", "be in a folder that exists", repr(str(path)))
        to_file(path, self)

    @classmethod
    def load(cls, path: str | Path) -> Draws:
        """Read what `save` wrote, or the store that a run with ``storage=`` made.

        Parameters
        ----------
        path : str or Path
            The name of the file, ".npz", or of the store, ".zarr". From a store,
            `reduced` and `timings` are not read.

        Returns
        -------
        Draws

        Raises
        ------
        ValueError
            If `path` is neither, or if a part of it is missing, damaged, or from another
            store or time; the message names it. Draws in a store are read when they are
            used; damage found only then raises an OSError.
        """
        path = _path(path, "load", ".npz", ".zarr")
        must, got = "be what save or storage= made", repr(str(path))
        if not path.exists():
            raise refused("load", "path", must, f"{got}, which does not exist")
        try:
            return cls(**(from_store(path) if path.suffix == ".zarr" else from_file(path)))
        except ImportError:
            raise
        except Exception as error:
            raise refused("load", "path", must, f"{got} ({reason(error)})") from error

    def __str__(self) -> str:
        from sgmcmc.draws.printing import draws_as_text

        return draws_as_text(self)

    def _repr_html_(self) -> str:
        from sgmcmc.draws.printing import draws_as_html

        return draws_as_html(self)

    def __repr__(self) -> str:
        shapes = ", ".join(f"{name} {tuple(array.shape)}" for name, array in self.items()) or "none stored"
        reduced = f"; reduced {', '.join(self.reduced)}" if self.reduced else ""
        return f"<draws of {self.settings['sampler']}, seed {self.seed}: {shapes}{reduced}>"


def _remade(arrays: Tree, attributes: Mapping[str, Any]) -> Draws:
    """Rebuild draws from `__reduce__`, for pickle and copy."""
    draws = Draws.__new__(Draws)
    dict.update(draws, arrays)
    vars(draws).update(attributes)
    return draws


def _path(path: str | Path, function: str, *endings: str) -> Path:
    if not isinstance(path, str | Path) or Path(path).suffix not in endings:
        wanted = " or ".join(map(repr, endings))
        raise refused(function, "path", f"be a file name that ends in {wanted}", repr(path))
    return Path(path).expanduser()


def sufficient_size(n: int, best: int) -> int | None:
    """A minibatch size as efficient as n, if n is much larger; `best` minimises the cost of a draw."""
    enough = max(best, ENOUGH)
    return enough if n > LARGE * enough else None


def advice(settings: Mapping[str, Any]) -> list[str]:
    """More efficient settings to try, for runs with ``stepsize="auto"``."""
    expected = settings.get("expected") or {}
    gains, best, n = expected.get("gains", {}), expected.get("minibatchSize"), settings.get("minibatchSize")
    sentences = []
    if settings.get("subsampling") == "uniform" and (gain := gains.get("preferential", 0.0)) > WORTH:
        sentences.append(f"subsampling=preferential() would make a draw cost {gain:.1f} times fewer gradients.")
    if isinstance(n, int) and best is not None:
        if (enough := sufficient_size(n, best)) is not None:
            sentences.append(f"More than minibatchSize={enough} observations hardly make a draw cheaper.")
        elif best > n:
            sentences.append(f"Up to minibatchSize={best} a draw takes fewer iterations, almost in proportion.")
    if (gain := gains.get("momentum", 0.0)) > WORTH:
        sentences.append(f"Momentum, such as sghmc with L=20, would make a draw cost {gain:.1f} times fewer gradients.")
    if (gain := gains.get("noMomentum", 0.0)) > WORTH:
        sentences.append(f"Without momentum, as in sgld, a draw would cost {gain:.1f} times fewer gradients.")
    return sentences
