"""The text of every argument of the public functions, of their results and of their errors, each once."""

from __future__ import annotations

import inspect
import re

TEXTS: dict[str, tuple[str, str]] = {
    "logLik": (
        "callable",
        """The log likelihood, ``logLik(params, dataset)``, in TensorFlow operations. Both arguments are dicts with the
names given here: `params` holds tensors of the shapes given, `dataset` a minibatch of n observations, [n, ...]. It
returns the sum over these observations, a scalar, or the vector of the n terms. If it fetches rows of a parameter by
``tf.gather`` with indices from the dataset, `sgld` and `sgldcv` move only these rows, so that an iteration costs little
however many rows there are (unless `logPrior` uses the whole parameter).""",
    ),
    "dataset": (
        "dict of str to array_like, a table, or an object",
        """The data: NumPy arrays, lists, pandas Series and DataFrames or tensors of any rank, with the N observations
on the first axis. All numbers become `dtype`, except entries named in `integers`. A table is the dict of its columns:
a pandas DataFrame, an Arrow table, or the path of a Parquet file, which is read into memory. A column of categories
becomes integer codes; what they stand for is in ``out.settings["levels"]``. There is a warning if a column loses
the differences between its observations through this, such as times in seconds since 1970. Memory-mapped arrays
(``np.load(path, mmap_mode="r")``), Zarr arrays and HDF5 datasets stay on disk: rows are read when they are needed, and
checked for NaN and infinite numbers then. The same holds for an object of your own with ``__len__()``, the number of
observations, and ``take(indices)``, which returns those at an int64 array of indices, in this order, as a dict of
arrays. Several of these in different places are `shards`.""",
    ),
    "params": (
        "dict of str to array_like, or None",
        """Where the chain starts, or the search for the mode if there is one: for each parameter, a number or an
array of any rank. None if `logPrior` is a joint distribution: then the elementwise median of a few draws from it, on
the scale that the chain moves.""",
    ),
    "stepsize": (
        'float, schedule, or dict of str to either, default "auto"',
        """The variance eps of the noise injected by one SGLD update, ``theta + eps/2 * gradient + N(0, eps)``, on the
scale of `params`, or relative to the `preconditioner`; for the samplers with momentum, the variance of the momentum. A
number or schedule (see `polynomial`) holds for all parameters, a dict gives one for each (with a dense preconditioner,
for its coordinates of the same index). "auto" finds the largest stepsize at which every standard deviation is expected
to be within `tolerance` of the posterior's, by the curvature at the mode and the noise of the gradients around it. The
result and what is expected of it are in ``out.settings``. It knows one mode: others, and tails far from normal, are not
seen before the run, and a chain that starts at this mode may never show the others. Chains from several `starts` do, if
they end elsewhere, and there is a warning. For more than 2000 elements of `params` the posterior must be a single peak,
and what is promised are the standard deviations of the elements, and of the directions that the `preconditioner` knows.
For at most 100,000 elements of a regular posterior; for networks see `checkTemperature`, also `tune`.""",
    ),
    "preconditioner": (
        '"auto", "dense", "diagonal", "lowRank", None, array_like or dict of str to array_like, default "auto"',
        """A matrix M over all elements of `params`, in order of name, in whose coordinates the chain moves: for SGLD
``theta + eps/2 * M gradient + N(0, eps M)``, and likewise the momentum. The stepsize is then relative to M. "dense" is
the inverse of the curvature at the mode, of at most 2000 elements, "diagonal" the inverse of its diagonal (by squared
gradients of observations, for more than 2000). "lowRank" is the inverse of the diagonal with some directions along
which the curvature is far from it, for thousands of elements. For these three the run searches for the mode, and the
chain starts there. An array is M itself; a dict has for each parameter its diagonal, in the parameter's shape, or a
matrix. With all of these each iteration moves all rows of a parameter. "auto" is "dense" if the stepsize is "auto"
("diagonal" for more than 500 elements, "lowRank" for more than 2000), else None.""",
    ),
    "tolerance": (
        "float, default 0.05",
        """For ``stepsize="auto"``: the largest allowed relative error of a standard deviation, from 0.001 to 1.""",
    ),
    "target": (
        '{"posterior", "sandwich"}, default "posterior"',
        """The distribution of the draws. "sandwich" has the mean of the posterior and the covariance ``J^-1 I J^-1``,
with J minus the Hessian of the log posterior at the mode and I the sum of ``s s^T`` over the gradients s of the
observations' terms there. If the model is not quite right, its intervals cover as they say (with the standard errors
called robust, or HC0), which those of the posterior do not. What ``out.settings["expected"]`` tells is then of it. It
needs the stepsize "auto", a dense preconditioner and independent observations.""",
    ),
    "temperature": (
        "float, default 1.0",
        """T of the tempered posterior, posterior^(1/T), that the chain samples. `logLik` and `logPrior` are divided by
T in the gradients, in the search for the mode and in the recorded log posterior. Below 1 the distribution is narrower,
above 1 wider. Where others write N(0, T eps) for the noise of a step, their eps is our stepsize divided by T.""",
    ),
    "gibbs": (
        "callable, optional",
        """Your own step after each iteration, in the compiled loop:
``gibbs(params, dataset, seed)`` returns new values for some of `params`, a dict of tensors, in TensorFlow operations.
No gradient moves the parameters that it returns. `dataset` is the minibatch of the iteration, so a distribution given
all observations cannot be computed from it. `seed` is a pair of
integers, from the seed of the run, for draws by ``tf.random.stateless_normal`` and similar functions, or by
``tfp.distributions.Gamma(a, b).sample(seed=seed)``. A draw from the distribution of these parameters given the others
leaves the posterior unchanged. The kicks of `baoab` and `badodab` extend over this step, so its changes act as noise
of the gradient: there the stepsize must be small relative to the variances given the other parameters.""",
    ),
    "transforms": (
        "dict of str to str, interval, bijector or object, optional",
        """For parameters that are not any real numbers, what they are: ``{"sd": "positive"}``. The words are
"positive", "unit" (between 0 and 1), "simplex" (positive, with the sum 1 over the last axis), "ordered" (increasing
over the last axis) and "corr_cholesky" (the Cholesky factor of a correlation matrix); ``interval(low, high)`` are the
numbers between two others. Any bijector of TensorFlow Probability is possible, or an object of your own with the
methods ``forward(u)``, ``inverse(theta)`` and ``forward_log_det_jacobian(u)``, whose elements are summed. `params`,
`starts`, `logLik`, `logPrior`, `collect`, `reduce`, `gibbs`, the draws and sessions have the parameter theta. The chain
moves u = inverse(theta), any real numbers: with the logarithm of the Jacobian's determinant added to `logPrior`, the
draws have the density that `logPrior` and `logLik` say. The stepsize, the `preconditioner`, a number as `starts`, the
mode that is found and what "auto" expects are those of u. A `temperature` is for the density of theta. A parameter with
a transform moves as a whole, not only the rows that a minibatch fetches.""",
    ),
    "covariance": (
        '{"diag", "full"}, default "diag"',
        """What is estimated of the covariance of the gradient's noise: "diag", the variances of the elements, or
"full", the whole matrix of each parameter, which may have at most 1000 elements.""",
    ),
    "barker.covariance": (
        '"diag", optional',
        """Whether the probability is corrected for the noise of the gradient, by an estimate of the variance of each
element. By default it is not.""",
    ),
    "sgzigzag.stepsize": (
        'float, schedule, or dict of str to either, default "auto"',
        """The square of the length h of a step, on the scale of `params`, or relative to the `preconditioner`: a
number, a schedule such as ``polynomial(h, a, b)``, or a dict with one for each parameter. "auto" finds the largest that
keeps the standard deviations within `tolerance`, as for `sgld`, with h at most 0.6 posterior standard deviations.""",
    ),
    "inclusion": (
        "dict of str to float or array_like, optional",
        """For some of `params`, the prior probability that an element is not 0: a number for all of its elements or an
array for each. `logPrior` is then the log density of those that are not 0, which must be independent. The stepsize must
be given, without a preconditioner.""",
    ),
    "betaHat": (
        '{"zero", "fisher"}, default "zero"',
        """What is subtracted from `alpha` in the variance of the injected noise: nothing, or ``stepsize/2`` times the
variance of the gradient's noise, estimated in each minibatch from its observations' gradients, but at most `alpha`.""",
    ),
    "beta": (
        "float, default 0.99",
        """The factor of the old mean square of the gradients in its update, from 0 to below 1.""",
    ),
    "delta": (
        "float, default 1e-5",
        """A positive number added to the root of the mean square of gradient/N, so that no step becomes too large.""",
    ),
    "adapt": (
        "int, optional",
        """The number of iterations after which G stays constant. By default it always adapts.""",
    ),
    "ccadl.stepsize": (
        'float, schedule, dict of str to either, or "auto"',
        """The variance eps of the momentum, on the scale of `params`, or relative to the `preconditioner`: a number, a
schedule such as ``polynomial(h, a, b)``, or a dict with one for each parameter. "auto" finds it, as for `sgnht`. It
needs an estimate of all of the noise: ``covariance="full"`` and `params` of one array.""",
    ),
    "samadams.stepsize": (
        "float, schedule or dict",
        """The square of the time step where psi is 1: a number, a schedule such as ``polynomial(h, a, b)``, or a dict
with one for each parameter, on the scale of `params`, or relative to the `preconditioner`.""",
    ),
    "samadams.alpha": (
        "float or dict of str to float, default 0.1",
        """The friction, between 0 and 1: the fraction of the momentum that is lost in a step of psi = 1. One number
for all parameters or a dict with one for each.""",
    ),
    "samadams.beta": ("float, default 0.9", """The weight of the old zeta in its moving average, from 0 to below 1."""),
    "m": ("float, default 0.1", """The smallest psi, at most 1."""),
    "M": ("float, default 10.0", """The largest psi, at least 1. If m M = 1, psi is 1 where zeta is 1."""),
    "r": ("float, default 0.25", """The power of zeta, positive: how strongly psi depends on it."""),
    "s": ("float, default 2.0", """The power of the norm, positive."""),
    "scale": (
        "float, optional",
        """The norm of the gradient at which zeta is 1. By default the geometric mean of the norms of all iterations so
far.""",
    ),
    "train.stepsize": (
        "float, schedule, or dict of str to either, default 1e-3",
        """Adam's learning rate, on the scale of `params`. A number is the largest: it falls to 0 as half a cosine. A
schedule such as ``polynomial(h, a, b)`` is followed as it is, also in a dict with one for each parameter.""",
    ),
    "train.nIters": ("int, default 10**4", """Number of minibatches."""),
    "psgld.stepsize": (
        "float, schedule or dict",
        """The stepsize relative to G, in units of the squared parameters times the gradient of a single
observation: a number, a schedule such as ``polynomial(h, a, b)``, or a dict with one for each parameter.""",
    ),
    "baoab.alpha": (
        "float or dict of str to float, default 0.1",
        """The friction, in (0, 1]: the fraction of the momentum that is lost in each iteration. One number for all
parameters or a dict with one for each.""",
    ),
    "ubu.alpha": (
        "float or dict of str to float, default 0.1",
        """The friction, between 0 and 1: the fraction of the momentum that is lost in each iteration. One number for
all parameters or a dict with one for each.""",
    ),
    "badodab.a": (
        "float or dict of str to float, default 0.1",
        """The diffusion factor, positive: while the thermostat is small the injected noise has variance
``2 a stepsize``, and the thermostat starts at `a`. One number for all parameters or a dict with one for each.""",
    ),
    "optStepsize": (
        'float or "auto", default "auto"',
        """The stepsize of the search for the mode: the factor of the gradient of the log posterior, summed over all N,
in ``theta + optStepsize * gradient``; with ``optimizer="adam"``, Adam's learning rate on the scale of `params`. "auto"
is a search without a stepsize: SciPy's trust-region method in whitened coordinates, on more and more observations.""",
    ),
    "logPrior": (
        "callable or joint distribution, optional",
        """The log prior density, ``logPrior(params)``, a scalar; or a joint distribution of TensorFlow Probability over
the names of `params`. The log densities of its parts are then summed over their elements, and its default bijectors are
the `transforms` where none is given. The default is the improper uniform prior.""",
    ),
    "minibatchSize": (
        'int, float, "auto" or adaptive, default 0.01',
        """Observations per gradient: a number from 1 to N, or a proportion of N in (0, 1). With the stepsize "auto" it
may be "auto" too: the number with which an independent draw is expected to cost least, if an iteration costs as much as
the gradients of 20 observations more than its minibatch has, or of still more where each observation fetches few rows
of many. With control variates around the mode it may be ``adaptive()``.""",
    ),
    "alpha": (
        "float or dict of str to float, default 0.01",
        """The friction, in (0, 1]: the fraction of the momentum that is lost at each leap. One number for all
parameters or a dict with one for each.""",
    ),
    "L": (
        "int, default 5",
        """Number of leaps per iteration, each with its own minibatch. At least 2: the next iteration replaces the
momentum, and with it the change of the last leap.""",
    ),
    "a": (
        "float or dict of str to float, default 0.01",
        """The diffusion factor, in (0, 0.5), best at 0.02 or less: the injected noise has variance ``2 a stepsize``,
and the thermostat starts at `a`. However small the stepsize, the variance of the chain is too small by about the factor
``1 - a/2``; above 0.1 there is a warning. One number for all parameters or a dict with one for each.""",
    ),
    "nIters": (
        'int or "auto", default 10**4',
        """Number of iterations. Every draw is stored, unless `burnIn`, `thin`, `collect` or `reduce` say otherwise.
With "auto" the run goes on until its draws are worth what `ess` or `mcse` says and its chains agree: the
rank-normalised R-hat of every element is below 1.01. It has four chains unless `nChains` says otherwise. R-hat sees
only places where a chain has been, so give different `starts` where there may be several modes. The number is then in
``out.settings["nIters"]``; given by hand, it gives the same draws.""",
    ),
    "ess": (
        "float, optional",
        """For ``nIters="auto"``: how many effective draws of the bulk and of the tails every element shall have, of all
chains together. By default 1000.""",
    ),
    "mcse": (
        "float, optional",
        """For ``nIters="auto"``, in place of `ess`: the Monte Carlo standard error that the mean of every element may
have, in its posterior standard deviations. 0.05 is worth 400 effective draws.""",
    ),
    "maxIters": (
        "int, optional",
        """For ``nIters="auto"``: the iterations after which the run ends in any case, with a warning that says what is
missing. By default 20 times what is expected for these draws, or for 400 if that is more, with the stepsize
"auto", else 10**6.""",
    ),
    "maxSeconds": (
        "float, optional",
        """For ``nIters="auto"``: the seconds after the call after which no further iterations begin. Which draws there
are then depends on the machine; they are the first of those of a longer run.""",
    ),
    "nItersOpt": (
        "int, default 10**4",
        """Number of minibatches in the search for the mode, unless that is automatic. 0 takes `params` as the mode.""",
    ),
    "verbose": (
        "bool, default True",
        """Show a progress bar with the current estimate of the log posterior. It does not change the draws.""",
    ),
    "seed": (
        "int, optional",
        """From 0 to 2**64 - 1. The same seed gives the same chain; without one, a fresh seed is drawn.""",
    ),
    "subsampling": (
        '{"uniform", "withReplacement", "reshuffled", "symmetric"}, preferential, array_like or callable, default '
        '"uniform"',
        """How minibatches are drawn: "uniform" without replacement, "withReplacement" uniformly with replacement,
"reshuffled" as the parts of a fresh random permutation of the data in every epoch of N // n minibatches (the N % n
observations left over are not used in that epoch), "symmetric" as these parts forwards and then backwards, with a fresh
permutation after both. An array of N positive weights draws with replacement in proportion
to them, and divides each term of the gradient by n times its probability; ``preferential()`` computes such weights at
the mode. A function of your own gets N and n and returns a `Minibatch`.""",
    ),
    "integers": (
        "sequence of str, optional",
        """Entries of `dataset` that keep an integer type (int32, or int64 for 64-bit and uint32 input), as indices
that count from 0. An index out of range for what `logLik` gathers is an error.""",
    ),
    "dtype": ('{"float32", "float64"}, default "float32"', """The type of parameters, data, arithmetic and draws."""),
    "nChains": (
        "int or range, optional",
        """How many chains to run side by side, each with its own minibatches and noise. The search for the mode runs
once for all. Chain c is the same for every `nChains`, to rounding. ``range(8, 12)`` runs the chains 8 to 11 of a larger
run, such as in a task of an array job; `Draws.concat` joins the results. The default is a single chain without a chain
axis.""",
    ),
    "starts": (
        "float, list of dict, or dict of str to array_like, optional",
        """Where the chains begin. By default all begin at `params`, or at the mode if the run searches for it. A
number adds normal noise with this standard deviation to that position for each chain. A list has a dict such as
`params` for each chain, as `train` returns; `nChains` need not be given with it. A dict gives the positions of all,
(nChains, *shape) for each parameter.""",
    ),
    "sharedMinibatch": (
        "bool, default False",
        """Whether all chains use the same minibatch in each iteration, which is faster if fetching the data takes
most of the time. The distribution of each chain is the same, but the chains are dependent: averages over them are less
precise than over independent chains, and R-hat and effective sample sizes, which assume independence, are too
optimistic.""",
    ),
    "thin": (
        'int or "auto", default "auto"',
        """Store the last of every `thin` iterations. "auto" is 1, but with ``nIters="auto"`` and the stepsize "auto" a
quarter of the iterations that are expected for an independent draw, which loses about 2% of what they tell.""",
    ),
    "burnIn": (
        "int, default 0",
        """Number of iterations at the beginning that are not stored. They count in `nIters`.""",
    ),
    "collect": (
        "callable, optional",
        """What is stored in place of the parameters: a function of `params`, or of `params` and the whole `dataset`,
in TensorFlow operations, that returns a dict of tensors. The compiled loop evaluates it for the draws that are
stored. To store the parameters too, return them with the rest: ``{**params, "logLoss": ...}``. Other data that it uses
should be tensors made before (``tf.constant``), not arrays, which would become part of the program.""",
    ),
    "reduce": (
        "Reducer or dict of str to Reducer, optional",
        """Sums over the draws in constant memory, such as `runningMean()`; their results are in ``out.reduced`` under
the names given, or "draws" for a single one. Then no draws and no statistics of them are stored, with two exceptions:
with `collect`, its results are reduced and stored; with ``gradients=True``, the draws and the gradients at them are
stored too. Given `nChains`, there is one result for each chain.""",
    ),
    "gradients": (
        "bool, default False",
        """Also store an estimate of the gradient of the log posterior at every draw, each from its own minibatch, as
``out.gradients``. This takes up to twice the time. Rows of a parameter that the minibatch does not fetch have
zeros.""",
    ),
    "storage": (
        "str or Path, optional",
        """The path of a new Zarr store, "name.zarr". The run writes the draws to it in place of memory.
ArviZ and xarray can read it at any time, and ``Draws.load`` later. If the run is killed, only the last seconds
are lost (a failing machine may lose more).""",
    ),
    "resume": (
        "bool, default False",
        """Continue the run in `storage`, up to `nIters` iterations in all. The draws are the same as without the stop.
If there is no store, begin one. All other arguments must be the same as before; without a `seed`, the seed of the first
run is used.""",
    ),
    "executor": (
        "concurrent.futures.Executor or an object like it, optional",
        """Whose workers run the chains, in groups: an object whose ``submit(function, *arguments)`` returns a future,
such as ``ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn"))`` or Dask's ``client.get_executor()``. It
comes with `nChains`, and is not shut down. What comes before the chains, such as the search for the mode, is done once;
passes over more than 256 MB of data are shared out.""",
    ),
    "chainsPerJob": (
        "int, optional",
        """How many chains a job of `executor` has. By default at least 2, so that there is a job for each worker. The
draws depend on it only by rounding.""",
    ),
    "gradient": (
        "controlVariates, saga, svrg or callable, optional",
        """How the gradient of the log posterior is estimated: by default the plain estimate from the minibatch;
``controlVariates()`` around the mode, as in `sgldcv`; ``svrg()`` around an earlier position of the chain; ``saga()`` by
a table of the last gradient of each observation; or an estimator of your own, a function from the model to a
`Gradient`.""",
    ),
    "dynamics": (
        "Dynamics or dict of str to Dynamics, optional",
        """The update rule, given the estimated gradient: one for all parameters, or a dict with one for each.""",
    ),
    "transition": (
        "callable, optional",
        """In place of `dynamics`: a function from the model to a `Transition`, which is all of an iteration. `logLik`
may then be None, and `stepsize` must be given.""",
    ),
    "optimizer": (
        '{"sgd", "adam"}, default "sgd"',
        """The method of the search for the mode: gradient ascent with constant stepsize, as in R, or Adam.""",
    ),
}

