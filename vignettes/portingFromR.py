r"""
Porting from R
==============

This vignette is for users of the R package `sgmcmc`_. It translates a program line by
line, from the data to a loop of your own, with the R code in the text. A table then
lists the intended differences, and the section after it explains the largest: the
distribution that `sghmc` draws from.

All statements about R refer to version 0.2.5 of the package, its documentation and its
paper.

Run it from anywhere, with ``python vignettes/portingFromR.py``. It takes about 20
seconds.

.. _sgmcmc: https://doi.org/10.18637/jss.v091.i03
"""

# sphinx_gallery_start_ignore
import os

import matplotlib

matplotlib.use("Agg")  # draw to a file, with or without a display
# sphinx_gallery_end_ignore

# %%
# The packages
# ------------
# .. code-block:: r
#
#    library(sgmcmc)
#    library(tensorflow)
#
# ``installTF()`` has no counterpart: pip installs TensorFlow with this package. In
# Python, ``tf$distributions`` and ``tf$contrib$distributions`` are a separate package,
# TensorFlow Probability, which is also installed. A few of its names are new.
# ``WishartCholesky`` and ``WishartFull`` are now ``tfd.WishartTriL(df, scale_tril)``,
# which takes the Cholesky factor of the scale, and with ``input_output_cholesky=True``
# also that of the matrix.

import matplotlib.pyplot as plt
import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

from sgmcmc import getParams, initSess, sghmccv, sgldcv, sgldcvSetup, sgmcmcStep

SHORT = False  # whether to run less
# sphinx_gallery_start_ignore
SHORT = os.environ.get("SGMCMC_VIGNETTES") == "short"  # for the tests
# sphinx_gallery_end_ignore

# %%
# The data
# --------
# .. code-block:: r
#
#    set.seed(1)
#    N = 10000
#    X = matrix(rnorm(3 * N), nrow = N)
#    y = rpois(N, exp(0.5 + X %*% c(0.3, -0.2, 0.1)))
#    dataset = list("X" = X, "y" = y)
#
# A list becomes a dictionary, and an R array a NumPy array. In both, observations are
# along the first axis. A pandas data frame, or its columns, may replace an array.

rng = np.random.default_rng(1)
N = 10_000
X = rng.normal(size=(N, 3))
y = rng.poisson(np.exp(0.5 + X @ np.array([0.3, -0.2, 0.1])))
dataset = {"X": X, "y": y}

# %%
# The parameters
# --------------
# .. code-block:: r
#
#    params = list("bias" = 0, "beta" = matrix(0, nrow = 3, ncol = 1))
#
# In R, a vector is often written as a matrix with one column, for ``tf$matmul``. That
# works here too, and each draw is then such a matrix. With ``tf.linalg.matvec`` a
# vector can stay a vector.

params = {"bias": 0.0, "beta": np.zeros(3)}

# %%
# The log likelihood and the log prior
# ------------------------------------
# .. code-block:: r
#
#    logLik = function(params, dataset) {
#        eta = params$bias + tf$squeeze(tf$matmul(dataset$X, params$beta))
#        distn = tf$distributions$Poisson(tf$exp(eta))
#        return(tf$reduce_sum(distn$log_prob(dataset$y)))
#    }
#    logPrior = function(params) {
#        distn = tf$distributions$Normal(0, 5)
#        return(tf$reduce_sum(distn$log_prob(params$beta)) +
#               distn$log_prob(params$bias))
#    }
#
# The functions have the same arguments in the same order. For an entry of a list, ``$``
# becomes ``[""]``, as in ``params["beta"]``. For anything else it becomes a dot, as in
# ``tf.matmul``. Some operations of TensorFlow 1 have moved: ``tf$log`` is
# ``tf.math.log``. An integer is ``1``, not ``1L``, and indices start at 0:
# ``params$beta[1]`` is ``params["beta"][0]``. Group ids start at 0 too. If they start
# at 1 in R and are used by ``tf.gather``, pass ``ids - 1``, and name them in
# ``integers``, since all other data become float32.
#
# A number in a formula, as in ``0.5 * x``, takes the type of the tensor. An array that
# is first converted to a tensor does not: ``tf.constant(np.eye(3))`` is float64, and
# clashes with float32 parameters. Write ``tf.constant(np.eye(3), tf.float32)``,
# ``tf.eye(3)``, or give the sampler ``dtype="float64"``.


