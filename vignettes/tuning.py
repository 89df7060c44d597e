"""
Tuning: an automatic stepsize, and the signs of a bad one
=========================================================

Nearly every sampler here has a stepsize. If it is too small, the chain hardly moves. If
it is too large, the distribution of the chain is not the posterior. If it is much too
large, the chain may diverge. No acceptance rate shows this. Most users need not choose
a stepsize: the package computes one before the run. This vignette shows how, what is
left for you to choose, and how to check the result. If you choose a stepsize yourself,
it shows the signs of a bad one.

Run it from anywhere, with ``python vignettes/tuning.py``. It takes a minute or two.
"""

# sphinx_gallery_start_ignore
import os

import matplotlib

matplotlib.use("Agg")  # draw to a file, with or without a display
# sphinx_gallery_end_ignore

import warnings

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import tensorflow as tf

from sgmcmc import (
    DivergenceError,
    checkStepsize,
    initSess,
    sghmc,
    sghmccv,
    sgld,
    sgldcv,
    sgldcvSetup,
    tune,
)

SHORT = False  # whether to run less
# sphinx_gallery_start_ignore
SHORT = os.environ.get("SGMCMC_VIGNETTES") == "short"  # for the tests
# sphinx_gallery_end_ignore
N_ITERS = 2_000 if SHORT else 60_000

# %%
# The model
# ---------
# The model is a Bayesian logistic regression on 10,000 simulated observations. The
# features have different scales, so the posterior is narrow in some directions and wide
# in others, as posteriors usually are.

N, n = 10_000, 100
rng = np.random.default_rng(1)
X = rng.normal(size=(N, 4)) * [2.0, 1.0, 1.0, 0.5]
truth = np.array([0.5, -0.5, 0.25, 0.0])
y = rng.random(N) < 1 / (1 + np.exp(-X @ truth))
dataset = {"X": X, "y": y}


def logLik(params, dataset):
    eta = tf.linalg.matvec(dataset["X"], params["beta"])
    return tf.reduce_sum(dataset["y"] * eta - tf.nn.softplus(eta))


def logPrior(params):
    return -0.5 * tf.reduce_sum(params["beta"] ** 2)


# %%
# Nothing to choose
# -----------------
# If no stepsize is given, the default is ``stepsize="auto"``. The sampler finds the
# mode and the curvature there. It moves in whitened coordinates, in which the posterior
# looks alike in all directions. It measures the gradient noise where the chain will be.
# Then it takes the largest stepsize at which every standard deviation is predicted to
# be within 5% of the posterior's.

common = {
    "logPrior": logPrior,
    "minibatchSize": n,
    "nIters": N_ITERS,
    "verbose": False,
    "seed": 1,
}
found = sgldcv(logLik, dataset, {"beta": np.zeros(4)}, **common)
expected = found.settings["expected"]
print(f"stepsize {expected['stepsize']:.3f}, relative to the curvature")
print(f"error of a standard deviation, expected: {expected['error']:.1%} at most")
print(f"iterations for one independent draw, expected: {expected['iterations']:.0f}")
print(
    f"the search for the mode stopped {expected['distance']:.4f} standard deviations "
    "away from it"
)

# %%
# The stepsize is relative to the curvature: 1 is the variance of the posterior in every
# direction. A fifth of the 5% is reserved for the error of the normal approximation, so
# the predicted error is at most 4%.
#
# Did the run keep to that? With 10,000 observations the posterior is nearly normal, so
# the inverse of the curvature at the mode is nearly its covariance. We compute the
# curvature by Newton's method in NumPy.

beta = np.zeros(4)
for _ in range(10):
    p = 1 / (1 + np.exp(-X @ beta))
    curvature = (X.T * (p * (1 - p))) @ X + np.eye(4)
    beta += np.linalg.solve(curvature, X.T @ (y - p) - beta)
exact = np.sqrt(np.diag(np.linalg.inv(curvature)))

table = found.summary()[["mean", "sd", "expected_sd_ratio", "ess_bulk"]]
table.insert(2, "sd_ratio", found["beta"].std(axis=0) / exact)
print(table.round(3).to_string())

# %%
# What is left to choose
# ----------------------
# You choose the sampler, the length of the run and the size of a minibatch. The unit of
# length is ``expected["iterations"]``. Larger minibatches mean less gradient noise, a
# larger stepsize, and fewer but more expensive iterations. A session has its
# predictions as soon as it has begun, before the first iteration:

costs = {}
for size in (10, 30, 100) if SHORT else (10, 30, 100, 300, 1000):
    sampler = sgldcvSetup(
        logLik,
        dataset,
        {"beta": np.zeros(4)},
        logPrior=logPrior,
        minibatchSize=size,
        seed=1,
    )
    initSess(sampler, verbose=False)
    iterations = sampler.expected["iterations"]
    costs[size] = {
        "stepsize": sampler.expected["stepsize"],
        "iterations per draw": iterations,
        "observations per draw": iterations * size,
    }
costs = pd.DataFrame(costs).T.rename_axis("minibatchSize")
print(costs.round(3).to_string())

# %%
# Below some tens of observations, a smaller n hardly makes an iteration faster, because
# other work takes longer. ``expected["minibatchSize"]`` is a limit: above it, twice as
# many observations no longer allow nearly twice the stepsize.
#
# The check
# ---------
# ``checkStepsize`` runs again at half the stepsize, for twice as long. It compares
# means and standard deviations, in units of Monte Carlo standard errors. The error due
# to the stepsize halves with it, so **the change is about as large as the error that is
# left.** This works for every sampler, every quantity and every posterior. We check one
# run with the default tolerance and one with a large tolerance:

checks = {
    tolerance: checkStepsize(
        sgldcv,
        logLik,
        dataset,
        {"beta": np.zeros(4)},
        **common | {"nIters": N_ITERS // 2},
        tolerance=tolerance,
    )
    for tolerance in (0.05, 0.3)
}
for tolerance, check in checks.items():
    print(f"tolerance {tolerance}: {check.attrs['worst']}")
    print(check[["sd", "sd_half", "sd_change"]].round(4).to_string())

# %%
# Where the stepsize cannot be found
# ----------------------------------
# The curvature at one mode says little about a posterior with several modes, or about a
# neural network. There ``tune`` tries many settings in short runs, then the best third
# of them for three times as long, and so on until one is left. The best setting has the
# smallest kernel Stein discrepancy, which needs only draws and gradients. The example
# is `sgld`, which has no control variates:

grid = list(10.0 ** np.arange(-7, -3, 1.0 if SHORT else 0.5))
tuned = tune(
    sgld,
    logLik,
    dataset,
    {"beta": beta},
    grid,
    logPrior=logPrior,
    minibatchSize=n,
    verbose=False,
    seed=1,
)
print(tuned.settings)
print(tuned.table.to_string(index=False))

# %%
# A stepsize of your own
# ----------------------
# A stepsize is a variance on the scale of the parameters, so compare it with the
# variances of the posterior.

precisions, directions = np.linalg.eigh(curvature)  # in increasing order
narrowest, widest, direction = 1 / precisions[-1], 1 / precisions[0], directions[:, -1]
print(
    f"variance of the posterior: {narrowest:.2e} in the narrowest direction, "
    f"{widest:.2e} in the widest"
)

# %%
# For a normal posterior and a gradient without noise, the distribution of an SGLD chain
# with stepsize eps is known exactly. Along a direction of variance v, the chain
#
# - forgets its position within about 2 v / eps iterations;
# - has the variance v / (1 - eps / 4v), too large by a factor of about 1 + eps / 4v;
# - diverges above eps = 4 v.
#
# So the narrowest direction bounds the stepsize, and the widest one determines how long
# to run. **Begin with a tenth of the variance of the narrowest direction.** There the
# standard deviation is 1.3% too large.

start = narrowest / 10
print(f"stepsize to begin with: {start:.1e}; 1/N is {1 / N:.1e}")
print(
    "in the widest direction the chain then forgets within about "
    f"{2 * widest / start:.0f} iterations"
)

# %%
# Sign 1: the trace
# -----------------
# We compare three stepsizes: a thousandth of this one, this one, and ten times this
# one, the variance of the narrowest direction. Look at the left of the picture below.
# The first chain hardly moves, and has not yet crossed the posterior. The second
# wanders, but crosses it many times. The third looks best of all, and is 16% too wide.
# **A trace shows that a stepsize is too small. It never shows that it is too large.**
#
# The chains start at the mode, which is now known. So those with control variates need
# not search for it, and we set ``nItersOpt=0``.

search = {"optStepsize": 1e-5, "nItersOpt": 0}


def run(sampler, stepsize, **arguments):
    return sampler(logLik, dataset, {"beta": beta}, stepsize, **common | arguments)


def along(out):
    """The chain along the narrowest direction, from the mode, in posterior sds."""
    return (out["beta"].astype(float) - beta) @ direction / np.sqrt(narrowest)


def sd_of(out):
    """The standard deviation of that; it should be 1."""
    return along(out)[N_ITERS // 20 :].std()


with_cv = {
    # gradients: see the third sign
    factor: run(sgldcv, factor * start, gradients=factor == 1, **search)
    for factor in ((1, 10) if SHORT else (0.001, 1, 10))
}

# %%
# Sign 2: the divergence error
# ----------------------------
# A chain that becomes NaN or infinite raises an error, which says where it happened and
# keeps the earlier draws. But do not rely on this. A chain diverges only where the
# gradient grows at least as fast as the distance from the mode, as for a normal
# posterior. The gradient of a logistic regression is bounded. Take a stepsize of six
# times the narrowest variance: on a normal posterior the chain would diverge, but here
# it runs on and is wrong. Only the prior, of precision 1, makes this chain diverge,
# when the stepsize exceeds 4.

if not SHORT:
    far_too_wide = sd_of(run(sgldcv, 60 * start, **search))
    print(
        f"stepsize {60 * start:.1e}: standard deviation {far_too_wide:.1f} times the "
        "exact one"
    )
try:
    run(sgldcv, 5.0, **search)
except DivergenceError as error:
    print(f"stepsize 5: {error}")

# %%
# Sign 3: gradient noise
# ----------------------
# So far the gradient had no noise. Gradient noise of variance V adds to the noise that
# the algorithm injects. An update then has noise of variance eps + eps^2 V / 4, where
# it should be eps. So **the relative excess is eps V / 4**, and the variance of the
# chain is too large by the same proportion.
#
# `sgld` measures this itself. ``variance_ratio`` in ``out.summary()`` is 1 plus eps/4
# times the mean square of the gradients. For a normal posterior this is the variance of
# the chain relative to the correct one, including the error of the finite step. Above
# 1.4 the run warns. You can also measure the noise along one direction. With
# ``gradients=True`` a run stores an estimate of the gradient at each draw, from a
# separate minibatch. The noise is this estimate minus the exact gradient, which we take
# from the normal approximation.


def excess(out):
    """The excess, eps V / 4, along the narrowest direction."""
    noise = out.gradients["beta"] + (out["beta"] - beta) @ curvature
    return start / 4 * np.var(noise @ direction)


without_cv = {1: run(sgld, start, gradients=True)}
print(
    f"excess variance: sgld {excess(without_cv[1]):.3f}, "
    f"sgldcv {excess(with_cv[1]):.3f}"
)

# %%
# Without control variates, the stepsize that we began with is far too large. A rule
# shows this without any measurement. If the model fits, the variance of the gradient of
# one observation equals its Fisher information. This gives V = N / (n v), and the
# excess is eps N / (4 n v). So **without control variates begin with v n/N**, for an
# excess of a quarter or less. Here that is a hundredth of v, ten times less than with
# control variates. This gain is the purpose of control variates.

print(f"the rule says for sgld: {start * N / (4 * n * narrowest):.2f}")
if not SHORT:
    without_cv[0.1] = run(sgld, start / 10)

# %%
# Sign 4: the kinetic temperature
# -------------------------------
# For a sampler with momentum, the temperature is known too. The momentum should have
# variance eps, so the mean of its square, divided by eps, should be 1. For `sghmc` the
# correct value is ``1 / (1 - alpha/2)``, which is nearly 1 with the default alpha,
# 0.01. Gradient noise makes it larger: the chain is too hot, and its distribution too
# wide. ``out.summary()`` shows the temperature of each parameter, with a 99% band and
# the correct value. A run warns if the temperature is off by more than a tenth, and by
# more than its band allows. The remedy is a smaller stepsize, a larger minibatch, or
# control variates. More friction, `alpha`, helps a little. `sgnht` adapts its friction
# to the noise, as far as one number for each parameter array can, and in steps of the
# order of the stepsize.

leaps = {"nIters": N_ITERS // 10}
temperature = {}
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # some of these are too hot on purpose
    for factor in (1,) if SHORT else (0.01, 0.1, 1):
        runs = {
            "sghmc": run(sghmc, factor * start, **leaps),
            "sghmccv": run(sghmccv, factor * start, **leaps, **search),
        }
        temperature[factor * start] = {
            name: float(out.sampleStats["kinetic_temperature"].mean())
            for name, out in runs.items()
        }
temperature = pd.DataFrame(temperature).T.rename_axis("stepsize")
print(temperature.round(2).to_string())

# %%
# Sign 5: half the stepsize
# -------------------------
# Here we do by hand what ``checkStepsize`` does, for ten times the stepsize that we
# began with:

half = run(sgldcv, 5 * start, **search)
changed = sd_of(with_cv[10]) - sd_of(half)
print(
    f"standard deviation: {sd_of(with_cv[10]):.3f}, with half the stepsize "
    f"{sd_of(half):.3f}, exact 1"
)
print(f"it changed by {changed:.3f}; what is left is {sd_of(half) - 1:.3f}")

# %%
# The picture
# -----------
# Left: the traces. Middle: the standard deviation along the narrowest direction,
# relative to the exact one. Points are runs. Lines are the theory for a normal
# posterior, with the gradient noise of `sgld` by the rule above. Right: the
# temperature. Dashed lines mark the correct values, and grey lines the stepsize to
# begin with.

with_cv[5] = half
blue, red = "#4477aa", "#cc6677"
plt.rcParams.update(
    {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False}
)
figure = plt.figure(figsize=(9, 3.8), layout="constrained")
left, right = figure.subfigures(1, 2, width_ratios=[1, 2])

shown = [factor for factor in (0.001, 1, 10) if factor in with_cv]
axes = left.subplots(len(shown), 1, sharex=True, sharey=True)
for ax, factor in zip(axes, shown, strict=True):
    chain = along(with_cv[factor])[: N_ITERS // 20]
    ax.plot(np.arange(len(chain)), chain, color=blue, linewidth=0.5)
    ax.set_title(f"stepsize {factor * start:.1e}", loc="left", fontsize="medium")
    ax.set(ylim=(-5, 5), xlim=(0, len(chain)))
axes[1].set_ylabel("sd from the mode")
axes[-1].set_xlabel("iteration")
axes[-1].xaxis.set_major_locator(plt.MaxNLocator(3))
axes[-1].xaxis.set_major_formatter("{x:,.0f}")

middle, last = right.subplots(1, 2)
eps = np.geomspace(start / 20, 3.9 * narrowest, 200)
for name, noise, colour, runs in (
    ("sgldcv", 0, blue, with_cv),
    ("sgld", N / (n * narrowest), red, without_cv),
):
    middle.plot(
        eps,
        np.sqrt((1 + eps * noise / 4) / (1 - eps / (4 * narrowest))),
        color=colour,
        linewidth=1,
    )
    points = {
        factor * start: sd_of(out) for factor, out in runs.items() if factor >= 0.05
    }
    middle.plot(
        points.keys(), points.values(), "o", color=colour, markersize=5, label=name
    )
middle.axhline(1, color="black", linewidth=1, linestyle="--", label="exact")
middle.axvline(start, color="0.7", linewidth=1, zorder=0, label="a tenth of v")
middle.plot([], [], color="0.4", linewidth=1, label="theory")
middle.set(
    xscale="log",
    xlabel="stepsize",
    ylabel="sd, relative to the posterior's",
    ylim=(0.8, 4),
)
middle.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3, frameon=False)

for name, colour in (("sghmccv", blue), ("sghmc", red)):
    last.plot(
        temperature.index,
        temperature[name],
        "o-",
        color=colour,
        markersize=5,
        linewidth=1,
        label=name,
    )
last.axhline(1, color="black", linewidth=1, linestyle="--", label="right")
last.axvline(start, color="0.7", linewidth=1, zorder=0, label="a tenth of v")
last.set(xscale="log", yscale="log", xlabel="stepsize", ylabel="kinetic temperature")
last.yaxis.set_major_formatter("{x:g}")
last.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, frameon=False)

# sphinx_gallery_start_ignore
figure.savefig("tuning.png", dpi=150)
# sphinx_gallery_end_ignore