SIMPLEX = {
    "suffStats": (
        "callable",
        """The counts of categories in a minibatch, ``suffStats(params, dataset)``, in TensorFlow operations: a dict
with an array of the shape of each parameter, at least 0, summed over the observations in `dataset`, a dict of
[n, ...]. The result is multiplied by N/n. Latent categories can be drawn with a third argument,
``suffStats(params, dataset, seed)``: two integers for ``tf.random.stateless_categorical`` and similar functions.""",
    ),
    "params": (
        "dict of str to array_like",
        """Where the chain starts. Each parameter has probabilities that sum to 1 over the last axis, that of the
categories. Other axes, such as one for topics, come before it. With ``normalise=False``, positive numbers.""",
    ),
    "stepsize": (
        "float, schedule, or dict of str to either",
        """The time h of an iteration, without a unit: after a time of 1 the fraction exp(-1) of the start is left in
the mean. A number or schedule (see `polynomial`) for all parameters, or a dict with one for each.""",
    ),
    "alpha": (
        "float, array_like or dict of str to either",
        """The parameters of the Dirichlet prior, positive: a number, an array that broadcasts to the parameter's shape,
or a dict with one for each parameter. With ``normalise=False``, the shapes of Gamma priors with rate 1.""",
    ),
    "minibatchSize": (
        "int or float, default 0.01",
        """Observations in each minibatch: a number from 1 to N, or a proportion of N in (0, 1).""",
    ),
    "subsampling": (
        '{"uniform", "withReplacement", "reshuffled", "symmetric"}, default "uniform"',
        """How minibatches are drawn: "uniform" without replacement, "withReplacement" uniformly with replacement,
"reshuffled" as the parts of a fresh random permutation of the data in every epoch of N // n minibatches, or "symmetric"
as these parts forwards and then backwards.""",
    ),
    "starts": (
        "list of dict, or dict of str to array_like, optional",
        """Where the chains begin, if not all at `params`: a dict such as `params` for each, or (nChains, *shape) for
each parameter.""",
    ),
    "dtype": (
        '{"float32", "float64"}, default "float32"',
        """The type of parameters, data, arithmetic and draws. float32 holds probabilities down to 1e-38, float64 down
to 1e-308; smaller ones become 0, which does the chain no harm. See `logScale`.""",
    ),
    "normalise": (
        "bool, default True",
        """Whether the parameters are probabilities, with target Dirichlet(alpha + counts of all data). Otherwise they
are positive numbers, each with target Gamma(alpha + counts of all data, 1).""",
    ),
    "logScale": (
        "bool, default False",
        """Whether the draws, ``sampler.params`` and the inputs of `suffStats`, `collect` and `reduce` are logarithms.
`params` and `starts` are given as probabilities in any case. Logarithms cannot underflow.""",
    ),
}
TEXTS["suffStats"], TEXTS["normalise"], TEXTS["logScale"] = (
    SIMPLEX.pop(k) for k in ("suffStats", "normalise", "logScale")
)
TEXTS |= {f"{sampler}.{argument}": text for sampler in ("scir", "sgrld") for argument, text in SIMPLEX.items()}

