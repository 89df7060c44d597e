"""The text of every argument of the public functions, and of what they return and raise, once."""

from __future__ import annotations

import inspect

TEXTS: dict[str, tuple[str, str]] = {
    "logLik": (
        "callable",
        """The log likelihood, ``logLik(params, dataset)``, in TensorFlow operations. Both arguments are dicts with the
names given here: `params` holds tensors of the shapes given, `dataset` a minibatch of n observations, [n, ...]. It
returns the sum over these observations, a scalar, or the vector of the n terms. Where it fetches rows of a parameter by
``tf.gather`` with indices from the dataset, `sgld` and `sgldcv` move only the rows fetched, and so cost little however
many there are (unless `logPrior` uses the whole parameter).""",
    ),
    "dataset": (
        "dict of str to array_like, or an object",
        """The data: NumPy arrays, lists, pandas Series and DataFrames or tensors of any rank, with the N observations
on the first axis. All numbers become `dtype`, except entries named in `integers`; a column that loses by
this what tells its observations apart, such as times in seconds since 1970, is warned of. Memory-mapped arrays
(``np.load(path, mmap_mode="r")``), Zarr arrays and HDF5 datasets stay on disk: rows are read when they are needed, and
checked to be finite then. So does what an object of your own holds that has ``__len__()``, the number of observations,
and ``take(indices)``, which returns those at an int64 array of indices, in this order, as a dict of arrays.""",
    ),
    "params": (
        "dict of str to array_like",
        """Where the chain starts, or the search for the mode if there is one: a number or array of any rank for each
parameter.""",
    ),
    "stepsize": (
        'float, schedule, or dict of str to either, default "auto"',
        """The variance eps of the noise injected by one SGLD update, ``theta + eps/2 * gradient + N(0, eps)``, on the
scale of `params`, or relative to the `preconditioner`; for the samplers with momentum, the variance of the momentum. A
number or schedule (see `polynomial`) holds for all parameters, a dict gives one for each (with a dense preconditioner,
for its coordinates of the same index). "auto" finds it: the largest at which every standard deviation is expected to be
within `tolerance` of the posterior's, by the curvature at the mode and the noise of the gradients around it. What was
found and what is expected is in ``out.settings``. For at most 2000 elements of `params`; beyond, see `tune`.""",
    ),
    "preconditioner": (
        '"auto", "dense", "diagonal", None, array_like or dict of str to array_like, default "auto"',
        """A matrix M over all elements of `params`, in order of name, in whose coordinates the chain moves: for SGLD
``theta + eps/2 * M gradient + N(0, eps M)``, and likewise the momentum. The stepsize is then relative to M. "dense" is
the inverse of the curvature at the mode, of at most 2000 elements, "diagonal" the inverse of its diagonal (by squared
gradients of observations, for more than 2000); for both the mode is sought, where the chain then begins. An array is M
itself; a dict has for each parameter its diagonal, in the parameter's shape, or a matrix. Rows that `logLik` fetches
then move together. "auto" is "dense" where the stepsize is "auto" ("diagonal" for more than 500 elements), else
None.""",
    ),
    "tolerance": (
        "float, default 0.05",
        """For ``stepsize="auto"``: the error of every standard deviation that is allowed, relative to the posterior's,
from 0.001 to 1.""",
    ),
    "temperature": (
        "float, default 1.0",
        """T of the tempered posterior, posterior^(1/T), that is sampled: as though `logLik` and `logPrior` were divided
by T, in the gradients, the search for the mode and the log posterior that is recorded. Below 1 it is narrower, above 1
wider. Where others write N(0, T eps) for the noise of a step, their eps is ours divided by T.""",
    ),
    "gibbs": (
        "callable, optional",
        """A step of your own that is made after each iteration, in the compiled loop:
``gibbs(params, dataset, seed)`` returns new values for some of `params`, a dict of tensors, in TensorFlow operations.
What it returns is moved by it alone, and by no gradient. `dataset` is the minibatch of the iteration, from
which no distribution given all observations can be told; `seed` are two
integers, from the seed of the run, for draws by ``tf.random.stateless_normal`` and its like, or by
``tfp.distributions.Gamma(a, b).sample(seed=seed)``. A draw from the distribution of these parameters given the others
leaves the posterior as it is. For `baoab` and `badodab`, whose kicks reach over the step, what it changes acts as noise
of the gradient: there the stepsize must be small relative to the variances given the others.""",
    ),
    "covariance": (
        '{"diag", "full"}, default "diag"',
        """How much is estimated of the covariance of the gradient's noise: the variances of the elements, or for each
parameter the whole matrix, of at most 1000 elements.""",
    ),
    "betaHat": (
        '{"zero", "fisher"}, default "zero"',
        """The noise of the gradients that is taken off the friction's noise: none, or ``stepsize/2`` times its variance
as it is estimated in each minibatch from the gradients of the observations, as far as `alpha` reaches.""",
    ),
    "beta": ("float, default 0.99", """The part of the mean square of the gradients that stays, from 0 to below 1."""),
    "delta": (
        "float, default 1e-5",
        """What is added to the root of the mean square of gradient/N, so that no step becomes too large. Positive.""",
    ),
    "adapt": (
        "int, optional",
        """Iterations after which the preconditioner stays as it is. By default it never does.""",
    ),
    "ccadl.stepsize": (
        'float, schedule, dict of str to either, or "auto"',
        """The variance eps of the momentum, on the scale of `params`, or relative to the `preconditioner`: a number, a
schedule such as ``polynomial(h, a, b)``, or a dict with one for each parameter. "auto" finds it, as for `sgnht`, where
all of the noise is estimated: for ``covariance="full"`` and `params` of one array.""",
    ),
    "psgld.stepsize": (
        "float, schedule or dict",
        """The stepsize, relative to G, so on the scale of the parameters squared times the gradient of a single
observation: a number, a schedule such as ``polynomial(h, a, b)``, or a dict with one for each parameter.""",
    ),
    "baoab.alpha": (
        "float or dict of str to float, default 0.1",
        """The friction, in (0, 1]: the part of the momentum that is lost in each iteration. One number for all
parameters or a dict with one for each.""",
    ),
    "badodab.a": (
        "float or dict of str to float, default 0.1",
        """The diffusion factor, positive: the noise injected has variance ``2 a stepsize`` where that is small, and the
thermostat starts at `a`. One number for all parameters or a dict with one for each.""",
    ),
    "optStepsize": (
        'float or "auto", default "auto"',
        """The stepsize of the search for the mode: the factor of the gradient of the log posterior, summed over all N,
in ``theta + optStepsize * gradient``; with ``optimizer="adam"``, Adam's learning rate on the scale of `params`. "auto"
is a search that needs none: SciPy's trust regions in whitened coordinates, on more and more observations.""",
    ),
    "logPrior": (
        "callable, optional",
        """The log prior density, ``logPrior(params)``, a scalar. The default is the improper uniform prior.""",
    ),
    "minibatchSize": (
        "int, float or adaptive, default 0.01",
        """Observations per gradient: a number from 1 to N, or a proportion of N in (0, 1). With control variates around
the mode it may be ``adaptive()``.""",
    ),
    "alpha": (
        "float or dict of str to float, default 0.01",
        """The friction, in (0, 1]: the part of the momentum that is lost at each leap. One number for all parameters or
a dict with one for each.""",
    ),
    "L": (
        "int, default 5",
        """Leaps per iteration, each with a minibatch of its own. At least 2: what the last leap adds to the
momentum is lost when the next iteration renews it.""",
    ),
    "a": (
        "float or dict of str to float, default 0.01",
        """The diffusion factor, in (0, 0.5), best at 0.02 or less: the noise injected has variance ``2 a stepsize``,
and the thermostat starts at `a`. However small the stepsize, the variance of the chain is too small by about the part
``a/2``; above 0.1 there is a warning. One number for all parameters or a dict with one for each.""",
    ),
    "nIters": (
        "int, default 10**4",
        """Iterations to run; all are stored, unless `burnIn`, `thin`, `collect` or `reduce` say otherwise.""",
    ),
    "nItersOpt": (
        "int, default 10**4",
        """Minibatches in the search for the mode, unless that is automatic. 0 takes `params` as the mode.""",
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
        '{"uniform", "withReplacement", "reshuffled"}, preferential or array_like, default "uniform"',
        """How minibatches are drawn: "uniform" without replacement, "withReplacement" uniformly with replacement,
"reshuffled" as the parts of a fresh random permutation of the data in every epoch of N // n minibatches (the N % n
observations left over are not used in that epoch), or with replacement in proportion to N positive weights, each term
of the gradient then divided by n times its probability. ``preferential()`` works such weights out at the mode.""",
    ),
    "integers": (
        "sequence of str, optional",
        """Entries of `dataset` that keep an integer type (int32, or int64 if they come so), for use as indices. They
count from 0; one that points outside of what `logLik` indexes with it is refused.""",
    ),
    "dtype": ('{"float32", "float64"}, default "float32"', """The type of parameters, data, arithmetic and draws."""),
    "nChains": (
        "int, optional",
        """How many chains to run side by side, each with minibatches and noise of its own; the search for the mode is
made once for all. Chain c is the same whatever `nChains`, to rounding. The default is a single chain without a chain
axis.""",
    ),
    "starts": (
        "float or dict of str to array_like, optional",
        """Where the chains begin, if not all at `params` or, where the mode is sought, at the mode: a number scatters
them normally around it with this standard deviation; a dict gives the positions, (nChains, *shape) for each
parameter.""",
    ),
    "sharedMinibatch": (
        "bool, default False",
        """Whether all chains look at the same minibatch in each iteration, which is quicker where fetching the data is
what costs. Each chain keeps its distribution, but the chains become dependent: averages over them are less precise than
over independent ones, and R-hat and effective sample sizes, which take them for independent, too optimistic.""",
    ),
    "thin": ("int, default 1", """Store the last of every `thin` iterations."""),
    "burnIn": (
        "int, default 0",
        """Iterations at the beginning that are run, but not stored. They count in `nIters`.""",
    ),
    "collect": (
        "callable, optional",
        """What is stored in place of the parameters: a function of `params`, or of `params` and `dataset` (all of it),
in TensorFlow operations, that returns a dict of tensors. It is evaluated for the draws that are stored, in the compiled
loop. To store the parameters too, return them with the rest: ``{**params, "logLoss": ...}``. Data it uses should be
tensors made before (``tf.constant``), not arrays, which would become a part of the program.""",
    ),
    "reduce": (
        "Reducer or dict of str to Reducer, optional",
        """Sums over the draws in constant memory, such as `runningMean()`; their results are in ``out.reduced`` under
the names given, or "draws" for a single one. Then neither the draws nor their log posterior are stored, unless
`collect` is given, whose results are reduced and stored. Given `nChains`, there is one result for each chain.""",
    ),
    "gradients": (
        "bool, default False",
        """Store also an estimate of the gradient of the log posterior at every draw, each from a minibatch of its own,
which takes up to twice the time; they are ``out.gradients``. Rows of a parameter that the minibatch does not fetch have
zeros.""",
    ),
    "storage": (
        "str or Path, optional",
        """A Zarr store to be made, "name.zarr", which takes up the draws in place of memory while the run goes on.
ArviZ and xarray can read it at any time, and ``Draws.load`` later; if the run is killed, all is kept but the last
seconds (a failing machine may lose more).""",
    ),
    "resume": (
        "bool, default False",
        """Go on with the run in `storage`, up to `nIters` iterations in all, with the draws it would have made if it
had never stopped; begin it if there is none. All other arguments must be as they were; without a `seed`, the first one
is taken.""",
    ),
    "gradient": (
        "controlVariates, saga or svrg, optional",
        """How the gradient of the log posterior is estimated: by default the plain estimate from the minibatch;
``controlVariates()`` around the mode, as in `sgldcv`; ``svrg()`` around where the chain was; ``saga()`` by a table of
the gradients seen last.""",
    ),
    "dynamics": (
        "Dynamics or dict of str to Dynamics",
        """How a parameter moves, given the estimated gradient; one for all parameters, or a dict with one for each.""",
    ),
    "optimizer": (
        '{"sgd", "adam"}, default "sgd"',
        """The search for the mode: gradient ascent with constant stepsize, as in R, or Adam.""",
    ),
}

