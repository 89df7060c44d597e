"""
Getting started: a million rows
===============================

A logistic regression on a million simulated observations. `sgldcv` draws from the
posterior of its 20 coefficients in four chains, and an iteration reads 1,000 rows, a
thousandth of the data. No stepsize is given.

The truth is known here, and so is the posterior. We compare both with what the sampler
found, and its time with that of a sampler that reads all data.

Run it from anywhere, with ``python vignettes/gettingStarted.py``. It takes about two
minutes, most of them for the comparison.
"""

# sphinx_gallery_start_ignore
import os

import matplotlib

matplotlib.use("Agg")  # draw to a file, with or without a display
# sphinx_gallery_end_ignore

import time

import arviz_stats
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import tensorflow as tf
import tensorflow_probability as tfp
from scipy.special import expit

from sgmcmc import sgldcv

SHORT = False  # whether to run less
# sphinx_gallery_start_ignore
SHORT = os.environ.get("SGMCMC_VIGNETTES") == "short"  # for the tests
# sphinx_gallery_end_ignore
N, N_FEATURES = 20_000 if SHORT else 1_000_000, 20

# %%
# The data
# --------
# There are twenty features, and any two have correlation 1/2. The first is then
# replaced by ones, for the intercept. The outcomes are 0 or 1, with log odds that are
# linear in the features.

rng = np.random.default_rng(1)
common = rng.normal(size=(N, 1))
X = np.sqrt(0.5) * (rng.normal(size=(N, N_FEATURES)) + common)
X[:, 0] = 1.0
truth = rng.normal(scale=0.5, size=N_FEATURES)
y = rng.random(N) < expit(X @ truth)
print(f"{N:,} observations, of which {y.mean():.1%} are 1")

# %%
# The model
# ---------
# `logLik` is the log likelihood of the rows that it is given, in TensorFlow. The
# sampler calls it with the rows of a minibatch, and scales the sum up to all rows.
# `tf.nn.softplus` is log(1 + exp(eta)) without overflow. Each coefficient has a
# standard normal prior.

dataset = {"X": X, "y": y}
params = {"beta": np.zeros(N_FEATURES)}


def logLik(params, dataset):
    eta = tf.linalg.matvec(dataset["X"], params["beta"])
    return tf.reduce_sum(dataset["y"] * eta - tf.nn.softplus(eta))


def logPrior(params):
    return -0.5 * tf.reduce_sum(params["beta"] ** 2)


# %%
# The chains
# ----------
# One call is enough. It searches for the mode, and computes the curvature there and the
# noise of the minibatches. From these it works out the largest stepsize that is
# expected to keep every standard deviation within 5% of the posterior's. Then it makes
# 10,000 iterations in each of four chains.

out = sgldcv(
    logLik,
    dataset,
    params,
    logPrior=logPrior,
    minibatchSize=1_000,
    nChains=4,
    seed=1,
)
summary = out.summary()
columns = ["mean", "sd", "5%", "95%", "ess_bulk", "r_hat", "expected_sd_ratio"]
print(summary[columns].round(4).to_string())

# %%
# `r_hat` near 1 says that the four chains agree. `ess_bulk` is how many independent
# draws they are worth. `expected_sd_ratio` was worked out before the run: the standard
# deviation of the chain, divided by that of the posterior. It is above 1 because of the
# finite stepsize and the noise of the minibatches.
#
# Is it right?
# ------------
# With so many rows the posterior is nearly normal. So its mean is nearly the mode, and
# its covariance nearly the inverse of the curvature there. We compute both by Newton's
# method on all rows.

precision = np.eye(N_FEATURES)
mode = np.zeros(N_FEATURES)
for _ in range(10):
    p = expit(X @ mode)
    precision = (X.T * (p * (1 - p))) @ X + np.eye(N_FEATURES)
    mode += np.linalg.solve(precision, X.T @ (y - p) - mode)
factor = np.linalg.cholesky(np.linalg.inv(precision))  # factor @ factor.T: covariance
exact_sd = np.sqrt((factor**2).sum(axis=1))

# %%
# How nearly? We weight draws of the normal distribution by the posterior density over
# the normal density. If all weights were equal, both distributions would be the same.


def log_posterior(beta):
    eta = X @ beta
    return y @ eta - np.logaddexp(0, eta).sum() - 0.5 * beta @ beta


z = rng.normal(size=(100, N_FEATURES))
log_weights = [log_posterior(mode + factor @ one) + 0.5 * one @ one for one in z]
weights = np.exp(log_weights - np.max(log_weights))
worth = weights.sum() ** 2 / (weights**2).sum()
print(f"{len(z)} weighted draws are worth {worth:.2f} draws of the posterior")

# %%
# Every mean is compared in units of the posterior's standard deviation.

draws = out["beta"]  # [chains, iterations, coefficients]
mean, sd = draws.mean(axis=(0, 1)), draws.std(axis=(0, 1))
compared = pd.DataFrame(
    {
        "truth": truth,
        "mean": mean,
        "off by (sd)": (mean - mode) / exact_sd,
        "sd": sd,
        "exact sd": exact_sd,
        "ratio": sd / exact_sd,
    },
    index=summary.index,
)
print(compared.round(4).to_string())