DRAWS = """Draws
    A dict with the draws of each parameter, an array of type `dtype` and shape (T, *shape), or (nChains, T, *shape)
    given `nChains`, with T = (nIters - burnIn) // thin draws; fewer if interrupted. It also has the seed, the log
    posterior estimates and the timings, and the methods `summary` and `toArviz`."""
SAMPLER = """Sgmcmc
    The sampler, for `initSess`, `sgmcmcStep` and `getParams`. It has R's fields: `params`, `N`, `data`, `n`,
    `stepsize`, `estLogPost`, the method's settings, and with control variates `paramsOpt` and `logPostOptGrad`."""
INVALID = """ValueError
    If an argument is invalid; the message names it, what it got and what would work."""
RUN_ERRORS = f"""{INVALID}
MemoryError
    If the draws would need more memory than is free; raised before anything runs.
DivergenceError
    If the chain reaches NaN or infinity; the error has the draws so far.
ModeSearchError
    If the search for the mode with control variates reaches NaN or infinity."""

CONTROL_VARIATES = """The gradient of the log posterior is estimated with control variates: a search finds the mode,
one pass over all data gives the exact gradient there, and minibatches then estimate only the difference between the
gradients at the current position and at the mode (Baker et al., eq. 4). The chain starts at the mode, unless `starts`
says otherwise."""