def logLik(params, dataset):
    eta = params["bias"] + tf.linalg.matvec(dataset["X"], params["beta"])
    distn = tfp.distributions.Poisson(log_rate=eta)
    return tf.reduce_sum(distn.log_prob(dataset["y"]))


def logPrior(params):
    distn = tfp.distributions.Normal(0.0, 5.0)
    return tf.reduce_sum(distn.log_prob(params["beta"])) + distn.log_prob(
        params["bias"]
    )


# %%
# The sampler
# -----------
# .. code-block:: r
#
#    stepsize = list("bias" = 5e-6, "beta" = 5e-6)
#    out = sgldcv(logLik, dataset, params, stepsize, optStepsize = 1e-5,
#                 logPrior = logPrior, minibatchSize = 100, nIters = 20000,
#                 nItersOpt = 10000, verbose = FALSE, seed = 13)
#
# All names, their order and their defaults are R's, so positional arguments work as
# well. Arguments that only this package has must be named: ``nChains``, ``thin``,
# ``burnIn``, ``storage`` and others. Where R takes a list with one entry for each
# parameter or one number for all, so does this package. ``seed = 13``, a double in R,
# may be ``13.0``.
#
# R matches the named arguments first, and then assigns the others to the positions that
# are left. In Python, all arguments after a named one must be named too.
#
# .. code-block:: r
#
#    # 100 is minibatchSize
#    sgld(logLik, dataset, params, stepsize, 100, logPrior = logPrior)
#
# becomes ``sgld(logLik, dataset, params, stepsize, minibatchSize=100,
# logPrior=logPrior)``. Written as in R, it raises a ``TypeError``: *multiple values for
# argument 'logPrior'*.
#
# Some scripts have ``optStepsize = 1e-1``. Such a value suits Adam, whose steps are on
# the scale of the parameters. R's package searches by gradient ascent, and so does this
# one if it is given an ``optStepsize``. There ``optStepsize`` multiplies a gradient
# that is summed over all observations, so 0.1 is too large and the search ends with a
# ``ModeSearchError``. Set ``optimizer="adam"``, divide ``optStepsize`` by the order of
# N, or leave it out.

stepsize = {"bias": 5e-6, "beta": 5e-6}
out = sgldcv(
    logLik, dataset, params, stepsize, optStepsize=1e-5, logPrior=logPrior,
    minibatchSize=100, nIters=2_000 if SHORT else 20_000, nItersOpt=10_000,
    verbose=False, seed=13,
)  # fmt: skip

# %%
# The draws
# ---------
# .. code-block:: r
#
#    dim(out$beta)                      # 20000 3 1
#    beta = out$beta[-(1:1000), , 1]
#    colMeans(beta)
#    apply(beta, 2, sd)
#    plot(out$bias, type = "l")
#
# Iterations are along the first axis, as in R. ``out$beta`` is ``out["beta"]``;
# ``out.beta`` raises an error that says so. ``out`` is a dictionary with methods that
# drop the burn-in, show a table, plot the traces and predict. You cannot shorten one of
# its arrays in place, as with ``out$bias = out$bias[-(1:1000)]``, because the other
# arrays would keep their length. ``out = out.burnIn(1000)`` shortens all of them.

print(out["beta"].shape)
beta = out["beta"][1000:]
print(beta.mean(axis=0))
print(beta.std(axis=0, ddof=1))
print(out.burnIn(1000)["beta"].shape, "after the burn-in, by the method")

# %%
# A loop of your own
# ------------------
# .. code-block:: r
#
#    sampler = sgldcvSetup(logLik, dataset, params, stepsize,
#                          optStepsize = 1e-5, logPrior = logPrior,
#                          minibatchSize = 100)
#    # a tensor, declared before the session
#    size = tf$reduce_sum(sampler$params$beta ^ 2)
#    sess = initSess(sampler)
#    for (i in 1:1000) {
#        sgmcmcStep(sampler, sess)
#    }
#    getParams(sampler, sess)$beta
#    sess$run(size)
#
# The three functions are the same. TensorFlow 2 has neither sessions nor placeholders:
# ``sess`` holds the state of the chain, and what R first declares and later runs is
# simply computed. One call with ``nSteps`` is faster than as many calls of one step.
#
# Of the fields of R's samplers, this package has ``params``, ``data``, ``N``, ``n``,
# ``stepsize``, ``alpha``, ``L``, ``a``, ``paramsOpt`` and ``logPostOptGrad``.
# ``estLogPost``, in R a tensor to run, is the number that the last iteration estimated.
# There are no ``placeholders``, because TensorFlow 2 has none. There is no
# ``dynamics``, R's list of operations to run, because an iteration is one compiled
# program. ``logLik`` and ``logPrior`` are your own functions, and you can call them
# directly.

