r"""
Probabilities near zero: SCIR and SGRLD
=======================================

Some categories are never observed. The posterior of their probabilities is close to
zero, at the boundary of the simplex. Discretised Langevin dynamics is biased there. The
stochastic Cox-Ingersoll-Ross process (SCIR) is not: its transition is drawn exactly
(Baker, Fearnhead, Fox and Nemeth 2018). This vignette compares ``scir`` with ``sgrld``,
stochastic gradient Riemannian Langevin dynamics, on a known posterior. It then shows
latent categories, and rates in place of probabilities.

Run it from anywhere, with ``python vignettes/simplex.py``. It takes about a minute.
"""

# sphinx_gallery_start_ignore
import os

import matplotlib

matplotlib.use("Agg")  # draw to a file, with or without a display
# sphinx_gallery_end_ignore

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import tensorflow as tf
from scipy import stats

from sgmcmc import scir, sgrld

SHORT = False  # whether to run less
# sphinx_gallery_start_ignore
SHORT = os.environ.get("SGMCMC_VIGNETTES") == "short"  # for the tests
# sphinx_gallery_end_ignore
N_ITERS, N_CHAINS = (600, 4) if SHORT else (2_000, 10)

# %%
# The data and the posterior
# --------------------------
# This is the running example of the paper: 1000 observations of 10 categories, only
# three of which are observed. The prior is a Dirichlet distribution with all parameters
# 0.1. So the posterior of the probabilities :math:`\omega` is
#
# .. math:: \omega \mid z \sim \mathrm{Dir}(800.1, 100.1, 100.1, 0.1, \dots, 0.1),
#
# and each :math:`\omega_j` has a Beta distribution. An observation is a row of zeros
# with a one for its category.

counts = np.array([800, 100, 100, 0, 0, 0, 0, 0, 0, 0])
alpha, d, N = 0.1, len(counts), counts.sum()
dataset = {"z": np.eye(d)[np.repeat(np.arange(d), counts)]}
shapes = alpha + counts
marginals = [stats.beta(shape, shapes.sum() - shape) for shape in shapes]
print(f"median of the first probability: {marginals[0].median():.3f}")
print(f"median of the last probability: {marginals[-1].median():.1e}")

# %%
# Two samplers
# ------------
# In place of a log likelihood, the samplers take a function that counts the categories
# in a minibatch. They multiply its result by N/n, and need nothing else from the data.
# With ``logScale=True`` the draws are logarithms, which cannot underflow.


def suffStats(params, dataset):
    return {"omega": tf.reduce_sum(dataset["z"], axis=0)}


def run(sampler, stepsize):
    return sampler(
        suffStats,
        dataset,
        {"omega": np.full(d, 1 / d)},
        stepsize,
        alpha,
        minibatchSize=100,
        nIters=N_ITERS,
        burnIn=N_ITERS // 4,
        nChains=N_CHAINS,
        logScale=True,
        verbose=False,
        seed=1,
    )


runs = {
    "scir, h = 0.1": run(scir, 0.1),
    "scir, h = 0.5": run(scir, 0.5),
    "sgrld, h = 1e-5": run(sgrld, 1e-5),
    "sgrld, h = 1e-3": run(sgrld, 1e-3),
}

# %%
# The log probabilities of two categories with observations, and of two without:

shown = ["mean", "sd", "5%", "50%", "95%", "ess_bulk", "r_hat"]
summary = runs["scir, h = 0.1"].summary()[shown]
print(summary.iloc[[0, 1, 8, 9]].round(2).to_string())

# %%
# The stepsizes of the two samplers are not comparable. That of ``scir`` is a time: the
# chain keeps a fraction :math:`e^{-h}` of its position. The unnormalised probabilities
# sum to about N in ``scir``, and to about the sum of the prior's parameters in
# ``sgrld``, whose steps must therefore be smaller.
#
# The distance to the posterior
# -----------------------------
# The Kolmogorov-Smirnov distance is the largest difference between two distribution
# functions, here that of the draws and the exact one. The table shows its maximum over
# the three categories with observations, and over the seven without. The last row is
# for the same number of independent exact draws, by NumPy.

