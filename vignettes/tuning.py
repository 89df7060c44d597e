"""
Tuning: a stepsize that is found, and how to see that one is wrong
==================================================================

Every sampler of this package has a stepsize. Too small, and the chain hardly moves; too large, and its distribution is
not the posterior; much too large, and it diverges. There is no acceptance rate that would tell. Most users need not
choose one: it can be worked out before the run. This vignette shows how, what is then left to decide, and how the
answer is checked; and, for those who choose a stepsize themselves, the signs of a bad one.

Run it from anywhere, with ``python vignettes/tuning.py``. It takes a minute or two.
"""

import os
import warnings
from pathlib import Path

import matplotlib

matplotlib.use("Agg")  # draw to a file, with or without a display

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

ROOT = Path(__file__).resolve().parents[1]
SHORT = os.environ.get("SGMCMC_VIGNETTES") == "short"  # for the tests
N_ITERS = 2_000 if SHORT else 60_000

# %%
# The model
# ---------
# Bayesian logistic regression on 10,000 simulated observations. The features have different scales, so the posterior is
# narrow in some directions and wide in others, as posteriors are.

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
# Without a stepsize, ``stepsize="auto"`` holds. The sampler finds the mode and the curvature there, moves in
# coordinates in which the posterior looks alike in all directions, measures the noise of the gradients where the chain
# will be, and takes the largest stepsize with which every standard deviation is expected to be within 5% of the
# posterior's.

common = {"logPrior": logPrior, "minibatchSize": n, "nIters": N_ITERS, "verbose": False, "seed": 1}
found = sgldcv(logLik, dataset, {"beta": np.zeros(4)}, **common)
expected = found.settings["expected"]
print(f"stepsize {expected['stepsize']:.3f}, relative to the curvature")
print(f"error of a standard deviation, expected: {expected['error']:.1%} at most")
print(f"iterations for one independent draw, expected: {expected['iterations']:.0f}")
print(f"the search for the mode stopped {expected['distance']:.4f} standard deviations away from it")

# %%
# Was that kept? With 10,000 observations the posterior is nearly normal, so the inverse of the curvature at the mode is
# nearly its covariance. Here is the curvature by Newton's method, in NumPy.

beta = np.zeros(4)
for _ in range(10):
    p = 1 / (1 + np.exp(-X @ beta))
    curvature = (X.T * (p * (1 - p))) @ X + np.eye(4)
    beta += np.linalg.solve(curvature, X.T @ (y - p) - beta)
exact = np.sqrt(np.diag(np.linalg.inv(curvature)))

table = found.summary()[["mean", "sd", "expected_sd_ratio", "ess_bulk", "r_hat"]]
table.insert(2, "sd_ratio", found["beta"].std(axis=0) / exact)
print(table.round(3).to_string())

# %%
# What is left to choose
# ----------------------
# The sampler; how long it runs, for which ``expected["iterations"]`` is the unit; and how many observations a minibatch
# has. More of them mean less noise, a larger stepsize, and fewer but dearer iterations. A session that has begun knows
# what to expect, before any iteration is made:

costs = {}
for size in (10, 30, 100) if SHORT else (10, 30, 100, 300, 1000):
    sampler = sgldcvSetup(logLik, dataset, {"beta": np.zeros(4)}, logPrior=logPrior, minibatchSize=size, seed=1)
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
# The time of an iteration does not fall with n for ever: below some tens of observations other things take longer.
# ``expected["minibatchSize"]`` is from where on doubling n no longer comes near to doubling the stepsize.
#
# The check
# ---------
# ``checkStepsize`` runs again at half the stepsize, twice as long, and tells by how much means and standard deviations
# change, in Monte Carlo standard errors. What a stepsize does wrong is halved with it, so **the change is about as
# large as the error that is left.** This works for every sampler and every quantity, and asks nothing of the posterior.
# With the tolerance that was promised, and with a large one:

