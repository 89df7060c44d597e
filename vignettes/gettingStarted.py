"""
Getting started: a million rows
===============================

We fit a logistic regression to a million simulated observations. `sgldcv` draws from
the posterior of its 20 coefficients in four chains. An iteration reads 1,000 rows, a
thousandth of the data. We do not give a stepsize.

The truth is known here, and so is the posterior. We compare the draws with both, and
the time with that of a sampler that reads all data.

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
# `logLik` is the log likelihood of the rows passed to it, in TensorFlow. The sampler
# calls it with the rows of a minibatch, and scales the sum up to all rows.
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
# One call is enough. It searches for the mode, and computes the curvature and the
# gradient noise there. From these it finds the largest stepsize that is predicted to
# keep every standard deviation within 5% of the posterior's. Then it makes 10,000
# iterations in each of four chains.

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
# An `r_hat` near 1 indicates that the four chains agree. `ess_bulk`, the effective
# sample size, is the number of independent draws that they are worth.
# `expected_sd_ratio` is predicted before the run: it is the standard deviation of the
# chain divided by that of the posterior. It is above 1 because of the finite stepsize
# and the gradient noise.
#
# Is it right?
# ------------
# With this many rows the posterior is nearly normal. So its mean is close to the mode,
# and its covariance close to the inverse of the curvature there. We compute both by
# Newton's method on all rows.

precision = np.eye(N_FEATURES)
mode = np.zeros(N_FEATURES)
for _ in range(10):
    p = expit(X @ mode)
    precision = (X.T * (p * (1 - p))) @ X + np.eye(N_FEATURES)
    mode += np.linalg.solve(precision, X.T @ (y - p) - mode)
factor = np.linalg.cholesky(np.linalg.inv(precision))  # factor @ factor.T: covariance
exact_sd = np.sqrt((factor**2).sum(axis=1))

# %%
# How close to normal is the posterior? We weight draws from the normal approximation by
# the posterior density divided by the normal density. If all weights were equal, the
# two distributions would be the same.


def log_posterior(beta):
    eta = X @ beta
    return y @ eta - np.logaddexp(0, eta).sum() - 0.5 * beta @ beta


z = rng.normal(size=(100, N_FEATURES))
log_weights = [log_posterior(mode + factor @ one) + 0.5 * one @ one for one in z]
weights = np.exp(log_weights - np.max(log_weights))
worth = weights.sum() ** 2 / (weights**2).sum()
print(f"{len(z)} weighted draws are worth {worth:.2f} draws of the posterior")

# %%
# We express the error of each mean in posterior standard deviations.

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
# We run the No-U-Turn sampler of TensorFlow Probability on the same posterior, also
# compiled and with four chains. We make its task easy: it starts at the exact mode, and
# moves in whitened coordinates, in which the posterior is nearly standard normal. So it
# needs neither burn-in nor adaptation. The time to compute the mode and the curvature
# is not counted.

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
# We compare the effective draws of the coefficient with the fewest. The times are for
# the whole call, including compilation and, for `sgldcv`, the search for the mode.

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
# Left, the mean and the 95% interval of each coefficient, minus the truth. Middle, the
# standard deviations relative to the exact ones; the line is what `sgldcv` predicted
# before the run. Right, effective draws per second.

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
# Adapting this example
# ---------------------
# - *Your data*: put arrays with the observations on the first axis into `dataset`.
#   Files on disk work as well. If the columns of a table have different scales,
#   standardise them: this makes the search for the mode faster.
# - *Your model*: `logLik` returns the sum over the rows passed to it. Use TensorFlow's
#   functions: ``tf.exp``, not ``np.exp``. Declare a positive parameter with
#   ``transforms={"sd": "positive"}``, and a probability with "unit".
# - *More precision*: a larger `nIters` gives more draws. A stepsize smaller than
#   ``out.settings["expected"]["stepsize"]`` brings the standard deviations closer to
#   those of the posterior, but needs more iterations for each independent draw.
# - *A posterior that is far from normal*: `sgldcv` needs a mode to start from. The
#   guide on choosing a sampler says which sampler to use.
