r"""
Other dynamics: thermostats, splittings and cycles
==================================================

The package has more samplers than the R package. Each is meant for one difficulty:
gradient noise that differs between directions, discretisation error, or several modes.
For each, this vignette shows the problem that it addresses, what it then gets right,
and where it fails. All posteriors here are known exactly, so the errors are visible.

Run it from anywhere, with ``python vignettes/dynamics.py``. It takes about a minute.
With ``SGMCMC_VIGNETTES=short`` in the environment it is shorter, for the tests.
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
from scipy import stats

from sgmcmc import Dynamics, badodab, baoab, ccadl, cyclical, psgld, sample, sgld, sgnht

SHORT = False  # whether to run less
# sphinx_gallery_start_ignore
SHORT = os.environ.get("SGMCMC_VIGNETTES") == "short"  # for the tests
# sphinx_gallery_end_ignore
rng = np.random.default_rng(1)

# %%
# Gradient noise that differs between directions
# ----------------------------------------------
# The problem is that of Shang et al. (2015): 100 normal observations with unknown mean
# :math:`\mu` and precision :math:`\gamma`. Under the prior here the posterior is known:
# Student's t for :math:`\mu`, and Gamma for :math:`\gamma`. Both are in one parameter
# array, so they share a thermostat.

N, n = 100, 10
x = rng.normal(size=N)


def logLik(params, dataset):
    mu, gamma = tf.unstack(params["theta"])
    return tf.reduce_sum(
        0.5 * tf.math.log(gamma) - 0.5 * gamma * (dataset["x"] - mu) ** 2
    )


def logPrior(params):
    mu, gamma = tf.unstack(params["theta"])
    return (
        0.5 * tf.math.log(gamma) - 0.5 * gamma * mu**2 - gamma
    )  # N(0, 1/gamma) and Gamma(1, 1)


shape, rate = (
    1 + N / 2,
    1 + (np.sum((x - x.mean()) ** 2) + N * x.mean() ** 2 / (N + 1)) / 2,
)
of_gamma = stats.gamma(shape, scale=1 / rate)
of_mu = stats.t(2 * shape, x.sum() / (N + 1), np.sqrt(rate / shape / (N + 1)))
exact_mean = np.array([of_mu.mean(), of_gamma.mean()])
exact_variance = np.array([of_mu.var(), of_gamma.var()])

# %%
# We compute the gradient noise from the formula of the gradients at the posterior mean,
# for minibatches of 10 drawn with replacement. What matters is the stepsize times the
# variance of the noise, compared with twice the friction `a`. For :math:`\mu` the
# product is larger than that, and several times the product for :math:`\gamma`.

stepsize, a = 1e-4, 0.01  # h = 0.01 and A = 1 in the paper
gradients = np.stack(
    [
        exact_mean[1] * (x - exact_mean[0]),
        0.5 / exact_mean[1] - 0.5 * (x - exact_mean[0]) ** 2,
    ]
)
heat = stepsize * N**2 / n * gradients.var(axis=1)
print(
    f"stepsize x variance of the noise: mu {heat[0]:.3f}, gamma {heat[1]:.3f}; 2a is "
    f"{2 * a:.3f}"
)

# %%
# SGNHT adapts a single friction, so that the average temperature is right; then
# :math:`\mu` is too hot and :math:`\gamma` too cold. CCAdL estimates the covariance of
# the gradient noise, and has a friction for each direction. It averages the covariance
# over all iterations. We can also write our own rule. A ``Dynamics`` with
# ``covariance="diag"`` receives the estimate from each minibatch; the one below
# averages over the last hundred or so.


def forgetful(a, kappa=0.01):
    def init(theta, given):
        momentum = tf.sqrt(given.eps) * given.noise
        return {
            "u": momentum,
            "xi": tf.constant(a, theta.dtype),
            "V": tf.zeros_like(theta),
        }

    def step(theta, memory, given):
        u, eps = memory["u"], given.eps
        V = memory["V"] + kappa * (given.covariance - memory["V"])
        u = (
            u
            + eps * given.gradient
            - (memory["xi"] + eps / 2 * V) * u
            + tf.sqrt(2 * a * eps) * given.noise
        )
        return theta + u, {
            "u": u,
            "xi": memory["xi"] + tf.reduce_mean(u**2) - eps,
            "V": V,
        }

    return Dynamics(step, init=init, covariance="diag")


# %%
# Each sampler runs many chains. They start at draws from the posterior, so all errors
# come from the samplers.

C, T = (20, 4_000) if SHORT else (80, 15_000)
starts = {
    "theta": np.stack(
        [of_mu.rvs(C, random_state=rng), of_gamma.rvs(C, random_state=rng)], axis=1
    )
}
common = {
    "subsampling": "withReplacement",
    "minibatchSize": n,
    "nChains": C,
    "starts": starts,
    "seed": 1,
}
common |= {
    "logPrior": logPrior,
    "nIters": T,
    "burnIn": T // 5,
    "thin": 10,
    "verbose": False,
}
runs = {
    "sgnht": (sgnht, {"a": a}),
    "sgnht, a tenth of the stepsize": (sgnht, {"a": a, "stepsize": stepsize / 10}),
    "ccadl": (ccadl, {"a": a}),
    "ccadl, full covariance": (ccadl, {"a": a, "covariance": "full"}),
    "ccadl that forgets": (sample, {"dynamics": forgetful(a)}),
}
if SHORT:
    runs = {name: runs[name] for name in ("sgnht", "ccadl")}
draws, rows = {}, {}
for name, (sampler, own) in runs.items():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the table shows why
        out = sampler(
            logLik,
            {"x": x},
            {"theta": exact_mean},
            **common | {"stepsize": stepsize} | own,
        )
    draws[name] = theta = out["theta"].astype(float)
    each = ((theta - exact_mean) ** 2).mean(axis=1) / exact_variance  # of each chain
    shift = (theta.mean(axis=(0, 1)) - exact_mean) / np.sqrt(exact_variance)
    error = each.std(axis=0) / np.sqrt(C)
    rows[name] = {
        "variance of mu": each[:, 0].mean(),
        "of gamma": each[:, 1].mean(),
        "their standard error": error.max(),
        "mean of mu, in sds": shift[0],
        "of gamma, in sds": shift[1],
    }
noisy = pd.DataFrame(rows).T
print("\nRelative to the posterior's:")
print(noisy.round(3).to_string())

# %%
# Panels a and b of the picture below show the densities. With one friction for both
# parameters, the variances of SGNHT are 42% too large and 50% too small. A tenth of the
# stepsize reduces the errors to 17% and 18%, but then a chain moves more slowly. The
# variances of CCAdL are 4% and 6% too small, for either kind of covariance. Most of
# this error comes from friction in finite steps: in a simulation with a normal
# posterior and constant noise of these sizes, the variances are 1% and 5% too small.
# The thermostat keeps the mean temperature of both right, so it cools the direction
# with less noise more.
#
# The rest comes from noise that varies with the position of the chain. The average over
# all iterations is then right only on average. An average over recent minibatches gives
# the same result.
#
# Discretisation error
# --------------------
# With exact gradients, the only error is that of the finite steps. Take the mean of
# normal observations with a flat prior: its posterior is normal, so the variance of a
# chain can be compared with a formula. Here are six means of 20 elements each, all for
# the same data, so that one run tries six settings.

K, D, N = 6, 20, 20
x = rng.normal(size=(N, D))
x = (x - x.mean(axis=0)) / x.std(
    axis=0
)  # so that every element has the posterior N(0, 1 / N)
means = [f"theta{k}" for k in range(K)]
params = {name: np.zeros(D) for name in means}


def logLikOfMeans(params, dataset):
    theta = tf.stack([params[name] for name in means])  # [6, 20]
    return -0.5 * tf.reduce_sum((dataset["x"][:, None] - theta) ** 2)


C, T = (5, 1_000) if SHORT else (10, 4_000)
common = {"nChains": C, "nIters": T, "burnIn": T // 5, "seed": 1, "verbose": False}
common["starts"] = {name: rng.normal(size=(C, D)) / np.sqrt(N) for name in means}


def variances(sampler, stepsize, n=N, **own):
    """Of each of the six means, relative to the posterior's.

    Minibatches of all data are exact gradients.
    """
    # relative to the variance of the posterior
    stepsize = np.broadcast_to(stepsize, K) / N
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # stepsize or `a` is too large on purpose
        out = sampler(
            logLikOfMeans,
            {"x": x},
            params,
            dict(zip(means, stepsize, strict=True)),
            minibatchSize=n,
            **common | own,
        )
    return np.array([N * np.mean(out[name].astype(float) ** 2) for name in means])


def of_each(values):
    return dict(zip(means, values, strict=True))


# %%
# The variance of SGNHT is too small by half of its friction, however small the
# stepsize. BADODAB applies the parts of the same dynamics in a symmetric order, and
# does not have this error. The stepsize is 0.02 times the posterior variance.

grid = np.array([0.01, 0.05, 0.1, 0.2, 0.3, 0.4])
thermostats = {"a": grid}
for name, sampler in {"sgnht": sgnht, "badodab": badodab}.items():
    thermostats[name] = variances(sampler, 0.02, a=of_each(grid))
friction = 1 - 0.02 / 4 - np.sqrt((1 - 0.02 / 4) ** 2 - 2 * grid)
thermostats["sgnht, by the formula"] = 1 - friction / 2
thermostats = pd.DataFrame(thermostats).set_index("a")
print("\nVariance relative to the posterior's, at a stepsize of 0.02 variances:")
print(thermostats.round(3).to_string())

# %%
# In the same way, BAOAB orders the parts of Langevin dynamics with momentum. SGLD
# diverges at a stepsize of four times the posterior variance; up to there, the error of
# BAOAB is zero.

steps = np.array([0.25, 0.5, 1.0, 2.0, 2.5, 3.0])
exact_steps = {
    "stepsize": steps,
    "sgld": variances(sgld, steps),
    "sgld, by the formula": 1 / (1 - steps / 4),
}
exact_steps["baoab"] = variances(baoab, steps, alpha=0.3)
exact_steps = pd.DataFrame(exact_steps).set_index("stepsize")
print("\nThe same with exact gradients, stepsizes in variances:")
print(exact_steps.round(3).to_string())

# %%
# Now the minibatches have 2 of the 20 observations. Their noise heats both samplers.
# The less friction BAOAB has, the more it is heated: by :math:`(2 - \alpha) / \alpha`
# times as much. So BAOAB is meant for gradients with little noise.

few, alphas = np.array([0.01, 0.05, 0.3]), np.repeat([1.0, 0.3], 3)
# the variance of the gradient noise of an element; N is its precision
noise = N * (N / 2 - 1) * N / (N - 1)
both = np.tile(few, 2)
with_noise = variances(baoab, both, n=2, alpha=of_each(alphas))
heat = noise * both / N / 4 / (1 - both / 4)
noisy_steps = pd.DataFrame(
    {
        "sgld": variances(sgld, both, n=2)[:3],
        "baoab, alpha = 1": with_noise[:3],
        "baoab, alpha = 0.3": with_noise[3:],
        "the last, by the formula": 1 + (2 - 0.3) / 0.3 * heat[3:],
    },
    index=pd.Index(few, name="stepsize"),
)
print("\nThe same with minibatches of a tenth of the data:")
print(noisy_steps.round(3).to_string())

# %%
# Panels c to e show these results. Without noise, BADODAB and BAOAB are right to within
# Monte Carlo error, at every `a` and every stable stepsize. With noise, BAOAB with a
# friction of 0.3 is far worse than SGLD.
#
# A preconditioner that changes
# -----------------------------
# pSGLD divides each gradient by the root of a running average of its squares. This
# factor changes with the parameters, and pSGLD omits the term that would correct for
# the change. So its error does not vanish with the stepsize. It even grows for very
# small stepsizes: when a chain moves slowly, the average follows its position. `adapt`
# fixes the average after a number of iterations, here the first fifth, which are
# dropped. The remaining iterations are SGLD with a fixed preconditioner, whose error
# falls with the stepsize.

small = np.array([0.003, 0.01, 0.03, 0.1, 0.3, 0.5])
preconditioned = pd.DataFrame(
    {
        "psgld": variances(psgld, small),
        "with adapt": variances(psgld, small, adapt=T // 5),
    },
    index=pd.Index(small, name="stepsize"),
)
print("\nVariance relative to the posterior's, exact gradients:")
print(preconditioned.round(3).to_string())

# %%
# Cyclical stepsizes
# ------------------
# In a mixture of two groups, 45% of the observations are from :math:`N(\theta, 1)` and
# the others from :math:`N(-\theta, 1)`. The posterior has two modes, separated by a
# valley that a chain with small steps hardly ever crosses. It has only one parameter,
# so we compute it on a grid.

N, first = 50, 0.45
rng = np.random.default_rng(0)
x = np.where(rng.random(N) < first, 1.2, -1.2) + rng.normal(size=N)


def logLikOfMixture(params, dataset):
    logs = [
        np.log(first) - 0.5 * (dataset["x"] - params["theta"]) ** 2,
        np.log(1 - first) - 0.5 * (dataset["x"] + params["theta"]) ** 2,
    ]
    return tf.reduce_sum(tf.reduce_logsumexp(tf.stack(logs), axis=0))


def logPriorOfMixture(params):
    return -(params["theta"] ** 2) / 8


grid = np.linspace(-3, 3, 3001)
density = -(grid**2) / 8 + np.logaddexp(
    np.log(first) - 0.5 * (x[:, None] - grid) ** 2,
    np.log(1 - first) - 0.5 * (x[:, None] + grid) ** 2,
).sum(axis=0)
density = np.exp(density - density.max())
density /= density.sum() * (grid[1] - grid[0])

# %%
# All chains start in the higher mode. ``cyclical`` takes large steps at the beginning
# of each cycle, with which the chain crosses the valley, and small ones at its end.
# ``out.summary(weighted=True)`` weights draws by their stepsize. With an
# `explorationFraction` of 0.8, no noise is added in the first 80% of a cycle, and the
# draws from this part do not count.

CYCLE = 500
C, T = (10, 2_000) if SHORT else (50, 10_000)
schedules = {
    "constant, small": 0.003,
    "cyclical": cyclical(0.06, CYCLE),
    "cyclical, exploring": cyclical(0.06, CYCLE, explorationFraction=0.8),
    "the same, h = 0.075": cyclical(0.075, CYCLE, explorationFraction=0.8),
}
if SHORT:
    del schedules["the same, h = 0.075"]
high = grid > 0
sd_in_mode = np.sqrt(np.cov(grid[high], aweights=density[high], ddof=0))
rows = {
    "exact": {
        "share of the higher mode": np.average(high, weights=density),
        "mean": np.average(grid, weights=density),
        "sd within it": sd_in_mode,
    }
}


def with_higher(params):
    """The parameter, and whether it is at the higher mode."""
    return params | {"higher": tf.where(params["theta"] > 0, 1.0, 0.0)}


chains = {}
for name, schedule in schedules.items():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the steps are large on purpose
        chains[name] = out = sgld(
            logLikOfMixture, {"x": x}, {"theta": 1.2}, schedule, logPriorOfMixture, 10,
            nIters=T, nChains=C, seed=1, verbose=False,
            collect=lambda params: with_higher(params),
        )  # fmt: skip
    table = out.summary(weighted=True)
    eps = out.sampleStats.get("step_size", np.ones((C, T, 1)))[..., 0]
    weights = eps * (1 - out.sampleStats.get("exploring", np.zeros((C, T, 1)))[..., 0])
    inside = out["theta"] > 0
    crossings = np.abs(np.diff(inside, axis=1)).sum(axis=1)
    rows[name] = {
        "share of the higher mode": table.loc["higher", "mean"],
        "mean": table.loc["theta", "mean"],
        "sd within it": np.sqrt(
            np.cov(out["theta"][inside], aweights=weights[inside], ddof=0)
        ),
        "share in each chain, from": np.average(inside, axis=1, weights=weights).min(),
        "to": np.average(inside, axis=1, weights=weights).max(),
        "crossings": crossings.mean(),
    }
cycles = pd.DataFrame(rows).T
print("\n" + cycles.round(3).to_string(na_rep=""))

# %%
# Panel f shows the densities. With small constant steps, a chain visits the other mode
# only when it happens to cross, here hardly ever. Cycles visit both modes far more
# often. But weights do not repair large steps: most of the weight is on draws from
# large steps, whose distribution is much too wide. With an exploration fraction, the
# standard deviation within a mode is right to within 10%.
#
# The shares of the modes are wrong. A chain stays in the mode where it is when the
# steps become too small to cross, and nothing gives each mode its posterior
# probability. Here 71% of the draws are in the higher mode with one `h`, by chance near
# the correct 73%, and 58% with an `h` that is a quarter larger. **Cycles find modes,
# but not their weights.**
#
# The picture
# -----------
# Dashed black lines are exact. Points are results of chains, and the lines through them
# are formulas.

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
    [["mu", "gamma", "thermostats"], ["exact", "noisy", "cycles"]],
    figsize=(9, 5.4),
    layout="constrained",
)
titles = {
    "mu": r"a. Noise in two directions: $\mu$",
    "gamma": r"b. The same: $\gamma$",
    "thermostats": "c. Thermostats, exact gradients",
    "exact": "d. Stepsizes, exact gradients",
    "noisy": "e. Stepsizes, a tenth of the data",
    "cycles": "f. Two modes",
}
for name, title in titles.items():
    axes[name].set_title(title, loc="left")

colours = {"sgnht": RED, "ccadl": BLUE}
for k, (name, law) in enumerate({"mu": of_mu, "gamma": of_gamma}.items()):
    ax = axes[name]
    low, top = law.ppf([1e-4, 1 - 1e-4])
    margin = 0.25 * (top - low)
    points = np.linspace(low - margin, top + margin, 300)
    ax.plot(
        points,
        law.pdf(points),
        color="black",
        linewidth=1.2,
        linestyle="--",
        label="exact",
        zorder=3,
    )
    for sampler, colour in colours.items():
        heights, edges = np.histogram(
            draws[sampler][..., k], bins=60, range=(points[0], points[-1]), density=True
        )
        ax.plot(
            (edges[1:] + edges[:-1]) / 2,
            heights,
            color=colour,
            linewidth=1.4,
            label=sampler,
        )
    ax.set(
        xlim=(points[0], points[-1]), ylim=(0, None), yticks=[], xlabel=rf"$\{name}$"
    )
    ax.spines["left"].set_visible(False)
axes["mu"].legend(frameon=False, loc="upper left", fontsize="small", handlelength=1.3)

ax = axes["thermostats"]
ax.axhline(1, color="0.8", linewidth=1, zorder=0)
ax.plot(thermostats.index, thermostats["sgnht, by the formula"], color=RED, linewidth=1)
ax.plot(
    thermostats.index,
    thermostats["sgnht"],
    "o",
    color=RED,
    markersize=5,
    label="sgnht, and its formula",
)
ax.plot(
    thermostats.index,
    thermostats["badodab"],
    "s",
    color=GREEN,
    markersize=5,
    label="badodab",
)
ax.set(xlabel="diffusion factor a", ylabel="variance, relative", ylim=(0.6, 1.1))
ax.legend(frameon=False, loc="lower left", fontsize="small")

ax = axes["exact"]
fine = np.linspace(0, 3.1, 100)
ax.plot(fine, 1 / (1 - fine / 4), color=OCHRE, linewidth=1)
ax.axhline(1, color=BLUE, linewidth=1)
ax.plot(
    exact_steps.index, exact_steps["sgld"], "o", color=OCHRE, markersize=5, label="sgld"
)
ax.plot(
    exact_steps.index,
    exact_steps["baoab"],
    "s",
    color=BLUE,
    markersize=5,
    label="baoab",
)
ax.set(
    xlabel="stepsize, in variances",
    ylabel="variance, relative",
    ylim=(0.5, 4.5),
    xlim=(0, 3.2),
)
ax.legend(
    frameon=False,
    loc="upper left",
    fontsize="small",
    title="lines: formulas",
    title_fontsize="small",
)

ax = axes["noisy"]
fine = np.geomspace(few[0], few[-1], 100)
share = noise * fine / 20 / 4
ax.plot(fine, (1 + share) / (1 - fine / 4), color=OCHRE, linewidth=1)
ax.plot(noisy_steps["sgld"], "o", color=OCHRE, markersize=5, label="sgld")
for alpha, filled in ((1, BLUE), (0.3, "white")):
    ax.plot(
        fine, 1 + (2 - alpha) / alpha * share / (1 - fine / 4), color=BLUE, linewidth=1
    )
    column = noisy_steps[f"baoab, alpha = {alpha}"]
    ax.plot(
        column,
        "s",
        color=BLUE,
        markersize=5,
        markerfacecolor=filled,
        label=rf"baoab, $\alpha$ = {alpha}",
    )
ax.set(
    xscale="log",
    yscale="log",
    xlabel="stepsize, in variances",
    ylabel="variance, relative",
)
ax.set_yticks([1, 2, 5], [1, 2, 5])
ax.yaxis.set_minor_locator(plt.NullLocator())
ax.xaxis.set_major_formatter("{x:g}")
ax.legend(frameon=False, loc="upper left", fontsize="small")

ax = axes["cycles"]
ax.plot(
    grid, density, color="black", linewidth=1.2, linestyle="--", label="exact", zorder=3
)
for name, colour in {
    "constant, small": GREY,
    "cyclical": OCHRE,
    "cyclical, exploring": BLUE,
}.items():
    out = chains[name]
    weights = out.sampleStats.get("step_size", np.ones((C, T, 1)))[..., 0]
    weights = weights * (
        1 - out.sampleStats.get("exploring", np.zeros((C, T, 1)))[..., 0]
    )
    heights, edges = np.histogram(
        out["theta"], bins=80, range=(-3, 3), density=True, weights=weights
    )
    ax.plot(
        (edges[1:] + edges[:-1]) / 2, heights, color=colour, linewidth=1.2, label=name
    )
ax.set(xlim=(-3, 3), ylim=(0, None), yticks=[], xlabel=r"$\theta$")
ax.spines["left"].set_visible(False)
ax.legend(frameon=False, loc="upper left", fontsize="small", handlelength=1.3)

# sphinx_gallery_start_ignore
figure.savefig("dynamics.png", dpi=150)
# sphinx_gallery_end_ignore

# %%
# Which sampler to choose
# -----------------------
# - *Control variates or exact gradients*: `baoab`, if discretisation error limits the
#   stepsize.
# - *Gradient noise that is the same in all directions*: `badodab`, rather than `sgnht`
#   with a large `a`.
# - *Gradient noise that differs between directions*: `ccadl`, with minibatches large
#   enough to estimate a variance.
# - *Error bars*: not `psgld` without `adapt`.
# - *Several modes*: `cyclical` finds them, and so do several chains with `starts`;
#   neither estimates their weights.