sampler = sgldcvSetup(
    logLik,
    dataset,
    params,
    stepsize,
    optStepsize=1e-5,
    logPrior=logPrior,
    minibatchSize=100,
    verbose=False,
)
sess = initSess(sampler)
for _ in range(100):
    sgmcmcStep(sampler, sess, nSteps=10)
print(getParams(sampler, sess)["beta"])
print(tf.reduce_sum(sampler.params["beta"] ** 2).numpy())
print(sampler.estLogPost)

# %%
# What is different
# -----------------
#
# .. list-table::
#    :header-rows: 1
#    :widths: 16 28 28 28
#
#    * -
#      - R's package
#      - here
#      - why
#    * - momentum of ``sghmc``
#      - renewed with variance eps/2
#      - renewed with variance eps
#      - with half the variance the distribution is too narrow; see below
#    * - several parameters in ``sghmc``
#      - moved one after another: the second sees the first one already moved
#      - all move, then the gradient is evaluated
#      - the algorithm of the paper; the order of the parameters does not matter
#    * - ``a`` of ``sgnht``
#      - any positive number
#      - below 0.5; above 0.1 there is a warning
#      - it makes the variance too small, however small the stepsize; from 0.5 on there
#        is no equilibrium
#    * - a stepsize that is too large for its minibatches
#      -
#      - a warning at the end of the run, and numbers in ``out.summary()``
#      - effective sample sizes and R-hat do not show it
#    * - rows that a minibatch fetches k times by ``tf.gather``
#      - receive k draws of noise
#      - receive noise with variance proportional to k; in ``sghmc`` and ``sgnht`` all
#        rows move
#      - the distribution of a row is the posterior, however rarely it is visited
#    * - minibatches
#      - without replacement
#      - the same; or with replacement, or in proportion to weights: ``subsampling``
#      - the weights N/n and 1/(n p) keep the gradient unbiased in each case
#    * - ``minibatchSize``
#      - a number, or a proportion
#      - the same; a proportion that rounds to no observation is an error, and so is 1.0
#      - an empty minibatch has no gradient; write 1 for one observation, N for all
#    * - ``L`` of ``sghmc``
#      - at least 1
#      - at least 2
#      - with one leap no gradient moves the position
#    * - ``seed``
#      - makes a run repeatable
#      - the same, and ``verbose``, ``thin`` and ``storage`` do not change a draw;
#        ``out.seed`` is the seed that was used
#      - the generators differ, so the numbers are not those of R
#    * - ``stepsize``
#      - a constant
#      - found by the sampler, if left out; otherwise on the same scale, or a schedule
#        such as ``polynomial``
#      - with a decreasing stepsize, for b in (0.5, 1], the bias vanishes if averages
#        are weighted by it
#    * - a ``stepsize`` for each element
#      - an array of the shape of the parameter
#      - one for each parameter; for one per element, ``stepsize=1.0`` and the array as
#        ``preconditioner={"theta": array}``
#      - temperatures, tables and checks are per parameter
#    * - mode search
#      - gradient ascent
#      - by SciPy, if ``optStepsize`` is left out; otherwise the same, or
#        ``optimizer="adam"``
#      - SciPy's search needs no stepsize; Adam needs less tuning
#    * - labels of ``getDataset("covertype")``
#      - 0 and 1, from LIBSVM
#      - 0 and 1; which of the two is lodgepole pine is inferred
#      - LIBSVM does not say; the other choice would only change signs
#    * - a chain that diverges
#      -
#      - stops with a ``DivergenceError``, which keeps the draws before it
#      - draws of NaN are of no use
#    * - chains too large to store
#      - a loop of your own
#      - the same; or ``collect``, ``reduce`` and ``storage``
#      - a loop in Python is slow
#
# The momentum of sghmc
# ---------------------
# An iteration of ``sghmc`` draws a momentum :math:`\nu` and makes L leaps with it. How
# far they lead depends on the size of :math:`\nu`: if its variance is half of what it
# should be, the chain stays too close to the mode. For a normal posterior with mean m
# and precision a, the distribution can be computed. The state
# :math:`s = (\theta - m, \nu)` obeys a linear recursion, so its covariance obeys
# :math:`\Sigma' = A \Sigma A^T + Q`. Hence the variance of :math:`\theta` after an
# iteration is a linear function of the variance before it.


