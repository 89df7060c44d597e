"""
A Dirichlet process mixture: an unknown number of clusters
==========================================================

How many kinds of users does a site have, and which pages does each kind visit? A
mixture of multinomial distributions answers both questions if its number of components
is not fixed in advance. A Dirichlet process is a prior over mixtures with infinitely
many components, of which only finitely many have observations. ``dpMixture`` samples
from the posterior with minibatches: an iteration reassigns only some of the
observations, so its cost does not depend on how many there are.

Run it from anywhere, with ``python vignettes/dirichletProcess.py``. It takes a minute
or two.
"""

# sphinx_gallery_start_ignore
import os

import matplotlib

matplotlib.use("Agg")  # draw to a file, with or without a display
# sphinx_gallery_end_ignore

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy.special import gammaln
from sklearn.metrics import adjusted_rand_score

from sgmcmc import dpMixture
from sgmcmc.models import Mixture

SHORT = False  # whether to run less
# sphinx_gallery_start_ignore
SHORT = os.environ.get("SGMCMC_VIGNETTES") == "short"  # for the tests
# sphinx_gallery_end_ignore
N, N_ITERS = (1_000, 1_000) if SHORT else (2_000, 4_000)

# %%
# The data
# --------
# The data are simulated, so the truth is known: 20 pages, and five kinds of users, the
# smallest with 5% of them. Each kind has favourite pages. A user makes 10 to 30 visits.

rng = np.random.default_rng(1)
shares = np.array([0.35, 0.25, 0.20, 0.15, 0.05])
pages = rng.dirichlet(np.full(20, 0.3), size=len(shares))


def users(size):
    """The kind of each user, and the visits of each page."""
    kind = rng.choice(len(shares), size=size, p=shares)
    return kind, rng.multinomial(rng.integers(10, 31, size), pages[kind])


kind, visits = users(N)
_, held_out = users(1_000)

# %%
# The model
# ---------
# With visits :math:`x_i`, components :math:`\theta_j` and their weights :math:`w_j`,
#
# .. math::
#    x_i \sim \sum_j w_j \, \mathrm{Multi}(n_i, \theta_j), \qquad
#    \theta_j \sim \mathrm{Dir}(a, \dots, a), \qquad
#    w_j = v_j \prod_{l < j} (1 - v_l), \qquad v_j \sim \mathrm{Beta}(1, \alpha).
#
# The concentration :math:`\alpha` controls how many components are likely, and is
# inferred too. Only the prior must be chosen. The chain starts with the users assigned
# to 20 components at random, which is far from the posterior.

settings = {"minibatchSize": N // 10, "nIters": N_ITERS, "thin": 20, "seed": 1}
settings |= {"maxComponents": 120, "verbose": False}
runs = {"gibbs": dpMixture(visits, assignments=True, **settings)}

# %%
# The clusters
# ------------
# The labels of components are arbitrary, and may switch along the chain. So we look at
# quantities that do not depend on them. The first is the number of components with
# users, in the second half of the chain:

gibbs = runs["gibbs"]
half = len(gibbs.components) // 2
occupied = pd.Series(gibbs.components[half:]).value_counts(normalize=True)
print(occupied.sort_index().round(2).to_string())

# %%
# Components beyond five hold a few users each: the posterior penalises a small extra
# component only a little. The draws also give the probability that two users are of the
# same kind. Here it is for two users of one kind, and for two users of different kinds:

settled = Mixture(gibbs.draws[half:])
first, second = np.flatnonzero(kind == 0)[:2]
other = np.flatnonzero(kind == 1)[0]
together, apart = settled.coClustering(visits, [[first, second], [first, other]])
print(f"of one kind: {together:.3f}, of two kinds: {apart:.3f}")

# %%
# A draw of all assignments can be compared with the truth. The adjusted Rand index of
# two partitions is 1 if they are the same, and 0 on average if they are independent.

rand = adjusted_rand_score(kind, gibbs.assignments[-1])
print(f"adjusted Rand index of the last draw: {rand:.3f}")

# %%
# Predictions
# -----------
# We measure how well a mixture predicts new users by the mean of their log
# probabilities. The mixture that generated the data has the highest expected score, and
# a single component is the baseline.


orders = gammaln(held_out.sum(axis=1) + 1) - gammaln(held_out + 1).sum(axis=1)


def logPredictive(weights, theta):
    """Of a mixture that is known."""
    joint = np.log(weights) + held_out @ np.log(np.maximum(theta, 1e-300)).T
    return (orders + np.logaddexp.reduce(joint, axis=1)).mean()


best = logPredictive(shares, pages)
alone = logPredictive(np.ones(1), visits.sum(axis=0, keepdims=True) / visits.sum())
print(f"log predictive: {settled.logPredictive(held_out):.2f}")
print(f"the mixture that made the data: {best:.2f}, one component: {alone:.2f}")

# %%
# Exact or estimated counts
# -------------------------
# The sampler comes from the thesis of Baker (2018). There, the number of users of a
# component is estimated from the minibatch, as N/n times the number in it. Weights and
# components move by the stochastic Cox-Ingersoll-Ross process (``method="scir"``) or by
# Riemannian Langevin dynamics (``method="sgrld"``). But only the users of the minibatch
# change these counts. So the counts can be kept for all users, and weights and
# components drawn from their full conditionals. This is ``method="gibbs"``, the
# default, whose posterior is exact whatever the minibatch size. Estimated counts are
# noisy. Here, with ``scir``, the noise adds components that the posterior does not
# have.

for method in ("scir", "sgrld"):
    runs[method] = dpMixture(visits, method=method, **settings)
table = pd.DataFrame(
    {
        name: {
            "components": out.components[half:].mean(),
            "log predictive": Mixture(out.draws[half:]).logPredictive(held_out),
            "seconds": out.timings["sampling"],
        }
        for name, out in runs.items()
    }
).T
print(table.round(2).to_string())

# %%
# The picture
# -----------
# Left, the number of components with users along the chains; five kinds generated the
# data. Right, how well each draw predicts.

plt.rcParams.update(
    {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False}
)
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
for (name, out), colour in zip(
    runs.items(), ("#4477aa", "#228833", "#ee6677"), strict=True
):
    left.plot(out.iterations, out.components, color=colour, linewidth=0.9, label=name)
    each = out.logPredictive(held_out, perDraw=True)
    right.plot(out.iterations, each, color=colour, linewidth=0.9, label=name)
left.axhline(len(shares), color="black", linewidth=1, linestyle="--")
left.set(xlabel="iteration", ylabel="components with users", ylim=(0, None))
right.axhline(best, color="black", linewidth=1, linestyle="--")
right.set(xlabel="iteration", ylabel="log predictive, held-out users")
right.set_ylim(best - 1.5, best + 0.2)
left.legend(frameon=False)

# sphinx_gallery_start_ignore
figure.savefig("dirichletProcess.png", dpi=150)
# sphinx_gallery_end_ignore
