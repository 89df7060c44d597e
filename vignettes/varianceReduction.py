"""
Less noise: control variates, preferential subsampling, SVRG, SAGA and adaptive sizes
=====================================================================================

A minibatch gives a noisy gradient, and this noise limits the stepsize. Several methods
reduce it without more observations. This vignette measures each on one problem, in
which few observations matter most: what it gains, what it costs, and where it stops
helping.

Run it from anywhere, with ``python vignettes/varianceReduction.py``. It takes about two
minutes. With ``SGMCMC_VIGNETTES=short`` in the environment it is shorter, for the
tests.
"""

# sphinx_gallery_start_ignore
import os

import matplotlib

matplotlib.use("Agg")  # draw to a file, with or without a display
# sphinx_gallery_end_ignore

import time
import warnings

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import tensorflow as tf

from sgmcmc import (
    adaptive,
    controlVariates,
    getParams,
    initSess,
    plotRunning,
    preferential,
    saga,
    sgld,
    sgldcv,
    sgldSetup,
    sgmcmcStep,
    svrg,
)
from sgmcmc.diagnostics import fullGradients, pseudoVariance, zvControlVariates

SHORT = False  # whether to run less
# sphinx_gallery_start_ignore
SHORT = os.environ.get("SGMCMC_VIGNETTES") == "short"  # for the tests
# sphinx_gallery_end_ignore

# %%
# Data in which few observations matter
# -------------------------------------
# The model is a logistic regression on simulated data. The covariates are indicators of
# two rare categories, with 1% and 0.4% of the observations, and four heavy-tailed
# variables (Student's t with 3 degrees of freedom). All are standardised, so the
# parameters are about equally well known.

N, n = (5_000 if SHORT else 50_000), 50
rng = np.random.default_rng(1)
rare = rng.random((N, 2)) < [0.01, 0.004]
covariates = np.column_stack([rare, rng.standard_t(3, size=(N, 4))])
logit = -2 + covariates @ [-0.5, 1.0, 0.3, -0.3, 0.2, 0.0]
y = rng.random(N) < 1 / (1 + np.exp(-logit))
X = np.column_stack(
    [np.ones(N), (covariates - covariates.mean(axis=0)) / covariates.std(axis=0)]
)
dataset = {"X": X, "y": y}


def logLik(params, dataset):
    eta = tf.linalg.matvec(dataset["X"], params["beta"])
    return tf.reduce_sum(dataset["y"] * eta - tf.nn.softplus(eta))


def logPrior(params):
    return -0.5 * tf.reduce_sum(params["beta"] ** 2)


# %%
# We compute the mode by Newton's method in NumPy, and the curvature there, whose
# inverse is nearly the covariance of the posterior. All samplers are given this mode,
# so their searches are short.

mode = np.zeros(7)
for _ in range(20):
    p = 1 / (1 + np.exp(-X @ mode))
    curvature = (X.T * (p * (1 - p))) @ X + np.eye(7)
    mode += np.linalg.solve(curvature, X.T @ (y - p) - mode)
params = {"beta": mode}
covariance = np.linalg.inv(curvature)
sds, root = np.sqrt(np.diag(covariance)), np.linalg.cholesky(covariance)
print(
    f"{N:,} observations, {y.mean():.1%} of them positive; posterior sds "
    f"{sds.min():.4f} to {sds.max():.4f}"
)

# %%
# The noise, and how far control variates reach
# ---------------------------------------------
# ``pseudoVariance`` is the variance of the estimated gradient at given points, summed
# over all parameters. It is exact, computed from all data. We take points at several
# distances from the mode, in posterior standard deviations. A natural unit for the
# variance is the trace of the curvature. In this unit the variance of the plain
# estimate is about N / n, here 1000, if the model fits.
#
# ``preferential()`` draws observations with larger terms more often, and divides each
# term by its probability. With control variates the terms are differences from the
# mode, and their sizes are those expected under the posterior.

SAMPLERS = {
    "plain": {},
    "plain, preferential": {"subsampling": preferential()},
    "control variates": {"gradient": controlVariates()},
    "control variates, preferential": {
        "gradient": controlVariates(),
        "subsampling": preferential(),
    },
}
common = {"logPrior": logPrior, "minibatchSize": n, "seed": 1}

distances = np.geomspace(0.1, 100, 4 if SHORT else 10)
directions = rng.normal(size=(2, 7))
directions *= np.sqrt(7) / np.linalg.norm(
    directions, axis=1, keepdims=True
)  # as long as draws, on average
points = {"beta": np.concatenate([mode + r * directions @ root.T for r in distances])}