size = N_CHAINS * (N_ITERS - N_ITERS // 4)
exact = np.random.default_rng(1).dirichlet(shapes, size)
omega = {
    name: np.exp(out["omega"].reshape(-1, d).astype(float))
    for name, out in runs.items()
}
omega["exact draws"] = exact


def distances(draws):
    """The Kolmogorov-Smirnov distance of each probability to its exact marginal."""
    return np.array(
        [stats.kstest(draws[:, j], marginals[j].cdf).statistic for j in range(d)]
    )


table = {}
for name, draws in omega.items():
    distance = distances(draws)
    table[name] = {
        "observed": distance[:3].max(),
        "not observed": distance[3:].max(),
        "median of the last": f"{np.median(draws[:, -1]):.1e}",
    }
table = pd.DataFrame(table).T
print(table.to_string(float_format="{:.3f}".format))

# %%
# For the categories without observations, ``scir`` is close to the posterior at both
# stepsizes, and ``sgrld`` is far from it at both. The noise of ``sgrld`` reaches across
# the boundary, and the absolute value that it takes keeps the probability from being
# small. A stepsize a hundred times smaller removes only part of the error.
#
# For the categories with observations, minibatch noise makes the variance of a
# probability too large, by a proportion of tanh(h/2) (N/n - 1), so the larger stepsize
# is worse. For variances within 10%, use stepsizes of at most 0.2 n/N, here 0.02:

n = 100
for h in (0.02, 0.1, 0.5):
    excess = np.tanh(h / 2) * (N / n - 1)
    print(f"h = {h}: variance of omega_1 too large by {excess:.0%}")

# %%
# Latent categories
# -----------------
# Often the categories themselves are not observed. Here each observation is a word from
# one of two known distributions over four words. The question is how often each
# distribution is used. If ``suffStats`` has a third argument, it is given a seed. Ours
# draws the category of each word in the minibatch, given the current weights, and
# counts the categories.

words = np.array([[0.6, 0.2, 0.1, 0.1], [0.1, 0.1, 0.2, 0.6]])
rng = np.random.default_rng(2)
text = np.array(
    [rng.choice(4, p=words[k]) for k in rng.choice(2, size=1_000, p=[0.9, 0.1])]
)
log_words = tf.constant(np.log(words), tf.float32)


def latentCounts(params, dataset, seed):
    given_word = tf.gather(tf.transpose(log_words), dataset["word"])  # [n, 2]
    logits = tf.math.log(params["weights"]) + given_word
    drawn = tf.random.stateless_categorical(logits, 1, seed)[:, 0]
    return {"weights": tf.reduce_sum(tf.one_hot(drawn, 2), axis=0)}


latent = scir(
    latentCounts,
    {"word": text},
    {"weights": [0.5, 0.5]},
    stepsize=0.01,
    alpha=1.0,
    minibatchSize=100,
    nIters=15 * N_ITERS,
    burnIn=N_ITERS,
    integers=["word"],
    nChains=N_CHAINS,
    verbose=False,
    seed=1,
)
draws = latent["weights"][..., 0]

# %%
# The posterior of the first weight is a density on an interval. We compute it on a fine
# grid:

grid = np.linspace(0, 1, 2_001)[1:-1]
log_density = np.log(np.outer(grid, words[0]) + np.outer(1 - grid, words[1]))
log_density = log_density @ np.bincount(text, minlength=4)
density = np.exp(log_density - log_density.max())
density /= density.sum()
exact_mean = grid @ density
exact_sd = np.sqrt((grid - exact_mean) ** 2 @ density)
print(f"scir:  mean {draws.mean():.3f}, sd {draws.std():.4f}")
print(f"exact: mean {exact_mean:.3f}, sd {exact_sd:.4f}")

# %%
# Rates in place of probabilities
# -------------------------------
# With ``normalise=False`` the parameters are positive numbers that need not sum to 1,
# and each has the distribution Gamma(alpha + counts, 1). Divided by a time, these are
# rates. Take three kinds of events, counted in each of T = 1000 hours, and a Gamma(0.1,
# 1) prior. Then the posterior of a rate is that of theta / (1 + T).

T = 1_000
events = rng.poisson([2.0, 0.5, 0.0], size=(T, 3))


def eventCounts(params, dataset):
    return {"theta": tf.reduce_sum(dataset["events"], axis=0)}


gamma = scir(
    eventCounts,
    {"events": events},
    {"theta": events.sum(axis=0) + 0.1},
    stepsize=0.02,
    alpha=0.1,
    minibatchSize=100,
    nIters=2 * N_ITERS,
    burnIn=N_ITERS,
    nChains=N_CHAINS,
    normalise=False,
    verbose=False,
    seed=1,
)
rates = gamma["theta"].reshape(-1, 3).astype(float) / (1 + T)
posterior = stats.gamma(0.1 + events.sum(axis=0), scale=1 / (1 + T))
compared = pd.DataFrame(
    {
        "mean": rates.mean(axis=0),
        "exact mean": posterior.mean(),
        "sd": rates.std(axis=0),
        "exact sd": posterior.std(),
    },
    index=["first", "second", "third"],
)
print(compared.round(5).to_string())

# %%
# The picture
# -----------
# The picture shows the draws of all ten probabilities on a logarithmic scale. The boxes
# hold half of the draws, and the whiskers extend from the 5% to the 95% quantile. The
# draws of ``scir`` look like exact ones. Those of ``sgrld`` are too large for the seven
# categories without observations.

plt.rcParams.update(
    {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False}
)
colours = {
    "exact draws": "#bbbbbb",
    "scir, h = 0.1": "#4477aa",
    "sgrld, h = 1e-5": "#ccbb44",
    "sgrld, h = 1e-3": "#ee6677",
}
figure, ax = plt.subplots(figsize=(9, 4), layout="constrained")
for place, (name, colour) in enumerate(colours.items()):
    boxes = ax.boxplot(
        omega[name],
        positions=np.arange(d) + 0.2 * (place - 1.5),
        widths=0.16,
        whis=(5, 95),
        showfliers=False,
        patch_artist=True,
        medianprops={"color": "black"},
        boxprops={"facecolor": colour, "linewidth": 0.6},
        whiskerprops={"linewidth": 0.6},
        capprops={"linewidth": 0.6},
    )
    boxes["boxes"][0].set_label(name)
ax.set(yscale="log", xlabel="category", ylabel="probability")
ax.set_xticks(np.arange(d), [f"{j}" for j in range(1, d + 1)])
ax.legend(frameon=False, loc="lower left")

# sphinx_gallery_start_ignore
figure.savefig("simplex.png", dpi=150)
# sphinx_gallery_end_ignore
