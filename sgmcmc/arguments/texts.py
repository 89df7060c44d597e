"""The help texts of arguments, results and errors that the public functions share, each written once."""

from __future__ import annotations

import inspect
import re

# The type of each argument, and from the second line on its description; "sampler.argument" is of one sampler.
TEXTS = {
    "logLik": """callable
The log likelihood, ``logLik(params, dataset)``, in TensorFlow operations. Both arguments are dicts with the
names given here: `params` holds tensors of the shapes given, `dataset` a minibatch of n observations, [n, ...]. It
returns the sum over these observations, a scalar, or the vector of the n terms. If it gathers rows of a parameter by
``tf.gather`` with indices from the dataset, `sgld` and `sgldcv` move only these rows, so that the cost of an iteration
does not grow with the number of rows (unless `logPrior` uses the whole parameter).""",
    "dataset": """dict of str to array_like, a table, or an object
The data: NumPy arrays, lists, pandas Series and DataFrames or tensors of any rank, with the N observations
on the first axis. All numbers are converted to `dtype`, except entries named in `integers`; a warning is given if a
column, such as times in seconds since 1970, loses the differences between its observations. A table is a dict of its
columns: a pandas DataFrame, an Arrow table, or the path of a Parquet file, which is read into memory. A categorical
column becomes integer codes, and ``out.settings["levels"]`` holds their labels. Memory-mapped arrays
(``np.load(path, mmap_mode="r")``), Zarr arrays and HDF5 datasets stay on disk: rows are read, and checked for NaN and
infinite values, when they are needed. So are those of an object of your own with ``__len__()``, the number of
observations, and ``take(indices)``, which returns the observations at an int64 array of indices, in this order, as a
dict of arrays. Use `shards` to combine several of these.""",
    "params": """dict of str to array_like, or None
Where the chain starts, or the search for the mode if there is one: for each parameter, a number or an array
of any rank. If `logPrior` is a joint distribution, it may be None; the start is then the elementwise median of a few
prior draws, on the unconstrained scale.""",
    "stepsize": """float, schedule, or dict of str to either, default "auto"
The variance eps of the noise injected by one SGLD update, ``theta + eps/2 * gradient + N(0, eps)``, on the
scale of `params`, or relative to the `preconditioner`; for samplers with momentum, the variance of the momentum. A
number or schedule (see `polynomial`) applies to all parameters; a dict gives one for each (with a dense
preconditioner, for the coordinates of the same index). "auto" finds the largest stepsize at which every standard
deviation is expected to be within `tolerance` of the posterior's, from the curvature at the mode and the gradient
noise around it. ``out.settings`` holds the result and the expected accuracy. "auto" is based on a single mode: it does
not see other modes, or tails far from normal, and a chain started at this mode may never visit the others. Chains from
several `starts` reveal them by ending in different places, which raises a warning. With more than 2000 elements of
`params` the posterior must have a single peak, and the tolerance applies to the standard deviations of the elements
and of the directions that the `preconditioner` knows. "auto" handles up to 100,000 elements of a regular posterior;
for networks see `checkTemperature` and `tune`.""",
    "preconditioner": """"auto", "dense", "diagonal", "lowRank", None, array_like or dict of str to array_like, \
default "auto"
A matrix M over all elements of `params`, in order of name, in whose coordinates the chain moves: for SGLD
``theta + eps/2 * M gradient + N(0, eps M)``, and likewise for the momentum. The stepsize is then relative to M.
"dense" is the inverse of the curvature at the mode, for at most 2000 elements; "diagonal" the inverse of its diagonal
(estimated from squared gradients of observations beyond 2000 elements). "lowRank", for thousands of elements, is the
inverse of the diagonal, corrected along a few directions where the curvature is far from it. With these three the run
searches for the mode, and the chain starts there. An array is M itself; a dict holds for each parameter its diagonal,
in the parameter's shape, or a matrix. With any preconditioner each iteration moves all rows of a parameter. "auto" is
"dense" if the stepsize is "auto" ("diagonal" for more than 500 elements, "lowRank" for more than 2000), and None
otherwise.""",
    "tolerance": """float, default 0.05
For ``stepsize="auto"``: the largest allowed relative error of a standard deviation, from 0.001 to 1.""",
    "target": """{"posterior", "sandwich"}, default "posterior"
The distribution of the draws. "sandwich" has the mean of the posterior and the covariance ``J^-1 I J^-1``,
where J is minus the Hessian of the log posterior at the mode and I the sum of ``s s^T`` over the gradients s of the
observations' terms there. If the model is misspecified, its intervals have their nominal coverage (from standard
errors called robust, or HC0), unlike the posterior's. ``out.settings["expected"]`` then refers to this distribution.
It requires the stepsize "auto", a dense preconditioner and independent observations.""",
    "temperature": """float, default 1.0
The temperature T of the tempered posterior, posterior^(1/T), that the chain samples. `logLik` and
`logPrior` are divided by T in the gradients, in the search for the mode and in the recorded log posterior. T below 1
makes the distribution narrower, above 1 wider. Where others write N(0, T eps) for the noise of a step, their eps is
our stepsize divided by T.""",
    "gibbs": """callable, optional
Your own step after each iteration, in the compiled loop: ``gibbs(params, dataset, seed)`` returns new
values of some of `params`, as a dict of tensors, in TensorFlow operations. The gradient does not move these
parameters. `dataset` is the minibatch of the iteration, so the step cannot draw from a distribution that depends on
all observations. `seed` is a pair of integers derived from the seed of the run, for ``tf.random.stateless_normal`` and
similar functions, or for ``tfp.distributions.Gamma(a, b).sample(seed=seed)``. A draw of these parameters from their
full conditional distribution leaves the posterior invariant. The kicks of `baoab` and `badodab` extend over this step,
so its changes act as gradient noise: there the stepsize must be small relative to the conditional variances.""",
    "transforms": """dict of str to str, interval, bijector or object, optional
Constraints on parameters: ``{"sd": "positive"}``. They can be "positive", "unit" (between 0 and 1),
"simplex" (positive, with sum 1 over the last axis), "ordered" (increasing over the last axis), "corr_cholesky" (the
Cholesky factor of a correlation matrix), or ``interval(low, high)``. A value can also be a bijector of TensorFlow
Probability, or an object of your own with the methods ``forward(u)``, ``inverse(theta)`` and
``forward_log_det_jacobian(u)``, whose elements are summed. `params`, `starts`, `logLik`, `logPrior`, `collect`,
`reduce`, `gibbs`, the draws and sessions use the constrained parameter theta. The chain moves the unconstrained u =
inverse(theta); the log Jacobian determinant is added to `logPrior`, so the draws have the density given by `logPrior`
and `logLik`. The stepsize, the `preconditioner`, a number as `starts`, the mode and the expectations of "auto" refer
to u. A `temperature` applies to the density of theta. A parameter with a transform moves as a whole, not only the rows
that a minibatch gathers.""",
    "covariance": """{"diag", "full"}, default "diag"
The estimate of the covariance of the gradient noise: "diag", the variances of the elements, or "full", the
whole matrix of each parameter, which may have at most 1000 elements.""",
    "barker.covariance": """"diag", optional
Whether to correct the probability for the gradient noise, by an estimate of the variance of each
element. By default it is not corrected.""",
    "sgzigzag.stepsize": """float, schedule, or dict of str to either, default "auto"
The square of the length h of a step, on the scale of `params`, or relative to the `preconditioner`: a
number, a schedule such as ``polynomial(h, a, b)``, or a dict with one for each parameter. "auto" finds the largest
stepsize that keeps the standard deviations within `tolerance`, as for `sgld`, with h at most 0.6 posterior standard
deviations.""",
    "inclusion": """dict of str to float or array_like, optional
For some of `params`, the prior probability that an element is not 0: a number for all elements, or an array
with one for each. `logPrior` is then the log density of the elements that are not 0, which must be independent. The
stepsize must be given, without a preconditioner.""",
    "betaHat": """{"zero", "fisher"}, default "zero"
What is subtracted from `alpha` in the variance of the injected noise: nothing, or ``stepsize/2`` times the
variance of the gradient noise, estimated in each minibatch from the gradients of its observations and capped at
`alpha`.""",
    "beta": """float, default 0.99
The weight of the old mean squared gradient in its moving average, in [0, 1).""",
    "delta": """float, default 1e-5
A positive number added to the root mean square of gradient/N, which bounds the steps.""",
    "adapt": """int, optional
The number of iterations after which G stays constant. By default it always adapts.""",
    "ccadl.stepsize": """float, schedule, dict of str to either, or "auto"
The variance eps of the momentum, on the scale of `params`, or relative to the `preconditioner`: a number, a
schedule such as ``polynomial(h, a, b)``, or a dict with one for each parameter. "auto" finds it, as for `sgnht`; this
requires an estimate of the whole noise covariance: ``covariance="full"`` and `params` of one array.""",
    "samadams.stepsize": """float, schedule or dict
The square of the time step where psi is 1: a number, a schedule such as ``polynomial(h, a, b)``, or a dict
with one for each parameter, on the scale of `params`, or relative to the `preconditioner`.""",
    "samadams.alpha": """float or dict of str to float, default 0.1
The friction, in (0, 1): the fraction of the momentum lost in a step of psi = 1. One number for all
parameters or a dict with one for each.""",
    "samadams.beta": """float, default 0.9
The weight of the old zeta in its moving average, from 0 to below 1.""",
    "m": """float, default 0.1
The smallest psi, at most 1.""",
    "M": """float, default 10.0
The largest psi, at least 1. If m M = 1, psi is 1 where zeta is 1.""",
    "r": """float, default 0.25
The power of zeta, positive: how strongly psi depends on it.""",
    "s": """float, default 2.0
The power of the norm, positive.""",
    "scale": """float, optional
The norm of the gradient at which zeta is 1. By default the geometric mean of the norms of all iterations so
far.""",
    "train.stepsize": """float, schedule, or dict of str to either, default 1e-3
Adam's learning rate, on the scale of `params`. A number is the initial rate, which decays to 0 as half a
cosine. A schedule such as ``polynomial(h, a, b)`` is used unchanged, also in a dict with one for each parameter.""",
    "train.nIters": """int, default 10**4
Number of minibatches.""",
    "psgld.stepsize": """float, schedule or dict
The stepsize relative to G, in units of the squared parameters times the gradient of a single
observation: a number, a schedule such as ``polynomial(h, a, b)``, or a dict with one for each parameter.""",
    "baoab.alpha": """float or dict of str to float, default 0.1
The friction, in (0, 1]: the fraction of the momentum lost in each iteration. One number for all parameters
or a dict with one for each.""",
    "ubu.alpha": """float or dict of str to float, default 0.1
The friction, in (0, 1): the fraction of the momentum lost in each iteration. One number for all parameters
or a dict with one for each.""",
    "badodab.a": """float or dict of str to float, default 0.1
The diffusion factor, positive: while the thermostat is small the injected noise has variance
``2 a stepsize``, and the thermostat starts at `a`. One number for all parameters or a dict with one for each.""",
    "optStepsize": """float or "auto", default "auto"
The stepsize of the search for the mode: the factor of the gradient of the log posterior, summed over all N,
in ``theta + optStepsize * gradient``; with ``optimizer="adam"``, Adam's learning rate on the scale of `params`. "auto"
searches without a stepsize, by SciPy's trust-region method in whitened coordinates, on more and more observations.""",
    "logPrior": """callable or joint distribution, optional
The log prior density, ``logPrior(params)``, a scalar; or a joint distribution of TensorFlow Probability
over the names of `params`, whose default bijectors serve as `transforms` where none is given, and the log densities of
whose parts are summed over their elements. The default is the improper uniform prior.""",
    "minibatchSize": """int, float, "auto" or adaptive, default 0.01
Observations per gradient: a number from 1 to N, or a proportion of N in (0, 1). With the stepsize "auto" it
may be "auto" too: the size expected to minimise the cost of an independent draw, assuming that each iteration costs 20
gradients on top of its minibatch, or more where each observation gathers few of many rows. With control variates
around the mode it may be ``adaptive()``.""",
    "alpha": """float or dict of str to float, default 0.01
The friction, in (0, 1]: the fraction of the momentum lost at each leap. One number for all parameters or a
dict with one for each.""",
    "L": """int, default 5
Number of leaps per iteration, each with its own minibatch. At least 2: the next iteration resamples the
momentum, and so discards the change made by the last leap.""",
    "a": """float or dict of str to float, default 0.01
The diffusion factor, in (0, 0.5), best at 0.02 or less: the injected noise has variance ``2 a stepsize``,
and the thermostat starts at `a`. However small the stepsize, the variance of the chain is too small by a factor of
about ``1 - a/2``; above 0.1 there is a warning. One number for all parameters or a dict with one for each.""",
    "nIters": """int or "auto", default 10**4
Number of iterations. Every draw is stored, unless `burnIn`, `thin`, `collect` or `reduce` say otherwise.
"auto" runs until the draws reach `ess` or `mcse` and the chains agree: the rank-normalised R-hat of every element is
below 1.01. It runs four chains unless `nChains` is given. R-hat covers only the regions that the chains have visited,
so give different `starts` where there may be several modes. ``out.settings["nIters"]`` is the number reached; given as
`nIters`, it reproduces the draws.""",
    "ess": """float, optional
For ``nIters="auto"``: the bulk and tail effective sample size that every element must reach, over all
chains together. By default 1000.""",
    "mcse": """float, optional
For ``nIters="auto"``, in place of `ess`: the largest Monte Carlo standard error of the mean of any element,
in posterior standard deviations. 0.05 corresponds to 400 effective draws.""",
    "maxIters": """int, optional
For ``nIters="auto"``: the largest number of iterations. A run that ends there warns of what is missing. By
default, with the stepsize "auto", 20 times the number expected to suffice (for at least 400 effective draws),
otherwise 10**6.""",
    "maxSeconds": """float, optional
For ``nIters="auto"``: no iterations begin later than this many seconds after the call. The number of draws
then depends on the machine; they are the first draws of a longer run.""",
    "nItersOpt": """int, default 10**4
Number of minibatches in the search for the mode, unless it is automatic. With 0, `params` is taken as the
mode.""",
    "verbose": """bool, default True
Show a progress bar with the current estimate of the log posterior. It does not change the draws.""",
    "seed": """int, optional
From 0 to 2**64 - 1. The same seed gives the same chain; without one, a fresh seed is drawn.""",
    "subsampling": """{"uniform", "withReplacement", "reshuffled", "symmetric"}, preferential, array_like or \
callable, default "uniform"
How minibatches are drawn: "uniform" without replacement; "withReplacement" uniformly with replacement;
"reshuffled" as the parts of a fresh random permutation of the data in every epoch of N // n minibatches (the N % n
observations left over are not used in that epoch); "symmetric" as these parts forwards and then backwards, with a
fresh permutation after both. An array of N positive weights draws with replacement in proportion to them, and divides
each term of the gradient by n times its probability; ``preferential()`` computes such weights at the mode. A function
of your own takes N and n and returns a `Minibatch`.""",
    "integers": """sequence of str, optional
Entries of `dataset` that keep an integer type (int32, or int64 for 64-bit and uint32 input), such as
zero-based indices. An index out of range for what `logLik` gathers is an error.""",
    "dtype": """{"float32", "float64"}, default "float32"
The type of parameters, data, arithmetic and draws.""",
    "nChains": """int or range, optional
How many chains to run side by side, each with its own minibatches and noise. The search for the mode runs
once for all. Up to rounding, chain c does not depend on `nChains`. ``range(8, 12)`` runs chains 8 to 11 of a larger
run, for instance in one task of an array job; `Draws.concat` joins the results. The default is a single chain without
a chain axis.""",
    "starts": """float, list of dict, or dict of str to array_like, optional
Where the chains begin. By default all begin at `params`, or at the mode if the run searches for it. A
number adds normal noise with this standard deviation to that position for each chain. A list holds a dict like
`params` for each chain, as `train` returns, and makes `nChains` optional. A dict gives the positions of all chains,
(nChains, *shape) for each parameter.""",
    "sharedMinibatch": """bool, default False
Whether all chains use the same minibatch in each iteration, which is faster if fetching the data dominates
the run time. The distribution of each chain is unchanged, but the chains are dependent: averages over them are less
precise than over independent chains, and R-hat and effective sample sizes, which assume independence, are too
optimistic.""",
    "thin": """int or "auto", default "auto"
Store the last of every `thin` iterations. "auto" is 1, except with ``nIters="auto"`` and the stepsize
"auto": there it is a quarter of the iterations expected per independent draw, which loses about 2% of information.""",
    "burnIn": """int, default 0
Number of initial iterations that are not stored. They count in `nIters`.""",
    "collect": """callable, optional
What to store in place of the parameters: a function of `params`, or of `params` and the whole `dataset`, in
TensorFlow operations, that returns a dict of tensors. The compiled loop evaluates it at the stored draws. To store the
parameters too, return them with the rest: ``{**params, "logLoss": ...}``. Convert other data that it uses to tensors
beforehand (``tf.constant``), since arrays would become part of the program.""",
    "reduce": """Reducer or dict of str to Reducer, optional
Running summaries of the draws in constant memory, such as `runningMean()`. ``out.reduced`` holds their
results under the names given, or "draws" for a single one. Draws and their statistics are then not stored, with two
exceptions: with `collect`, its results are reduced and stored; with ``gradients=True``, the draws and the gradients at
them are stored too. Given `nChains`, there is one result for each chain.""",
    "gradients": """bool, default False
Also store an estimate of the gradient of the log posterior at every draw, each from its own minibatch, as
``out.gradients``. This takes up to twice the time. The gradient is zero in rows of a parameter that the minibatch does
not gather.""",
    "storage": """str or Path, optional
The path of a new Zarr store, "name.zarr". The run writes the draws there instead of keeping them in memory.
ArviZ and xarray can read it at any time, and ``Draws.load`` later. If the run is killed, only the last seconds are
lost (more if the machine fails).""",
    "resume": """bool, default False
Continue the run in `storage`, up to `nIters` iterations in total. The draws equal those of an uninterrupted
run. If there is no store, begin one. All other arguments must be the same as before; without a `seed`, the seed of the
first run is used.""",
    "executor": """concurrent.futures.Executor or an object like it, optional
An executor whose workers run the chains, in groups: an object whose ``submit(function, *arguments)``
returns a future, such as ``ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn"))`` or Dask's
``client.get_executor()``. It requires `nChains`, and is not shut down. The work before the chains, such as the search
for the mode, is done once; the workers share passes over more than 256 MB of data.""",
    "chainsPerJob": """int, optional
The number of chains in each job of `executor`. By default at least 2, chosen so that there is a job for
each worker. The draws depend on it only through rounding.""",
    "gradient": """controlVariates, saga, svrg or callable, optional
The estimator of the gradient of the log posterior: by default the plain estimate from the minibatch;
``controlVariates()`` around the mode, as in `sgldcv`; ``svrg()`` around an earlier position of the chain; ``saga()``
with a table of the last gradient of each observation; or an estimator of your own, a function from the model to a
`Gradient`.""",
    "dynamics": """Dynamics or dict of str to Dynamics, optional
The update rule, given the estimated gradient: one for all parameters, or a dict with one for each.""",
    "transition": """callable, optional
In place of `dynamics`: a function from the model to a `Transition`, which defines a whole iteration.
`logLik` may then be None, and `stepsize` must be given.""",
    "optimizer": """{"sgd", "adam"}, default "sgd"
The method of the search for the mode: gradient ascent with constant stepsize, as in R, or Adam.""",
    "suffStats": """callable
The counts of categories in a minibatch, ``suffStats(params, dataset)``, in TensorFlow operations: a dict
with an array of the shape of each parameter, nonnegative, summed over the observations in `dataset`, a dict of [n,
...]. The result is multiplied by N/n. To draw latent categories, take a third argument,
``suffStats(params, dataset, seed)``: two integers for ``tf.random.stateless_categorical`` and similar functions.""",
    "normalise": """bool, default True
Whether the parameters are probabilities, with target Dirichlet(alpha + counts of all data). Otherwise they
are positive numbers, each with target Gamma(alpha + counts of all data, 1).""",
    "logScale": """bool, default False
Whether the draws, ``sampler.params`` and the inputs of `suffStats`, `collect` and `reduce` are logarithms,
which cannot underflow. `params` and `starts` are always given as probabilities.""",
}