def noise_at_points(optimal=False, **settings):
    sampler = sgldSetup(
        logLik, dataset, params, stepsize=1e-5, **common | settings
    )  # the stepsize has no effect here
    found = pseudoVariance(sampler, points, optimal=optimal) / np.trace(curvature)
    return found.reshape(len(distances), -1).mean(axis=1)


noise = {name: noise_at_points(**settings) for name, settings in SAMPLERS.items()}
noise["without a floor"] = noise_at_points(
    gradient=controlVariates(), subsampling=preferential(floor=0.0)
)
noise["the least possible"] = noise_at_points(optimal=True, gradient=controlVariates())
noise = pd.DataFrame(noise, index=pd.Index(distances, name="sds from the mode"))
print(noise.iloc[::3].to_string(float_format="{:.3g}".format))

# %%
# Panel a of the picture below shows the results. The noise of the plain estimate is
# nearly the same wherever the chain is. The noise of control variates grows with the
# square of the distance: at one standard deviation from the mode it is nearly 400 times
# smaller, at fifty it is half. Control variates suit a chain that stays around one
# mode, and this mode must have been found.
#
# Preferential subsampling makes the noise of control variates 24 times smaller, with
# weights computed once. This is within a factor of two of the smallest possible noise,
# which needs new probabilities from all data at every point. Far from the mode the
# weights are wrong. There ``floor=0.1``, which draws a tenth of the observations
# uniformly, bounds the noise. Without it, an observation with a small probability is
# occasionally drawn, with an enormous weight.
#
# The weights
# -----------
# With control variates, an observation matters to the extent that its gradient changes
# between the mode and the chain: by its Hessian, times the width of the posterior. For
# a logistic regression we can compute this by hand, and ``preferential(hessian)`` would
# accept such weights. By these weights, the half of the data that matters least makes
# up a sixth of a minibatch (panel b).

hessian = (p * (1 - p)) * np.sqrt(
    (X**2).sum(axis=1) * np.einsum("ij,jk,ik->i", X, covariance, X)
)
probabilities = 0.9 * hessian / hessian.sum() + 0.1 / N
ordered = np.sort(probabilities)[::-1]
share = pd.Series(
    {f"{k:.0%}": ordered[: round(k * N)].sum() for k in (0.01, 0.1, 0.5)},
    name="share of the minibatch",
)
print(
    share.map("{:.0%}".format)
    .rename_axis("of the observations, the heaviest")
    .to_string()
)
in_rare = probabilities[rare.any(axis=1)].sum() / rare.any(axis=1).mean()
print(
    f"an observation of a rare category is drawn {in_rare:.1f} times as often as with "
    "equal probabilities"
)

# %%
# Stepsize and time
# -----------------
# Less noise allows larger steps, and so fewer iterations per independent draw. A
# session that has begun knows its stepsize and its predictions.
#
# SVRG and SAGA need no mode for their estimates. SVRG moves the centre of the
# differences to the current position of the chain at regular intervals, with a full
# pass each time: by default after its minibatches have read 10 N observations. SAGA
# stores the last gradient of each observation, in a table with N numbers for each
# parameter. Both remember where the chain was: at a typical draw, not at the mode. So
# their noise is up to twice that of control variates around the mode, and "auto"
# assumes twice.

SAMPLERS |= {"SVRG": {"gradient": svrg()}, "SAGA": {"gradient": saga()}}
STEPS = 100 if SHORT else 50_000
both = ("control variates", "control variates, preferential")
rows = {}
for name in ("plain", *both) if SHORT else SAMPLERS:
    sampler = sgldSetup(logLik, dataset, params, **common | SAMPLERS[name])
    sess = initSess(sampler, verbose=False)
    sgmcmcStep(sampler, sess, nSteps=STEPS)  # the first time it is compiled
    began = time.perf_counter()
    sgmcmcStep(sampler, sess, nSteps=STEPS)
    getParams(sampler, sess)
    rows[name] = {
        "stepsize": sampler.expected["stepsize"],
        "iterations per draw": sampler.expected["iterations"],
        "µs per iteration": 1e6 * (time.perf_counter() - began) / STEPS,
    }
found = pd.DataFrame(rows).T
found["draws per second"] = 1e6 / (
    found["iterations per draw"] * found["µs per iteration"]
)
print(found.to_string(float_format="{:.3g}".format))
print(
    f"SAGA's table has {N * 7:,} numbers, {4 * N * 7 / 1e6:.1f} MB for each chain, "
    "and three times that while it runs"
)