def sd_of_sghmc(stepsize, alpha, L, precision, renewed):
    """The standard deviation of theta in units of the posterior's.

    `renewed` is the variance of a new momentum.
    """
    leap = np.array([[1, 1], [-stepsize * precision, 1 - alpha - stepsize * precision]])

    def after(variance):
        covariance = np.diag([variance, renewed])
        for _ in range(L):
            covariance = leap @ covariance @ leap.T + np.diag([0, 2 * alpha * stepsize])
        return covariance[0, 0]

    constant = after(0.0)
    slope = after(1.0) - constant
    return np.sqrt(constant / (1 - slope) * precision)


# %%
# The parameter is the mean of 1000 normal observations. With control variates, the
# gradients of this model are exact.

x = rng.normal(3.0, 1.0, size=1_000)
settings = {"stepsize": 1e-5, "alpha": 0.01, "L": 20}
normal = sghmccv(
    lambda params, dataset: -0.5 * tf.reduce_sum((dataset["x"] - params["theta"]) ** 2),
    {"x": x}, {"theta": 3.0}, **settings, optStepsize=1e-4, minibatchSize=100,
    nIters=1_000 if SHORT else 20_000, verbose=False, seed=1,
)  # fmt: skip
draws = (normal["theta"].astype(float) - x.mean()) * np.sqrt(len(x))
eps = settings["stepsize"]
here, in_r = (
    sd_of_sghmc(**settings, precision=len(x), renewed=variance)
    for variance in (eps, eps / 2)
)
print("standard deviation, relative to the posterior's")
print(
    f"sghmccv: {draws.std():.3f}; by computation {here:.3f}, and with a momentum of "
    f"variance eps/2 {in_r:.3f}"
)

# %%
# So a posterior from R's ``sghmc`` can be a quarter too narrow where there is little
# gradient noise. Much gradient noise widens the distribution, and may hide this.
#
# With few leaps there is a further effect, in R and here, because it belongs to the
# algorithm: the first leap moves before it has seen a gradient. If the stepsize and the
# friction are small, the variance is too large by the factor L / (L - 1): by a quarter
# for the default of 5, as in R, and by a twentieth for 20.

for L in (2, 5, 10, 20, 50):
    sd = sd_of_sghmc(1e-6, 0.01, L, len(x), 1e-6)
    print(
        f"L = {L:2}: standard deviation {sd:.3f}, and the root of L / (L - 1) is "
        f"{np.sqrt(L / (L - 1)):.3f}"
    )

# %%
# The picture
# -----------
# Left: the coefficients of the Poisson regression, minus their true values. Right: the
# draws of ``sghmccv``, the posterior, and the distribution implied by a momentum of
# variance eps/2.

plt.rcParams.update(
    {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False}
)
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")

names, truth = ["bias", "beta[0]", "beta[1]", "beta[2]"], [0.5, 0.3, -0.2, 0.1]
kept = np.column_stack([out["bias"], out["beta"]])[1000:]
low, middle, high = np.quantile(kept, [0.025, 0.5, 0.975], axis=0) - truth
rows = np.arange(4)[::-1]
left.axvline(0, color="0.6", linewidth=1)
left.hlines(rows, low, high, color="#4477aa", linewidth=1.5, label="95% interval")
left.plot(middle, rows, "o", color="#4477aa", markersize=4, label="median")
left.set_yticks(rows, names)
left.set(xlabel="estimate - true value", ylim=(-0.6, 3.6))
left.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, frameon=False)

grid = np.linspace(-4, 4, 400)
right.hist(
    draws,
    bins=80,
    range=(-4, 4),
    density=True,
    color="#4477aa",
    alpha=0.4,
    label="draws of sghmccv",
)
for label, sd, style in (
    ("posterior", 1.0, "-"),
    ("momentum of variance eps/2", in_r, "--"),
):
    right.plot(
        grid,
        np.exp(-0.5 * (grid / sd) ** 2) / sd / np.sqrt(2 * np.pi),
        style,
        color="black",
        label=label,
    )
right.set(xlabel="standard deviations of the posterior", yticks=[], ylim=(0, None))
right.spines["left"].set_visible(False)
right.legend(
    loc="lower center",
    bbox_to_anchor=(0.5, 1.0),
    ncols=3,
    frameon=False,
    columnspacing=1.2,
    fontsize="small",
)

# sphinx_gallery_start_ignore
figure.savefig("portingFromR.png", dpi=150)
# sphinx_gallery_end_ignore
