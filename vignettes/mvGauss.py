r"""
Multivariate Gaussian: the effect of the stepsize
=================================================

The posterior of a normal mean is known exactly, so every error of a sampler is visible
here. We estimate the mean of 10,000 correlated pairs by `sgld` and `sgldcv` from 100
pairs per iteration, and derive from one formula how small the stepsize must be.

Run it from anywhere, with ``python vignettes/mvGauss.py``. It takes less than a minute.
With ``SGMCMC_VIGNETTES=short`` in the environment it is shorter, for the tests.
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

from sgmcmc import sgld, sgldcv

SHORT = False  # whether to run less
# sphinx_gallery_start_ignore
SHORT = os.environ.get("SGMCMC_VIGNETTES") == "short"  # for the tests
# sphinx_gallery_end_ignore

# %%
# The model
# ---------
# .. math::
#
#    x_i \mid \theta \sim N(\theta, \Sigma), \quad i = 1, \ldots, N, \qquad
#    \theta \sim N(0, 10 I), \qquad
#    \Sigma = \begin{pmatrix} 1 & 0.8 \\ 0.8 & 1 \end{pmatrix}.
#
# :math:`\Sigma` is known. The posterior is normal, with precision and mean
#
# .. math::
#
#    P = N \Sigma^{-1} + I / 10, \qquad m = P^{-1} \Sigma^{-1} \sum_i x_i.

rng = np.random.default_rng(1)
N, n = 10_000, 100
Sigma = np.array([[1.0, 0.8], [0.8, 1.0]])
x = rng.multivariate_normal([1.0, -1.0], Sigma, size=N)

exact_covariance = np.linalg.inv(N * np.linalg.inv(Sigma) + np.eye(2) / 10)
exact_mean = exact_covariance @ np.linalg.inv(Sigma) @ x.sum(axis=0)

dataset = {"x": x}
params = {"theta": np.zeros(2)}
inverse = tf.constant(np.linalg.inv(Sigma), tf.float32)


def logLik(params, dataset):
    centred = dataset["x"] - params["theta"]  # [n, 2]
    return -0.5 * tf.reduce_sum(centred * (centred @ inverse))


def logPrior(params):
    return -0.5 * tf.reduce_sum(params["theta"] ** 2) / 10


# %%
# Two samplers, one stepsize
# --------------------------
# The eigenvectors of the posterior covariance are its wide and its narrow direction,
# along and across the diagonal. Their variances are :math:`1.8 / N` and
# :math:`0.2 / N`. A tenth of the smaller one is a good first stepsize.
#
# Twenty parallel chains cost little more than one. Those of `sgld` start at `params`
# and soon separate. Those of `sgldcv` would start at the mode; `starts` scatters them
# around it.

variances, directions = np.linalg.eigh(exact_covariance)  # narrow, wide
common = {
    "logLik": logLik,
    "dataset": dataset,
    "params": params,
    "logPrior": logPrior,
    "minibatchSize": n,
    "nIters": 2_000 if SHORT else 20_000,
    "burnIn": 1_000 if SHORT else 4_000,
    "nChains": 20,
    "seed": 1,
    "verbose": False,
}
stepsize = 0.1 * variances[0]
search = {"optStepsize": 1e-6, "nItersOpt": 5_000, "starts": 0.01}
draws = {
    "sgld": sgld(**common, stepsize=stepsize),
    "sgldcv": sgldcv(**common, stepsize=stepsize, **search),
}

# %%
# Are they right?
# ---------------
# The table has the means, and the standard deviations in both directions relative to
# the exact ones. The means agree. But `sgld` is too wide, by nearly 90% in the narrow
# direction: the gradient noise adds to the variance of the posterior.


def ratios(chains):
    """The sd in the narrow and in the wide direction, over the exact one."""
    return np.sqrt(((chains - exact_mean) @ directions).var(axis=(0, 1)) / variances)


rows = {"exact": [*exact_mean, 1.0, 1.0]}
rows |= {
    name: [*out["theta"].mean(axis=(0, 1)), *ratios(out["theta"])]
    for name, out in draws.items()
}
columns = ["mean of theta[0]", "mean of theta[1]", "sd ratio, narrow", "sd ratio, wide"]
table = pd.DataFrame(rows, columns).T
print(table.round(3).to_string())

# %%
# How large may the stepsize be?
# ------------------------------
# Both errors are known here, because the chain is a linear recursion. Take a direction
# with posterior variance :math:`v`, and let :math:`h = \varepsilon / v` be the stepsize
# in units of it. The chain forgets its position within about :math:`2 / h` iterations,
# and its stationary variance is
#
# .. math::
#
#    v \; \frac{1 + \tfrac{h}{4} \left(\tfrac{N}{n} - 1\right)}{1 - \tfrac{h}{4}}
#    \quad\text{for sgld}, \qquad
#    v \; \frac{1}{1 - \tfrac{h}{4}} \quad\text{for sgldcv}.
#
# The denominator is the discretisation error: from :math:`h = 4` on, the chain
# diverges. The numerator is the gradient noise. Control variates remove all of it in
# this model, whose gradient is linear, and most of it near the mode in others. For a
# standard deviation that is at most 5% too large, `sgldcv` may take :math:`h = 0.37`,
# but `sgld` only :math:`h = 0.004`. So `sgld` needs nearly a hundred times as many
# iterations for the same number of independent draws.
#
# We run both at three more stepsizes. The standard deviations agree with the formula.

measured = {
    name: list(zip(stepsize / variances, ratios(out["theta"]), strict=True))
    for name, out in draws.items()
}
for other in [] if SHORT else variances[0] * np.array([0.02, 0.5, 2.0]):
    plain = sgld(**common, stepsize=other)
    controlled = sgldcv(**common, stepsize=other, **search)
    measured["sgld"] += zip(other / variances, ratios(plain["theta"]), strict=True)
    measured["sgldcv"] += zip(
        other / variances, ratios(controlled["theta"]), strict=True
    )


def predicted(h, excess):
    return np.sqrt((1 + h * excess / 4) / (1 - h / 4))


# %%
# The picture
# -----------
# Left and middle, draws at the first stepsize and the ellipse that contains 95% of the
# exact posterior. Right, the measured standard deviations relative to the exact ones,
# and the formula.

plt.rcParams.update(
    {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False}
)
figure, axes = plt.subplots(1, 3, figsize=(9, 3.4), layout="constrained")
colours = {"sgld": "#ee6677", "sgldcv": "#4477aa"}

circle = np.linspace(0, 2 * np.pi, 200)
radius = np.sqrt(-2 * np.log(1 - 0.95))  # of a standard normal in the plane
ellipse = exact_mean[:, None] + radius * directions @ (
    np.sqrt(variances)[:, None] * [np.cos(circle), np.sin(circle)]
)
for ax, (name, out) in zip(axes, draws.items(), strict=False):
    shown = out["theta"].reshape(-1, 2)
    shown = shown[:: len(shown) // 2_000]
    squares = np.sum(((shown - exact_mean) @ directions) ** 2 / variances, axis=-1)
    ax.plot(*shown.T, ".", markersize=2, color=colours[name])
    ax.plot(*ellipse, color="black", linewidth=1.2)
    ax.set(xlabel=r"$\theta_1$", xlim=exact_mean[0] + np.array([-0.047, 0.047]))
    ax.set(
        ylabel=r"$\theta_2$",
        ylim=exact_mean[1] + np.array([-0.047, 0.047]),
        aspect="equal",
    )
    ax.set_title(
        f"{name}: {np.mean(squares < radius**2):.0%} in the ellipse", fontsize="medium"
    )
    ax.locator_params(nbins=5)

h = np.geomspace(0.002, 3, 200)
for name, excess in (("sgld", N / n - 1), ("sgldcv", 0.0)):
    axes[2].plot(h, predicted(h, excess), color=colours[name], linewidth=1.2)
    axes[2].plot(
        *np.transpose(measured[name]),
        "o",
        color=colours[name],
        markersize=4,
        label=name,
    )
axes[2].axhline(1, color="0.7", linewidth=1, zorder=0)
axes[2].set(
    xscale="log",
    yscale="log",
    xlabel=r"$h$ = stepsize / posterior variance",
    ylabel="sd / exact sd",
)
axes[2].set_yticks([1, 2, 4, 8], ["1", "2", "4", "8"], minor=False)
axes[2].yaxis.set_minor_locator(plt.NullLocator())
axes[2].set_xticks([0.01, 0.1, 1], ["0.01", "0.1", "1"])
axes[2].legend(frameon=False)

# sphinx_gallery_start_ignore
figure.savefig("mvGauss.png", dpi=200)
# sphinx_gallery_end_ignore

# %%
# What can go wrong
# -----------------
# - *The scale.* `logLik` is summed over the observations, not averaged, and a stepsize
#   is a variance: ten times as much data needs a tenth of the stepsize.
# - *The narrowest direction sets the stepsize, the widest the number of iterations.*
#   Here the ratio of their variances, 9, makes one chain slow. If parameters differ in
#   scale, give `stepsize` as a dictionary with one value for each, or reparameterise
#   the model.
# - *A chain that looks well-mixed may be wrong.* A trace of `sgld` shows how fast the
#   chain forgets its position, not how wide it should be. Run it with half the
#   stepsize: if the standard deviations fall, the stepsize was too large.
# - *Successive draws are correlated.* At the first stepsize, a chain forgets its
#   position along the wide direction within about 180 iterations, so its 16,000 draws
#   are worth about 45 independent ones.