# %%
# Panel c shows the iterations. The direction with most noise limits the stepsize.
# Weights that are made for the sum over all directions reduce the noise there less. So
# preferential subsampling alone gains little here; together with control variates it
# gains a factor of ten in iterations. (Times are from one machine and depend on its
# load.) SAGA's iterations include updating its table, which matters less if `logLik` is
# more expensive. SVRG makes a full pass from time to time, by default a tenth of all
# the observations that it reads.
#
# Without the mode
# ----------------
# Suppose that the mode cannot be found, so that control variates have to be centred at
# a wrong point. Here all chains begin at zero, some fifty standard deviations away, and
# with ``nItersOpt=0`` the search ends where it begins. The noise of SVRG and SAGA
# depends on where the chain has been, so no formula gives it. But a run with
# ``gradients=True`` stores an estimate at each draw, and ``fullGradients`` computes
# what it should be. The difference is the noise. Rare observations occasionally make it
# large, so we take the median over 20 chains.

EVERY, KEPT = (
    (200 if SHORT else 1_500),
    100,
)  # iterations: between full gradients of SVRG, and between draws that are kept
from_zero = common | {
    "stepsize": 0.003,
    "preconditioner": covariance,
    "nIters": 800 if SHORT else 6_000,
    "nChains": 2 if SHORT else 20,
    "thin": KEPT,
    "gradients": True,
    "verbose": False,
}
estimators = {
    "control variates": controlVariates(nItersOpt=0),
    "SVRG": svrg(EVERY),
    "SAGA": saga(),
}
measured = {}
for name, gradient in list(estimators.items())[: 2 if SHORT else 3]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # chains begin far away on purpose
        out = sgld(
            logLik, dataset, {"beta": np.zeros(7)}, gradient=gradient, **from_zero
        )
    exact = fullGradients(out, logLik, dataset, logPrior, verbose=False)
    squares = ((out.gradients["beta"] - exact["beta"]) ** 2).sum(axis=-1)
    measured[name] = np.median(squares, axis=0) / np.trace(curvature)
