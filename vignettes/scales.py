r"""
Scales, shares and correlations: constrained parameters
=======================================================

Standard deviations are positive, a probability is between 0 and 1, and a correlation
matrix is positive definite. In this vignette all three are parameters of one model, for
a table with a categorical column. No parameter is transformed by hand.

Run it from anywhere, with ``python vignettes/scales.py``. It takes half a minute, on
data that come with the package. With ``SGMCMC_VIGNETTES=short`` in the environment it
is shorter, for the tests.
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
from scipy.stats import beta
from tensorflow_probability import distributions as tfd

from sgmcmc import getDataset, sgldcv
from sgmcmc.diagnostics import logLoss

SHORT = False  # whether to run less
# sphinx_gallery_start_ignore
SHORT = os.environ.get("SGMCMC_VIGNETTES") == "short"  # for the tests
# sphinx_gallery_end_ignore

# %%
# A table
# -------
# We take four measurements of the cell nuclei of 569 breast tumours, two of them on the
# log scale, and standardise all four. Every fifth patient is held out. The diagnosis is
# a column of strings, which we convert to categories. The sampler sees their codes.

cancer = getDataset("breastCancer")
named = pd.DataFrame(cancer["X"], columns=cancer["names"])
traits = ["area", "texture", "smoothness", "concave_points"]
frame = pd.DataFrame(
    {
        "area": np.log(named["mean_area"]),
        "texture": np.log(named["mean_texture"]),
        "smoothness": named["mean_smoothness"],
        "concave_points": named["mean_concave_points"],
    }
)
frame = (frame - frame.mean()) / frame.std()
frame["diagnosis"] = np.where(cancer["y"] == 1, "malignant", "benign")
frame["diagnosis"] = frame["diagnosis"].astype("category")
held_out = np.arange(len(frame)) % 5 == 0
train, test = frame[~held_out], frame[held_out]
print(train.groupby("diagnosis", observed=True).agg(["mean", "std"]).round(2).T)

# %%
# Standard deviations of one measurement
# --------------------------------------
# Is the area of the nuclei more variable in malignant tumours? The model has a mean and
# a standard deviation for each diagnosis g,
#
# .. math::
#
#    x_i \sim N(\mu_{g_i}, \sigma_{g_i}^2),
#
# with a flat prior for the means and :math:`\sigma_g \sim \mathrm{HalfCauchy}(1)`.
# `transforms` declares that ``sd`` is positive. Everything else is written in terms of
# the standard deviation itself. The chain moves its logarithm, and the sampler adds the
# log Jacobian to the log prior.


def logLik(params, dataset):
    group = dataset["diagnosis"]
    mean, sd = tf.gather(params["mean"], group), tf.gather(params["sd"], group)
    return tfd.Normal(mean, sd).log_prob(dataset["area"])


def logPrior(params):
    return tf.reduce_sum(tfd.HalfCauchy(0.0, 1.0).log_prob(params["sd"]))


settings = {
    "nIters": 5_000 if SHORT else 20_000,
    "minibatchSize": 100,
    "verbose": False,
    "seed": 1,
}
out = sgldcv(
    logLik,
    train,
    {"mean": np.zeros(2), "sd": np.ones(2)},
    logPrior=logPrior,
    transforms={"sd": "positive"},
    **settings,
)
out = out.labelled({"mean": "diagnosis", "sd": "diagnosis"})
columns = ["mean", "sd", "5%", "95%", "ess_bulk", "expected_sd_ratio"]
print(out.summary()[columns].round(3))

# %%
# With the mean integrated out, the posterior density of :math:`\sigma_g` is
# proportional to
#
# .. math::
#
#    \sigma^{-(n - 1)} \exp\left(-\frac{(n - 1) s^2}{2 \sigma^2}\right)
#    \frac{1}{1 + \sigma^2}
#
# for n patients with sample variance :math:`s^2`. A grid gives it exactly:

grid = np.linspace(0.3, 1.2, 2001)
exact = {}
for name, area in train.groupby("diagnosis", observed=True)["area"]:
    n = len(area)
    log_density = -(n - 1) * (np.log(grid) + area.var() / (2 * grid**2))
    log_density -= np.log1p(grid**2)
    density = np.exp(log_density - log_density.max())
    exact[name] = density / density.sum() / (grid[1] - grid[0])
rows = {}
for k, (name, density) in enumerate(exact.items()):
    weight = density * (grid[1] - grid[0])
    center = weight @ grid
    rows[name] = {
        "mean": out["sd"][:, k].mean(),
        "exact mean": center,
        "sd": out["sd"][:, k].std(),
        "exact sd": np.sqrt(weight @ (grid - center) ** 2),
    }
compared = pd.DataFrame(rows).T
print(compared.round(4))

# %%
# All measurements and their correlations
# ---------------------------------------
# We now model the whole table: a share of malignant tumours, and for each diagnosis a
# normal distribution of all four measurements. Its covariance is made of standard
# deviations and a correlation matrix :math:`L L^\top`. The prior is a joint
# distribution of TensorFlow Probability. Its parts are the parameters, and their
# supports determine the transforms. With ``params=None`` the search for the mode starts
# at a central point of the prior. So the sampler needs only the prior, the likelihood
# and the table.

prior = tfd.JointDistributionNamed(
    {
        "share": tfd.Beta(1.0, 1.0),
        "mean": tfd.Normal(tf.zeros([2, 4]), 10.0),
        "sd": tfd.HalfCauchy(tf.zeros([2, 4]), 1.0),
        "L": tfd.Sample(tfd.CholeskyLKJ(4, 1.0), 2),
    }
)


def log_densities(params, dataset):
    """Of the measurements and the diagnosis, for both diagnoses, [n, 2]."""
    x = tf.stack([dataset[name] for name in traits], axis=1)
    scale = params["sd"][..., None] * params["L"]
    measured = tfd.MultivariateNormalTriL(params["mean"], scale)
    share = tf.stack([1 - params["share"], params["share"]])
    return measured.log_prob(x[:, None, :]) + tf.math.log(share)


def logLikOfAll(params, dataset):
    densities = log_densities(params, dataset)
    return tf.gather(densities, dataset["diagnosis"], batch_dims=1)


def withCorrelations(params):
    L = params["L"]
    return params | {"correlation": tf.matmul(L, L, transpose_b=True)}


everything = sgldcv(
    logLikOfAll,
    train,
    None,
    logPrior=prior,
    collect=withCorrelations,
    **settings,
)
for name in ("mean", "sd", "correlation"):
    everything = everything.labelled({name: "diagnosis"})
print(everything.summary(["share", "sd"])[columns].round(3))

# %%
# The share also has an exact posterior, a Beta distribution.

malignant = int((train["diagnosis"] == "malignant").sum())
exact_share = beta(1 + malignant, 1 + len(train) - malignant)
print(
    f"share: {everything['share'].mean():.4f} with sd {everything['share'].std():.4f}, "
    f"exactly {exact_share.mean():.4f} with sd {exact_share.std():.4f}"
)

# %%
# How do the correlations differ? The posterior gives the uncertainty of the
# differences.

correlation = everything["correlation"]
pairs = [(i, j) for i in range(4) for j in range(i)]
differences = pd.DataFrame(
    {
        f"{traits[j]}, {traits[i]}".replace("_", " "): {
            "benign": correlation[:, 0, i, j].mean(),
            "malignant": correlation[:, 1, i, j].mean(),
            "difference": (correlation[:, 1, i, j] - correlation[:, 0, i, j]).mean(),
            "sd": (correlation[:, 1, i, j] - correlation[:, 0, i, j]).std(),
        }
        for i, j in pairs
    }
).T
print(differences.round(2))

# %%
# Predictions
# -----------
# The same function gives the probability that a tumour is malignant, for one draw.
# `predict` averages it over the posterior, for the held-out patients. It encodes their
# table as the run did.


def probability(params, dataset):
    return tf.nn.softmax(log_densities(params, dataset))[:, 1]


predicted = everything.predict(probability, test)
truth = (test["diagnosis"] == "malignant").to_numpy()
wrong = np.mean((predicted["mean"] > 0.5) != truth)
loss = logLoss(predicted["mean"], truth)
print(f"{wrong:.1%} of {len(test)} held-out patients are wrong, log loss {loss:.3f}")

# %%
# The picture
# -----------
# Left: the posterior of the two standard deviations of the area. Right: the
# correlations with their 90% intervals.

plt.rcParams.update(
    {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False}
)
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
colours = {"benign": "#4477aa", "malignant": "#ee6677"}
for k, (name, colour) in enumerate(colours.items()):
    left.hist(
        out["sd"][:, k], 40, density=True, color=colour, alpha=0.35, label=f"{name}"
    )
    shown = exact[name] > 1e-3 * exact[name].max()
    left.plot(grid[shown], exact[name][shown], color=colour, linewidth=1.2)
left.plot([], [], color="black", linewidth=1.2, label="exact")
left.set(xlabel="standard deviation of the area", ylabel="posterior density")
left.legend(frameon=False)
for k, (name, colour) in enumerate(colours.items()):
    draws = np.stack([correlation[:, k, i, j] for i, j in pairs], axis=1)
    low, high = np.quantile(draws, [0.05, 0.95], axis=0)
    at = np.arange(len(pairs)) + 0.14 * (2 * k - 1)
    right.hlines(at, low, high, color=colour, linewidth=2)
    right.plot(draws.mean(axis=0), at, "o", color=colour, markersize=4, label=name)
right.axvline(0, color="0.8", linewidth=1, zorder=0)
right.set_yticks(range(len(pairs)), list(differences.index))
right.set(xlabel="correlation", xlim=(-1, 1), xticks=(-1, -0.5, 0, 0.5, 1))
right.legend(frameon=False)

# sphinx_gallery_start_ignore
figure.savefig("scales.png", dpi=200)
# sphinx_gallery_end_ignore

# %%
# What can go wrong
# -----------------
# - *A start on the boundary.* ``{"sd": 0.0}`` is an error, and so is a share of 1.
# - *The mode.* It is the mode on the unconstrained scale, where the chain moves, so
#   ``paramsOpt["sd"]`` does not maximise the density of ``sd``.
# - *Scales of effects.* The scale of group effects is a parameter of another kind: the
#   joint density of effects and scale has no mode. The page on hierarchical models
#   explains what to do.
# - *A correlation near 1.* There the correlation is a flat function of the
#   unconstrained parameters, in which the chain moves, and the posterior is skewed on
#   both scales. Look at ``expected_sd_ratio``, and use `checkStepsize` to compare with
#   half the stepsize.