EXAMPLE = """The posterior of the mean of normal observations:

>>> import numpy as np
>>> import tensorflow as tf
>>> from sgmcmc import {imports}
>>> dataset = {{"x": np.random.default_rng(0).normal(3.0, 1.0, size=1000)}}
>>> params = {{"theta": 0.0}}
>>> def logLik(params, dataset):
...     return -0.5 * tf.reduce_sum((dataset["x"] - params["theta"]) ** 2)
{rest}"""
ONE_CALL = """>>> out = {name}(
...     logLik, dataset, params, stepsize=1e-5{search}, minibatchSize=100, nIters=4000, verbose=False, seed=1
... )
>>> out["theta"].shape
(4000,)
>>> bool(abs(out["theta"][2000:].mean() - 3.0) < 0.1)
True"""
STEPWISE = """>>> sampler = {name}(logLik, dataset, params, stepsize=1e-5{search}, minibatchSize=100, seed=1)
>>> sess = initSess(sampler, verbose=False)
>>> for _ in range(10):
...     sgmcmcStep(sampler, sess, nSteps=200)
>>> bool(abs(getParams(sampler, sess)["theta"] - 3.0) < 0.5)
True"""


SECTIONS = ("Parameters", "Returns", "Raises", "See Also", "References", "Examples")