measured = pd.DataFrame(
    measured,
    index=pd.Index(KEPT * np.arange(1, 1 + len(measured["SVRG"])), name="iteration"),
)
print("Noise, in units of the trace of the curvature:")
print(measured.iloc[:: len(measured) // 8].to_string(float_format="{:.2g}".format))

# %%
# In panel d, control variates around a wrong point are little better than the plain
# estimate, whose noise is about 1000 (panel a). SVRG is much better from its second
# full gradient on. Its noise then falls when the centre is renewed, and grows as the
# chain moves away from it. SAGA improves gradually, because it sees an observation once
# in N / n = 1000 iterations, on average.
#
# Adaptive sizes
# --------------
# ``minibatchSize=adaptive()`` takes enough observations to keep the noise within a
# bound: more, the farther the chain is from the mode. A pilot chain with minibatches of
# size `pilot` shows how far that usually is. At the 95% quantile of its squared
# distances, the size is that of the pilot. The chain begins at zero again. Once it has
# settled, we compare its noise with that of minibatches of fixed size: the pilot's, or
# the average of the adaptive ones.

PILOT = 400
settled = 200 if SHORT else 1_000
cv = common | {"stepsize": 0.1, "preconditioner": covariance}
adapted = sgldcv(
    logLik, dataset, params, **cv | {"minibatchSize": adaptive(pilot=PILOT)},
    nIters=3 * settled, verbose=False,
    nChains=1, starts={"beta": np.zeros((1, 7))},
)  # fmt: skip
sizes = adapted.sampleStats["minibatch_size"][0]
average = round(sizes[settled:].mean())
where = {"beta": adapted["beta"][0, settled :: settled // 30]}
rows = {}
for name, size in {
    "adaptive": adaptive(pilot=PILOT),
    "the pilot's": PILOT,
    "the average": average,
}.items():
    sampler = sgldSetup(
        logLik,
        dataset,
        params,
        gradient=controlVariates(),
        **cv | {"minibatchSize": size},
    )
    of_draws = pseudoVariance(sampler, where) / np.trace(curvature)
    rows[name] = {
        "observations": PILOT if size == PILOT else average,
        "noise, mean": of_draws.mean(),
        "noise, 95% quantile": np.quantile(of_draws, 0.95),
    }
by_size = pd.DataFrame(rows).T.rename_axis("minibatch size")
print(
    f"at most {sizes.max():,.0f} observations, while the chain comes from zero; then "
    f"{average} on average"
)
print(by_size.to_string(float_format="{:.3g}".format))

# %%
# Far from the mode a minibatch has nearly all data; where the chain settles, it has 40%
# less than the pilot's (panel e). But in a chain that has converged, adaptive sizes
# save nothing. The noise is proportional to the squared distance, and so are the sizes.
# So on average a fixed size does as well with as many observations. **Their advantage
# is a bound: no large noise where a chain begins or strays, and few observations
# elsewhere.** The distance is in the units of the parameters, which should therefore be
# about equally well known. With many parameters it hardly varies, and there is little
# to adapt to.
#
# After the run: zero-variance control variates
# ---------------------------------------------
# Gradients stored with the draws can make means more precise, by a linear regression
# after the run. The less noise they have, the better this works. With preferential
# subsampling, one run gives both: more independent draws, and means that are nearly
# eight times as precise as those of the draws alone (panel f).

zero_variance, rows = {}, {}
for name in both[1:] if SHORT else both:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the first run is short, which is harmless
        out = sgld(
            logLik, dataset, params, **common | SAMPLERS[name],
            nIters=500 if SHORT else 5_000, gradients=True,
            verbose=False,
        )  # fmt: skip
    zero_variance[name] = out, (zv := zvControlVariates(out))
    rows[name] = {
        "variance left": zv.varianceFactor["beta"].mean(),
        "error before, in sds": (zv.mcseBefore["beta"] / sds).mean(),
        "error after, in sds": (zv.mcse["beta"] / sds).mean(),
    }
print(pd.DataFrame(rows).T.to_string(float_format="{:.2g}".format))

# %%
# The picture
# -----------
# Control variates are blue, the plain estimate is red. Solid lines and filled circles
# are preferential subsampling; dashed lines and open circles are uniform minibatches.
# "c.v." is short for control variates. Noise is in units of the trace of the curvature.

RED, BLUE, GREEN, OCHRE, GREY = "#cc6677", "#4477aa", "#228833", "#b8860b", "0.45"
plt.rcParams.update(
    {
        "font.size": 9,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.titlesize": "medium",
    }
)
figure, axes = plt.subplot_mosaic(
    [
        ["noise", "noise", "weights"],
        ["noise", "noise", "iterations"],
        ["along", "sizes", "after"],
    ],
    figsize=(9, 7.6), height_ratios=[1, 1, 1.15], layout="constrained",
)  # fmt: skip
titles = {
    "noise": "a. Noise of the gradient, at a distance from the mode",
    "weights": "b. What preferential chose",
    "iterations": "c. Iterations per independent draw",
    "along": "d. Noise of chains that begin far away",
    "sizes": "e. Minibatches of adaptive size",
    "after": "f. Zero-variance control variates",
}
for name, title in titles.items():
    axes[name].set_title(title, loc="left")

ax = axes["noise"]
styles = {
    "plain": (RED, "--"),
    "plain, preferential": (RED, "-"),
    "control variates": (BLUE, "--"),
    "control variates, preferential": (BLUE, "-"),
    "without a floor": (BLUE, ":"),
    "the least possible": (GREY, "-"),
}
for name, (colour, style) in styles.items():
    label = {
        "without a floor": "the same, without a floor",
        "the least possible": "the same, the least possible",
    }
    ax.plot(
        noise.index,
        noise[name],
        style,
        color=colour,
        linewidth=1.4,
        label=label.get(name, name),
    )
ax.axvline(1, color="0.8", linewidth=1, zorder=0)
ax.set(
    xscale="log",
    yscale="log",
    xlabel="distance, in posterior standard deviations",
    ylabel="variance of the noise",
)
ax.set(xlim=(distances[0], distances[-1]), ylim=(None, 2e5))
ax.annotate("where the chain is", (1, 0), (4, 5),
            xycoords=("data", "axes fraction"), textcoords="offset points",
            color=GREY)  # fmt: skip
ax.xaxis.set_major_formatter("{x:g}")
ax.legend(loc="lower right", bbox_to_anchor=(1, 0.06), frameon=False)

ax = axes["weights"]
ax.plot(np.arange(1, N + 1) / N, N * ordered, color=BLUE, linewidth=1.4)
ax.axhline(1, color=BLUE, linewidth=1, linestyle="--")
ax.axhline(0.1, color=GREY, linewidth=1, linestyle=":")
ax.annotate("uniform", (1 / N, 1), (3, 3), textcoords="offset points", color=BLUE)
ax.annotate("floor", (1 / N, 0.1), (3, 3), textcoords="offset points", color=GREY)
ax.set(xscale="log", yscale="log", xlim=(1 / N, 1), ylim=(0.05, None))
ax.set(xlabel="share of the data, heaviest first", ylabel="relative frequency")
ax.yaxis.set_major_formatter("{x:g}")

ax = axes["iterations"]
short = {
    "control variates": "c.v.",
    "plain, preferential": "plain, pref.",
    "control variates, preferential": "c.v., pref.",
}
colours = {"SVRG": GREEN, "SAGA": OCHRE} | {
    name: colour for name, (colour, _) in styles.items()
}
places = np.arange(len(found))[::-1]
ax.hlines(places, 1, found["iterations per draw"], color="0.85", linewidth=1)
for place, (name, iterations) in zip(
    places, found["iterations per draw"].items(), strict=True
):
    filled = "preferential" in name
    ax.plot(
        iterations,
        place,
        "o",
        color=colours[name],
        markersize=6,
        markerfacecolor=colours[name] if filled else "w",
    )
    ax.annotate(
        f"{iterations:,.0f}",
        (iterations, place),
        (6, -3),
        textcoords="offset points",
        fontsize="small",
    )
ax.set_yticks(places, [short.get(name, name) for name in found.index])
ax.tick_params(axis="y", length=0)
ax.set(xscale="log", xlim=(5, 2e5), ylim=(-0.6, len(found) - 0.4))

ax = axes["along"]
for name in measured:
    style = "--" if name == "control variates" else "-"
    ax.plot(
        measured[name],
        style,
        color=colours[name],
        linewidth=1.2,
        label=short.get(name, name),
    )
ax.set(
    yscale="log",
    xlabel="iteration",
    ylabel="squared noise, median",
    xlim=(0, measured.index[-1]),
    ylim=(0.05, 2e4),
)
ax.xaxis.set_major_formatter("{x:,.0f}")
ax.legend(
    loc="upper center",
    frameon=False,
    fontsize="small",
    ncols=3,
    columnspacing=1,
    handlelength=1.5,
)

ax = axes["sizes"]
ax.plot(np.arange(1, 1 + len(sizes)), sizes, color=BLUE, linewidth=0.8)
ax.axhline(PILOT, color="black", linewidth=1, linestyle="--", zorder=3)
ax.annotate("dashed: 400, the pilot's", (len(sizes), 2_000), ha="right")
ax.annotate("all", (len(sizes) / 50, N), (8, -3), textcoords="offset points")
ax.set(
    yscale="log",
    xlabel="iteration",
    ylabel="observations",
    xlim=(0, len(sizes)),
    ylim=(20, 1.5 * N),
)
ax.xaxis.set_major_formatter("{x:,.0f}")
ax.yaxis.set_major_formatter("{x:,.0f}")

ax = axes["after"]
draws, zv = zero_variance["control variates, preferential"]
for values, label in (
    (draws["beta"], "of the draws"),
    (zv.values["beta"], "with control variates"),
):
    plotRunning((values[:, 3] - mode[3]) / sds[3], label=label, ax=ax)
for line, colour in zip(ax.lines, (GREY, BLUE), strict=True):
    line.set_color(colour)
ax.legend(frameon=False, fontsize="small")
ax.set(ylim=(-0.3, 0.3), ylabel="running mean, in sds")
ax.xaxis.set_major_locator(plt.MaxNLocator(3))

# sphinx_gallery_start_ignore
figure.savefig("varianceReduction.png", dpi=150)
# sphinx_gallery_end_ignore

# %%
# Which to use
# ------------
# - *One mode, which can be found*: control variates, with ``preferential()`` if few
#   observations matter. To see before the run whether they do, compare the stepsizes in
#   `sampler.expected`.
# - *Several modes, or none found*: `saga` if N is small enough for its table, `svrg`
#   otherwise.
# - *A chain that may stray far from the mode*: ``minibatchSize=adaptive()``, with
#   control variates.
# - *Means to many digits*: ``gradients=True``, and ``zvControlVariates`` after the run.
#
# Where something else limits the stepsize, less noise gains nothing. Here the stepsize
# of control variates with preferential subsampling is 0.25, and the tolerance allows at
# most 0.30.