checks = {
    tolerance: checkStepsize(
        sgldcv, logLik, dataset, {"beta": np.zeros(4)}, **common | {"nIters": N_ITERS // 2}, tolerance=tolerance
    )
    for tolerance in (0.05, 0.3)
}
for tolerance, check in checks.items():
    print(f"tolerance {tolerance}: {check.attrs['worst']}")
    print(check[["sd", "sd_half", "sd_change"]].round(4).to_string())

# %%
# Where it cannot be found
# ------------------------
# The curvature at one mode says little of a posterior with several, or of a neural network. There ``tune`` tries many
# settings for a short time, and the best third of them for three times as long, until one is left. What is best is said
# by the kernel Stein discrepancy, which needs draws and gradients only. Here for `sgld`, which has no control variates:

grid = list(10.0 ** np.arange(-7, -3, 1.0 if SHORT else 0.5))
tuned = tune(sgld, logLik, dataset, {"beta": beta}, grid, logPrior=logPrior, minibatchSize=n, verbose=False, seed=1)
print(tuned.settings)
print(tuned.table.to_string(index=False))

# %%
# A stepsize of your own
# ----------------------
# A stepsize is a variance on the scale of the parameters, so it is measured against the variances of the posterior.

precisions, directions = np.linalg.eigh(curvature)  # in increasing order
narrowest, widest, direction = 1 / precisions[-1], 1 / precisions[0], directions[:, -1]
print(f"variance of the posterior: {narrowest:.2e} in the narrowest direction, {widest:.2e} in the widest")

# %%
# Along a direction of variance v, and if the gradient has no noise, a chain of SGLD with stepsize eps is known exactly
# for a normal posterior:
#
# - it forgets its position within about 2 v / eps iterations;
# - its variance is v / (1 - eps / 4v), too large by a factor of about 1 + eps / 4v;
# - above eps = 4 v it diverges.
#
# So the narrowest direction bounds the stepsize, and the widest one says how long to run. **Begin with a tenth of the
# variance of the narrowest direction.** There the standard deviation is 1.3% too large.

start = narrowest / 10
print(f"stepsize to begin with: {start:.1e}; 1/N is {1 / N:.1e}")
print(f"in the widest direction the chain then forgets within about {2 * widest / start:.0f} iterations")

# %%
# Sign 1: the trace
# -----------------
# Three stepsizes: a thousandth of that, that, and ten times that, which is the variance of the narrowest direction.
# Look at the left of the picture below: the first chain hardly moves and has not yet been anywhere; the second wanders,
# but crosses the posterior many times; the third looks best of all, and is 16% too wide. **A trace shows that a
# stepsize is too small. It never shows that it is too large.**
#
# The chains start at the mode, which is known by now; so those with control variates need not search for it, and
# ``nItersOpt=0`` says so.

search = {"optStepsize": 1e-5, "nItersOpt": 0}


def run(sampler, stepsize, **arguments):
    return sampler(logLik, dataset, {"beta": beta}, stepsize, **common | arguments)


def along(out):
    """The chain along the narrowest direction, from the mode, in standard deviations of the posterior."""
    return (out["beta"].astype(float) - beta) @ direction / np.sqrt(narrowest)


def sd_of(out):
    """The standard deviation of that; it should be 1."""
    return along(out)[N_ITERS // 20 :].std()


with_cv = {
    factor: run(sgldcv, factor * start, gradients=factor == 1, **search)  # gradients: see the third sign
    for factor in ((1, 10) if SHORT else (0.001, 1, 10))
}

# %%
# Sign 2: the divergence error
# ----------------------------
# A chain that leaves the finite numbers is an error, which says where, and keeps the draws before it. But do not rely
# on it. It comes where the gradient grows at least as fast as the distance, as for a normal posterior. The gradient of
# a logistic regression is bounded, and so a chain with six times the narrowest variance, where a normal one diverges,
# goes on, and is wrong. Here only the prior, of precision 1, brings the error, when the stepsize exceeds 4.

if not SHORT:
    far_too_wide = sd_of(run(sgldcv, 60 * start, **search))
    print(f"stepsize {60 * start:.1e}: standard deviation {far_too_wide:.1f} times the exact one")
try:
    run(sgldcv, 5.0, **search)
except DivergenceError as error:
    print(f"stepsize 5: {error}")

# %%
# Sign 3: the noise of the minibatches
# ------------------------------------
# So far the gradient was taken to be without noise. That of a minibatch adds to the noise that is injected on purpose:
# with V the variance of the gradient's noise, an update has noise of variance eps + eps^2 V / 4. So **eps V / 4 is the
# noise that is too much, as a share of what should be**, and the variance of the chain is too large by that share.
#
# `sgld` measures it by itself: ``variance_ratio`` in ``out.summary()`` is 1 plus eps/4 times the mean square of the
# gradients, which for a normal posterior is the variance of the chain relative to the right one, with the error of the
# finite step; above 1.4 there is a warning. One can also look along a direction: with ``gradients=True`` a run keeps an
# estimate of the gradient at each draw, from a minibatch of its own. What is left of it when the gradient itself is
# taken away, here that of the normal approximation, is noise.


def share(out):
    """eps V / 4 along the narrowest direction."""
    noise = out.gradients["beta"] + (out["beta"] - beta) @ curvature
    return start / 4 * np.var(noise @ direction)


without_cv = {1: run(sgld, start, gradients=True)}
print(f"sgld: a share of {share(without_cv[1]):.3f}; sgldcv: a share of {share(with_cv[1]):.3f}")

# %%
# Without control variates, the stepsize that we began with is far too large. There is a rule for this without any
# measurement: if the model fits, the gradient of one observation varies as much as it informs, which gives
# V = N / (n v), and the share is eps N / (4 n v). So **without control variates begin with v n/N**, for a share of a
# quarter, or less. Here that is a hundredth of v, ten times less than with control variates; the difference is what
# they are for.

print(f"the rule says for sgld: {start * N / (4 * n * narrowest):.2f}")
if not SHORT:
    without_cv[0.1] = run(sgld, start / 10)

# %%
# Sign 4: the kinetic temperature
# -------------------------------
# A sampler with momentum has a thermometer. The momentum should have variance eps, so the mean of its square over eps
# should be 1; for `sghmc` it should be 1 / (1 - alpha/2), where the positions are right, which with the default, 0.01,
# is nearly the same. If the gradients are noisy it is above: the chain is too hot, and its law too wide.
# ``out.summary()`` shows the temperature of each parameter with a band of 99% and the right one; a run warns if it is
# off by more than a tenth beyond doubt. The remedy is a smaller stepsize, a larger minibatch, or control variates. More
# friction, `alpha`, helps a little, and `sgnht` adapts its friction to the noise by itself, as far as one number for
# each parameter array can, and by steps of the order of the stepsize.

leaps = {"nIters": N_ITERS // 10}
temperature = {}
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # that some of these are too hot is the point
    for factor in (1,) if SHORT else (0.01, 0.1, 1):
        runs = {
            "sghmc": run(sghmc, factor * start, **leaps),
            "sghmccv": run(sghmccv, factor * start, **leaps, **search),
        }
        temperature[factor * start] = {
            name: float(out.sampleStats["kinetic_temperature"].mean()) for name, out in runs.items()
        }
temperature = pd.DataFrame(temperature).T.rename_axis("stepsize")
print(temperature.round(2).to_string())

# %%
# Sign 5: half the stepsize
# -------------------------
# What ``checkStepsize`` does, by hand, for ten times the stepsize that we began with:

half = run(sgldcv, 5 * start, **search)
changed = sd_of(with_cv[10]) - sd_of(half)
print(f"standard deviation: {sd_of(with_cv[10]):.3f}, with half the stepsize {sd_of(half):.3f}, exact 1")
print(f"it changed by {changed:.3f}; what is left is {sd_of(half) - 1:.3f}")

# %%
# The picture
# -----------
# Left, the traces. In the middle, the standard deviation along the narrowest direction, in units of the exact one: the
# points are runs, the lines what the theory of a normal posterior says, where the noise of `sgld` is that of the rule.
# Right, the temperature.

with_cv[5] = half
blue, red = "#4477aa", "#cc6677"
plt.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False})
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
for name, noise, colour, runs in (("sgldcv", 0, blue, with_cv), ("sgld", N / (n * narrowest), red, without_cv)):
    middle.plot(eps, np.sqrt((1 + eps * noise / 4) / (1 - eps / (4 * narrowest))), color=colour, linewidth=1)
    points = {factor * start: sd_of(out) for factor, out in runs.items() if factor >= 0.05}
    middle.plot(points.keys(), points.values(), "o", color=colour, markersize=5, label=name)
middle.axhline(1, color="black", linewidth=1, linestyle="--")
middle.axvline(start, color="0.8", linewidth=1, zorder=0)
middle.set(xscale="log", xlabel="stepsize", ylabel="sd, relative to the posterior's", ylim=(0.8, 4))
middle.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, frameon=False)

for name, colour in (("sghmccv", blue), ("sghmc", red)):
    last.plot(temperature.index, temperature[name], "o-", color=colour, markersize=5, linewidth=1, label=name)
last.axhline(1, color="black", linewidth=1, linestyle="--")
last.axvline(start, color="0.8", linewidth=1, zorder=0)
last.set(xscale="log", yscale="log", xlabel="stepsize", ylabel="kinetic temperature")
last.yaxis.set_major_formatter("{x:g}")
last.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, frameon=False)

path = ROOT / "vignettes" / "figures" / "tuning.png"
path.parent.mkdir(exist_ok=True)
figure.savefig(path, dpi=150)
print(f"\nFigure written to {path}")