def completed(document: str, name: str, signature: inspect.Signature) -> str:
    """The docstring of a public function with the sections that it lacks, of one-call and Setup functions."""
    text, *own = re.split(r"^([A-Z][A-Za-z ]+)\n-{3,}\n", inspect.cleandoc(document), flags=re.MULTILINE)
    is_run = "nIters" in signature.parameters
    other = (
        f"{name}Setup : The same, step by step." if is_run else f"{name.removesuffix('Setup')} : The same in one call."
    )
    sections = {
        "Parameters": "\n".join(_entry(*_text(name, argument), argument) for argument in signature.parameters),
        "Returns": DRAWS if is_run else SAMPLER,
        "Raises": RUN_ERRORS if is_run else INVALID,
        "See Also": other,
        "Examples": _example(name, signature),
    } | dict(zip(own[::2], own[1::2], strict=True))
    titled = [f"{title}\n{'-' * len(title)}\n{sections[title].strip()}" for title in SECTIONS if title in sections]
    return "\n\n".join([text.strip().replace("{control variates}", CONTROL_VARIATES), *titled, ""])


def _example(name: str, signature: inspect.Signature) -> str:
    """The example: a small run, or a small loop for a Setup function."""
    search = ", optStepsize=1e-4" if "optStepsize" in signature.parameters else ""
    one_call = "nIters" in signature.parameters
    imports = name if one_call else ", ".join(("getParams", "initSess", name, "sgmcmcStep"))
    rest = (ONE_CALL if one_call else STEPWISE).format(name=name, search=search)
    return EXAMPLE.format(imports=imports, rest=rest)


def _text(name: str, argument: str) -> tuple[str, str]:
    """The text of an argument: the sampler's own, or else the common one."""
    return TEXTS.get(f"{name.removesuffix('Setup')}.{argument}", TEXTS[argument])


def _entry(kind: str, text: str, name: str) -> str:
    return "\n".join([f"{name} : {kind}", *(f"    {line}" for line in text.splitlines())])