SIMPLEX = {
    "params": """dict of str to array_like
Where the chain starts. Each parameter holds probabilities that sum to 1 over the last axis, that of the
categories. Other axes, such as one for topics, come before it. With ``normalise=False``, positive numbers.""",
    "stepsize": """float, schedule, or dict of str to either
The dimensionless time h of an iteration: over a time of 1 the influence of the start on the mean decays to
a fraction exp(-1). A number or schedule (see `polynomial`) for all parameters, or a dict with one for each.""",
    "alpha": """float, array_like or dict of str to either
The parameters of the Dirichlet prior, positive: a number, an array that broadcasts to the parameter's shape,
or a dict with one for each parameter. With ``normalise=False``, the shapes of Gamma priors with rate 1.""",
    "minibatchSize": """int or float, default 0.01
Observations in each minibatch: a number from 1 to N, or a proportion of N in (0, 1).""",
    "subsampling": """{"uniform", "withReplacement", "reshuffled", "symmetric"}, default "uniform"
How minibatches are drawn: "uniform" without replacement, "withReplacement" uniformly with replacement,
"reshuffled" as the parts of a fresh random permutation of the data in every epoch of N // n minibatches, or "symmetric"
as these parts forwards and then backwards.""",
    "starts": """list of dict, or dict of str to array_like, optional
Where the chains begin, if not all at `params`: a dict like `params` for each, or (nChains, *shape) for each
parameter.""",
    "dtype": """{"float32", "float64"}, default "float32"
The type of parameters, data, arithmetic and draws. float32 represents probabilities down to 1e-38, float64
down to 1e-308; smaller ones become 0, which does not harm the chain. See `logScale`.""",
}
TEXTS |= {f"{sampler}.{argument}": text for sampler in ("scir", "sgrld") for argument, text in SIMPLEX.items()}