low, high = np.quantile(draws, [0.025, 0.975], axis=(0, 1))
covered = (low < truth) & (truth < high)
print(f"95% intervals with the truth inside: {covered.sum()} of {N_FEATURES}")

# %%
# On average 19 of 20 such intervals contain the truth, so 18 or 20 are no surprise.
#
# A sampler that reads all data
# -----------------------------
# The No-U-Turn sampler of TensorFlow Probability, on the same posterior with four
# chains, compiled as well. We make it easy: it starts at the exact mode, and moves in
# coordinates in which the posterior is nearly a standard normal, so it needs neither
# burn-in nor adaptation. The time to compute mode and curvature is not counted.

N_DRAWS = 10 if SHORT else 100
everything = {"X": tf.constant(X, tf.float32), "y": tf.constant(y, tf.float32)}
start, scale = tf.constant(mode, tf.float32), tf.constant(factor, tf.float32)


def log_density(z):
    beta = start + tf.linalg.matvec(scale, z)
    eta = tf.matmul(beta, everything["X"], transpose_b=True)  # [chains, N]
    terms = everything["y"] * eta - tf.nn.softplus(eta)
    return tf.reduce_sum(terms, axis=-1) - 0.5 * tf.reduce_sum(beta**2, axis=-1)


@tf.function(jit_compile=True)
def full_data(n_draws):
    kernel = tfp.mcmc.NoUTurnSampler(log_density, step_size=0.8, max_tree_depth=4)
    return tfp.mcmc.sample_chain(
        n_draws, tf.zeros([4, N_FEATURES]), kernel=kernel, trace_fn=None, seed=(1, 2)
    )


begun = time.perf_counter()
of_nuts = full_data(N_DRAWS).numpy().swapaxes(0, 1) @ factor.T + mode
nuts_seconds = time.perf_counter() - begun

# %%
# We compare the effective draws of the coefficient that has the fewest. The seconds are
# those of the whole call, with compilation, and for `sgldcv` with the search for the
# mode.

names = ["sgldcv, 1,000 rows per iteration", f"NUTS, {N:,} rows per gradient"]
speed = pd.DataFrame(
    {
        "effective draws": [
            summary["ess_bulk"].min(),
            arviz_stats.ess(of_nuts, chain_axis=0, draw_axis=1).min(),
        ],
        "seconds": [out.timings["total"], nuts_seconds],
    },
    index=names,
)
speed["per second"] = speed["effective draws"] / speed["seconds"]
print(speed.round(1).to_string())

# %%
# The picture
# -----------
# Left, the mean and the interval of each coefficient, minus the truth. In the middle,
# their standard deviations over the exact ones; the line is what `sgldcv` expected
# before it ran. Right, effective draws per second.

plt.rcParams.update(
    {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False}
)
figure, (left, middle, right) = plt.subplots(
    1, 3, figsize=(10, 4.2), width_ratios=[1.3, 1, 0.8], layout="constrained"
)
rows = np.arange(N_FEATURES)
left.axvline(0, color="black", linewidth=1, label="truth")
left.hlines(rows, low - truth, high - truth, color="#4477aa", label="95% interval")
left.plot(mean - truth, rows, "o", color="#4477aa", markersize=3, label="mean")
left.plot(mode - truth, rows, "|", color="#ee6677", markersize=9, label="exact mean")
left.set(xlabel="coefficient, minus the truth", ylabel="coefficient", yticks=rows[::5])
left.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, frameon=False)

expected = summary["expected_sd_ratio"].mean()
middle.axvspan(0.95, 1.05, color="0.92", label="5% on either side")
middle.axvline(expected, color="#ee6677", label="expected before the run")
middle.plot(compared["ratio"], rows, "o", color="#4477aa", markersize=3, label="found")
middle.set(xlabel="sd, over the exact sd", xlim=(0.88, 1.12), yticks=rows[::5])
middle.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), frameon=False)

bars = right.bar(["sgldcv", "NUTS"], speed["per second"], color=["#4477aa", "0.7"])
right.bar_label(bars, [f"{value:,.0f}" for value in speed["per second"]], padding=3)
right.set(ylabel="effective draws per second")

# sphinx_gallery_start_ignore
figure.savefig("gettingStarted.png", dpi=200)
# sphinx_gallery_end_ignore

# %%
# What to change
# --------------
# - *Your data*: arrays with the observations on the first axis, in `dataset`. Files on
#   disk work as well. In a table of numbers on unlike scales, standardise the columns:
#   the search for the mode is faster then.
# - *Your model*: `logLik` returns the sum over the rows that it is given, by
#   TensorFlow's functions, such as ``tf.exp`` and not ``np.exp``. A parameter that
#   is positive, or a probability, needs ``transforms={"sd": "positive"}``, or "unit".
# - *More precision*: `nIters` gives more draws. A stepsize of your own that is smaller
#   than ``out.settings["expected"]["stepsize"]`` gives standard deviations closer to
#   those of the posterior, with more iterations for each independent draw.
# - *A posterior that is far from normal*: `sgldcv` needs a mode to start from. The
#   guide on choosing a sampler says which one to take.