RETURNS = {
    "{draws}": """Draws
    A dict with the chain of each parameter, an array of type `dtype` and shape (nIters, *shape), or
    (nChains, nIters, *shape) given `nChains`; with `thin` and `burnIn`, (nIters - burnIn) // thin draws. Fewer if
    interrupted. It also tells the seed, log posterior estimates and timings, and has `summary` and `toArviz`.""",
    "{sampler}": """Sgmcmc
    For `initSess`, `sgmcmcStep` and `getParams`. Its fields `params`, `N`, `data`, `n`, `stepsize`, `estLogPost`, those
    named as the settings of the method, and with control variates `paramsOpt` and `logPostOptGrad` are R's.""",
}
INVALID = """ValueError
    If an argument is invalid; the message names it, what it got and what would work."""
RAISES = {
    "{set-up errors}": INVALID,
    "{run errors}": f"""{INVALID}
MemoryError
    If the draws would need more memory than is free; raised before anything is run.
DivergenceError
    If the chain reaches NaN or infinity; it carries the draws so far.
ModeSearchError
    If the search for the mode does, where control variates make one.""",
}

CONTROL_VARIATES = """The gradient of the log posterior is estimated with control variates: a search finds the mode,
one pass over all data gives the exact gradient there, and minibatches then estimate only the difference between here
and the mode (Baker et al., eq. 4). The chain starts at the mode, unless `starts` says otherwise."""

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
...     sgmcmcStep(sampler, sess, nSteps=100)
>>> bool(abs(getParams(sampler, sess)["theta"] - 3.0) < 0.5)
True"""


def filled_in(document: str, name: str, signature: inspect.Signature) -> str:
    """The docstring of a function with what all have in common: texts of arguments, results and errors, an example."""
    texts = {
        "{parameters}": "\n".join(_entry(*_text(name, argument), argument) for argument in signature.parameters),
        "{control variates}": CONTROL_VARIATES,
        "{example}": _example(name, signature),
        **RETURNS,
        **RAISES,
    }
    for placeholder, text in texts.items():
        document = document.replace(f"    {placeholder}\n", _indented(text) + "\n")
    return document


def _example(name: str, signature: inspect.Signature) -> str:
    """A small run, or a small loop for a function that sets up."""
    search = ", optStepsize=1e-4" if "optStepsize" in signature.parameters else ""
    one_call = "nIters" in signature.parameters
    imports = name if one_call else ", ".join(("getParams", "initSess", name, "sgmcmcStep"))
    rest = (ONE_CALL if one_call else STEPWISE).format(name=name, search=search)
    return EXAMPLE.format(imports=imports, rest=rest)


def _text(name: str, argument: str) -> tuple[str, str]:
    """Of an argument, where a sampler has one of its own that."""
    return TEXTS.get(f"{name.removesuffix('Setup')}.{argument}", TEXTS[argument])


def _entry(kind: str, text: str, name: str) -> str:
    return "\n".join([f"{name} : {kind}", *(f"    {line}" for line in text.splitlines())])


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" if line else "" for line in text.splitlines())