DRAWS = """Draws
    A dict with the draws of each parameter, an array of type `dtype` and shape (T, *shape), or (nChains, T, *shape)
    given `nChains`, with T = (nIters - burnIn) // thin draws; fewer if interrupted. It also holds the seed, the
    estimates of the log posterior and the timings, and has the methods `summary` and `toArviz`."""
SAMPLER = """Sgmcmc
    The sampler, for `initSess`, `sgmcmcStep` and `getParams`. It has R's fields: `params`, `N`, `data`, `n`,
    `stepsize`, `estLogPost`, the method's settings, and with control variates `paramsOpt` and `logPostOptGrad`."""
INVALID = """ValueError
    If an argument is invalid; the message names it, what it got and what would work."""
RUN_ERRORS = f"""{INVALID}
MemoryError
    If the draws need more memory than is free; raised before anything runs.
DivergenceError
    If the chain becomes NaN or infinite; the error holds the draws so far.
ModeSearchError
    If the search for the mode becomes NaN or infinite."""

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
    """The docstring of a one-call or Setup function, with the shared sections filled in."""
    text, *own = re.split(r"^([A-Z][A-Za-z ]+)\n-{3,}\n", inspect.cleandoc(document), flags=re.MULTILINE)
    is_run, of = "nIters" in signature.parameters, name.removesuffix("Setup")
    sections = {
        "Parameters": "\n".join(_entry(of, argument) for argument in signature.parameters),
        "Returns": DRAWS if is_run else SAMPLER,
        "Raises": RUN_ERRORS if is_run else INVALID,
        "See Also": f"{name}Setup : The same, step by step." if is_run else f"{of} : The same in one call.",
        "Examples": _example(name, is_run, "optStepsize" in signature.parameters),
    } | dict(zip(own[::2], own[1::2], strict=True))
    titled = [f"{title}\n{'-' * len(title)}\n{sections[title].strip()}" for title in SECTIONS if title in sections]
    return "\n\n".join([text.strip().replace("{control variates}", CONTROL_VARIATES), *titled, ""])


def _entry(sampler: str, argument: str) -> str:
    kind, *lines = TEXTS.get(f"{sampler}.{argument}", TEXTS[argument]).splitlines()
    return "\n".join([f"{argument} : {kind}", *(f"    {line}" for line in lines)])


def _example(name: str, is_run: bool, searches: bool) -> str:
    imports = name if is_run else f"getParams, initSess, {name}, sgmcmcStep"
    search = ", optStepsize=1e-4" if searches else ""
    return EXAMPLE.format(imports=imports, rest=(ONE_CALL if is_run else STEPWISE).format(name=name, search=search))
