"""
Intervals: which measurements indicate a malignant tumour?
==========================================================

From 30 measurements of the cell nuclei in a biopsy we predict whether a tumour is
malignant, and quantify the uncertainty. Stochastic gradient Langevin dynamics with
control variates, `sgldcv`, draws from the posterior of the coefficients and reads only
a fifth of the data per iteration.

Run it from anywhere, with ``python vignettes/intervals.py``. It takes about 15
seconds. With ``SGMCMC_VIGNETTES=short`` in the environment it is shorter, for the
tests.
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
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from sgmcmc import getDataset, sgldcv

SHORT = False  # whether to run less
# sphinx_gallery_start_ignore
SHORT = os.environ.get("SGMCMC_VIGNETTES") == "short"  # for the tests
# sphinx_gallery_end_ignore

# %%
# The data
# --------
# There is one row for each of 569 patients. A fifth of them, chosen by a fixed seed,
# are held out. All features are standardised by the mean and standard deviation of the
# other patients, so one prior and one stepsize suit them all.

cancer = getDataset("breastCancer")
features = pd.Index(cancer["names"])
table = pd.DataFrame(cancer["X"], columns=features).assign(malignant=cancer["y"])

held_out = table.sample(frac=0.2, random_state=1)
training = table.drop(held_out.index)
centre, scale = training[features].mean(), training[features].std()

X_train = (training[features] - centre) / scale
X_test = (held_out[features] - centre) / scale
y_train, y_test = training["malignant"], held_out["malignant"]
print(
    f"{len(X_train)} patients to learn from, {len(X_test)} held out, {len(features)} "
    "features"
)

# %%
# The model
# ---------
# A sampler needs three things: the data, a starting point, and the log density of the
# model in TensorFlow. The data and the parameters are dictionaries; `logLik` and
# `logPrior` look up their entries by name.
#
# `logLik` receives a minibatch in place of the full data and returns the log likelihood
# summed over it. The log likelihood of a logistic regression is y * eta - log(1 +
# exp(eta)). Computed as written, it overflows in float32 as soon as eta reaches 89, so
# we use `tf.nn.softplus`, which does not.
#
# Each coefficient has a standard normal prior. The intercept has a flat prior, so it
# does not appear in `logPrior`.

dataset = {"X": X_train, "y": y_train}
params = {"intercept": 0.0, "beta": np.zeros(len(features))}


def logLik(params, dataset):
    eta = params["intercept"] + tf.linalg.matvec(dataset["X"], params["beta"])
    return tf.reduce_sum(dataset["y"] * eta - tf.nn.softplus(eta))


def logPrior(params):
    return -0.5 * tf.reduce_sum(params["beta"] ** 2)


# %%
# Both are ordinary functions of tensors, so we can test them before the run. With all
# coefficients 0, every tumour is malignant with probability 1/2, and the log likelihood
# is -N log 2.

nothing = {"intercept": tf.constant(0.0), "beta": tf.zeros(len(features))}
everybody = {
    "X": tf.constant(X_train, tf.float32),
    "y": tf.constant(y_train, tf.float32),
}
print(
    f"Log likelihood at 0: {logLik(nothing, everybody):.2f}, by hand "
    f"{-len(y_train) * np.log(2):.2f}"
)

# %%
# The chain
# ---------
# `sgldcv` first searches for the mode of the posterior, then starts the chain there. It
# can find a stepsize itself. Here we choose one, to show its effect.
#
# The stepsize is a variance on the scale of the parameters. Along a direction in which
# a normal posterior has variance v, the chain forgets its position within about 2 v /
# stepsize iterations, and its own variance is v / (1 - stepsize / 4v). So a small
# stepsize is slow, a large one is biased, and from 4 v on the chain diverges. Here v is
# between 0.016 and 1: these are the extreme eigenvalues of the inverse curvature at the
# mode, which is computed below. With a stepsize of 0.004, the chain forgets within 500
# iterations. Its standard deviation is 3% too large along the narrowest direction, and
# by less along all others.

out = sgldcv(
    logLik,
    dataset,
    params,
    stepsize=0.004,
    optStepsize=1e-3,
    logPrior=logPrior,
    minibatchSize=0.2,
    nIters=2_000 if SHORT else 500_000,
    nItersOpt=1_000 if SHORT else 10_000,
    seed=1,
)

# %%
# `out` holds one array for each parameter, with one row for each iteration. The chain
# starts at the mode, which is not a typical draw, so we discard its first hundredth. Of
# the rest we keep every tenth iteration, because successive draws are nearly equal.
# ``summary()`` tabulates the posterior, with the diagnostics of ArviZ.

n_iterations = len(out["beta"])
kept = out[n_iterations // 100 :: 10]
names = ["intercept", *features]
summary = kept.summary(["intercept", "beta"]).set_axis(names)
print(summary[["mean", "sd", "5%", "50%", "95%", "ess_bulk"]].round(2).to_string())

# %%
# Is it right?
# ------------
# scikit-learn's logistic regression with C = 1 penalises the coefficients by our log
# prior and leaves the intercept free. So its fit is the mode of our posterior, and the
# curvature there gives the usual normal (Laplace) approximation.

reference = LogisticRegression(C=1.0, tol=1e-8, max_iter=10_000).fit(X_train, y_train)
mode = np.concatenate([reference.intercept_, reference.coef_[0]])

design = np.column_stack([np.ones(len(X_train)), X_train])
p = reference.predict_proba(X_train)[:, 1]
precision = (design.T * (p * (1 - p))) @ design + np.diag([0.0] + [1.0] * len(features))
laplace_sd = np.sqrt(np.diag(np.linalg.inv(precision)))

# %%
# The standard deviations of the full run are within 10% of that approximation, most of
# them within 4%. They need not be equal: the posterior is not quite normal, and its
# true standard deviations are up to 5% above the approximation.

ratio = summary["sd"] / laplace_sd
print(
    f"\nPosterior sd over Laplace approximation: {ratio.min():.2f} to "
    f"{ratio.max():.2f}, median {ratio.median():.2f}"
)

# %%
# For the held-out patients, we average the probability of a malignant tumour over the
# draws. We compare this posterior predictive with the single best fit by the log loss,
# the mean of -log(predicted probability of the true class). Both are about equally good
# here: 114 patients are too few to tell a difference of 0.005 from chance.


def sigmoid(eta):
    return 0.5 * (1.0 + np.tanh(0.5 * eta))


draws = np.column_stack([kept["intercept"], kept["beta"]]).astype(float)  # [draws, 31]
design_test = np.column_stack([np.ones(len(X_test)), X_test])
predictive = sigmoid(design_test @ draws.T).mean(axis=1)
losses = pd.Series(
    {
        "sgldcv, posterior predictive": log_loss(y_test, predictive),
        "scikit-learn, single best fit": log_loss(
            y_test, reference.predict_proba(X_test)
        ),
        "always the proportion in the training data": log_loss(
            y_test, np.full(len(y_test), y_train.mean())
        ),
    }
)
print("\nHeld-out log loss")
print(losses.round(4).to_string())

# %%
# The picture
# -----------
# Left, the log posterior along the chain, relative to the mode. In 31 dimensions
# typical draws lie well below it: by 31/2 = 15.5 on average if the posterior is normal.
# The chain moves there at once and stays. Right, the intervals of all coefficients.

shown = slice(None, None, max(1, n_iterations // 2_000))
chain = np.column_stack([out["intercept"], out["beta"]])[shown].astype(float)


def log_posterior(theta):
    eta = theta @ design.T
    return (
        eta @ y_train.to_numpy()
        - np.logaddexp(0.0, eta).sum(axis=-1)
        - 0.5 * (theta[..., 1:] ** 2).sum(axis=-1)
    )


order = summary.loc[features, "mean"].sort_values().index
rows = np.arange(len(order))
columns = [names.index(name) for name in order]
low, quarter, three_quarters, high = np.quantile(
    draws[:, columns], [0.025, 0.25, 0.75, 0.975], axis=0
)

plt.rcParams.update(
    {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False}
)
figure, (left, right) = plt.subplots(
    1, 2, figsize=(9, 5.8), width_ratios=[1, 1.1], layout="constrained"
)

left.plot(
    np.arange(n_iterations)[shown],
    log_posterior(chain) - log_posterior(mode),
    color="#4477aa",
    linewidth=0.5,
)
left.axhline(
    -len(names) / 2,
    color="black",
    linewidth=1,
    linestyle="--",
    label="mean for a normal posterior",
)
left.set(
    xlabel="iteration",
    ylabel="log posterior, relative to the mode",
    xlim=(0, n_iterations),
    ylim=(None, 0),
)
left.xaxis.set_major_locator(plt.MaxNLocator(3))
left.xaxis.set_major_formatter("{x:,.0f}")
left.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), frameon=False)

right.axvline(0, color="0.8", linewidth=1)
right.hlines(rows, low, high, color="#4477aa", linewidth=1, label="95% interval")
right.hlines(
    rows, quarter, three_quarters, color="#4477aa", linewidth=4, label="50% interval"
)
right.plot(
    mode[columns], rows, "|", color="black", markersize=7, label="mode (scikit-learn)"
)
right.set_yticks(rows, [name.replace("_", " ") for name in order])
right.set(
    xlabel="coefficient of the standardised feature", ylim=(-0.7, len(rows) - 0.3)
)
right.legend(
    loc="lower center",
    bbox_to_anchor=(0.5, 1.0),
    ncols=3,
    frameon=False,
    columnspacing=1.5,
)

# sphinx_gallery_start_ignore
figure.savefig("intervals.png", dpi=200)
# sphinx_gallery_end_ignore

# %%
# What can go wrong
# -----------------
# - *The stepsize is too large.* If it exceeds 4 v in some direction, a chain on a
#   normal posterior diverges, which raises a `DivergenceError`. Do not rely on this
#   error here: the gradient of a logistic regression is bounded, so the chain
#   continues, with wrong draws. With a stepsize of 0.04, by the formula above, one of
#   the standard deviations is 60% too large.
# - *The chain is too short.* 500,000 iterations seem many. But along the widest
#   direction, one independent draw takes about 1,000 iterations, twice the time to
#   forget the position.
#
# Your own model
# --------------
# - Put the observations on the first axis of every array of `dataset`. `logLik`
#   receives some rows of each, and returns the sum over these rows; the sampler scales
#   it up to all rows.
# - Use TensorFlow's functions, ``tf.exp`` and not ``np.exp``: only these have
#   gradients. Most distributions are in TensorFlow Probability.
# - Declare constrained parameters: ``transforms={"sd": "positive"}``.
# - Simulate data from the model, and check that the sampler recovers what you put in.
# - Start with a stepsize of a tenth of the posterior variance in the narrowest
#   direction; if the parameters are well scaled, that variance is of the order of 1 /
#   N. (Here we took a quarter of that variance, not a tenth.)
