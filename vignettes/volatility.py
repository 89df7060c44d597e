r"""
A volatile index: time series as windows
========================================

The returns of a stock index come in calm and in turbulent periods. A GARCH model
describes how the variance of a day follows from the days before, so no day has a
likelihood of its own. `windows` makes observations of consecutive days, and then
minibatches, control variates and everything automatic work as for independent rows.

Run it from anywhere, with ``python vignettes/volatility.py``. It takes a minute or two.
The data come with the package `arch <https://pypi.org/project/arch/>`_, which also fits
the model by maximum likelihood: ``pip install arch``. With ``SGMCMC_VIGNETTES=short``
in the environment it is shorter, for the tests.
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
from arch import arch_model
from arch.data import sp500
from scipy.signal import lfilter
from scipy.stats import multivariate_t
from scipy.stats import t as student
from tensorflow_probability import distributions as tfd

from sgmcmc import interval, sgldcv, windows

SHORT = False  # whether to run less
# sphinx_gallery_start_ignore
SHORT = os.environ.get("SGMCMC_VIGNETTES") == "short"  # for the tests
# sphinx_gallery_end_ignore

# %%
# The data
# --------
# Daily returns of the S&P 500 from 1999 to 2018, in percent. The last two years are
# held out.

prices = sp500.load()["Adj Close"]
returns = (100 * np.log(prices).diff().dropna()).rename("y")
train = returns[:"2016"]
print(f"{len(train)} days to fit, {len(returns) - len(train)} held out")

# %%
# The model
# ---------
# In a GARCH(1,1) model with the mean :math:`\mu` and Student-t errors,
#
# .. math::
#
#    y_t = \mu + \sqrt{h_t}\, \varepsilon_t, \qquad
#    h_t = \omega + \alpha (y_{t-1} - \mu)^2 + \beta h_{t-1},
#
# where :math:`\varepsilon_t` has a t-distribution with :math:`\nu` degrees of freedom,
# scaled to variance 1. Written out, :math:`h_t` is a sum over all days before, with
# weights that decrease like :math:`\beta^k`. So a window of days is predicted well from
# some tens of days before it.
#
# The log likelihood gets windows of shape (n, before + length). It computes the
# variances of all days in a window, by a product with the matrix of weights, and counts
# the days that are `inside`. The first day of a window has the stationary variance.
# ``shares`` are :math:`\alpha`, :math:`\beta` and :math:`1 - \alpha - \beta`, which is
# positive if the series is stationary.


def variances(params, y):
    """The variance of each day given the days before it in the window."""
    omega, (alpha, beta, rest) = params["omega"], tf.unstack(params["shares"])
    days = tf.range(y.shape[1], dtype=y.dtype)
    lag = days[:, None] - days - 1
    weights = tf.where(lag >= 0, beta ** tf.maximum(lag, 0.0), 0.0)
    added = omega + alpha * (y - params["mu"]) ** 2
    return tf.matmul(added, weights, transpose_b=True) + beta**days * omega / rest


def logLik(params, dataset):
    y, df = dataset["y"], params["df"]
    scale = tf.sqrt(variances(params, y) * (df - 2) / df)
    of_days = tfd.StudentT(df, params["mu"], scale).log_prob(y)
    return tf.reduce_sum(dataset["inside"] * of_days, axis=1)


start = {"mu": 0.0, "omega": 0.05, "shares": [0.1, 0.85, 0.05], "df": 8.0}
transforms = {"omega": "positive", "shares": "simplex", "df": interval(2, 100)}
length = 20
out = sgldcv(
    logLik,
    windows(pd.DataFrame(train), length=length),
    start,
    transforms=transforms,
    minibatchSize="auto",
    nIters=4_000 if SHORT else "auto",
    verbose=False,
    seed=1,
)
columns = ["mean", "sd", "5%", "95%", "ess_bulk", "r_hat"]
print(out.summary()[columns].round(4))

# %%
# How many days before a window are enough? The sampler found the number when it was set
# up, and the predicted error of leaving out all earlier ones, in posterior standard
# deviations:

shift = out.settings["expected"]["contextShift"]
largest = max(np.abs(of_one).max() for of_one in shift.values())
print(f"{out.settings['before']} days before, a shift of at most {largest:.3f} sds")

# %%
# Is it right?
# ------------
# A recursive filter computes the whole likelihood of some 4,500 days in a millisecond,
# so importance sampling gives the posterior without windows. The proposals are from a
# t-distribution with the moments of the draws, on the scale of the logarithms of
# :math:`\omega`, :math:`\alpha`, :math:`\beta` and :math:`\nu - 2`. The weights correct
# the difference between proposal and posterior. The prior is flat in the parameters
# themselves, so the density on the scale of the logarithms has the factor
# :math:`\omega \alpha \beta (\nu - 2)`.

y = train.to_numpy()


def log_density(u):
    mu, (omega, alpha, beta, above) = u[0], np.exp(u[1:])
    if alpha + beta >= 1 or above > 98:
        return -np.inf
    squares = omega + alpha * (y[:-1] - mu) ** 2
    h = np.empty_like(y)
    h[0] = omega / (1 - alpha - beta)
    h[1:] = lfilter([1.0], [1.0, -beta], squares, zi=[beta * h[0]])[0]
    df = above + 2
    scale = np.sqrt(h * above / df)
    return student.logpdf(y, df, mu, scale).sum() + u[1:].sum()


flat = {name: x.reshape(-1, *x.shape[out["mu"].ndim :]) for name, x in out.items()}
shares = flat["shares"]
draws = np.stack([flat["mu"], flat["omega"], *shares.T[:2], flat["df"]], axis=1)
u = np.column_stack([draws[:, 0], np.log(draws[:, 1:4]), np.log(draws[:, 4] - 2)])
proposal = multivariate_t(u.mean(axis=0), 1.2 * np.cov(u.T), df=8, seed=2)
proposed = proposal.rvs(1_000 if SHORT else 20_000)
log_weights = np.array([log_density(one) for one in proposed])
log_weights -= proposal.logpdf(proposed)
weights = np.exp(log_weights - log_weights.max())
weights /= weights.sum()
exact = np.column_stack([proposed[:, 0], np.exp(proposed[:, 1:])])
exact[:, 4] += 2
mean = weights @ exact
sd = np.sqrt(weights @ (exact - mean) ** 2)
fitted = arch_model(train, dist="t").fit(disp="off")
compared = pd.DataFrame(
    {
        "mean": draws.mean(axis=0),
        "exact mean": mean,
        "off by (sd)": (draws.mean(axis=0) - mean) / sd,
        "sd": draws.std(axis=0),
        "exact sd": sd,
        "ML": fitted.params.to_numpy(),
    },
    index=["mu", "omega", "alpha", "beta", "df"],
)
print(compared.round(4))

# %%
# Forecasts
# ---------
# `predict` evaluates any function of the parameters and of windows at every draw. For
# the variance of each held-out day given all returns until the day before, the windows
# of the whole series serve, with the number of days before that the run found. The
# parameters are those of the days until 2016.

series = windows(pd.DataFrame(returns), length=length)


def volatility(params, dataset):
    return tf.sqrt(variances(params, dataset["y"]))


def inside(params, dataset):
    return dataset["inside"]


predicted = out.predict(volatility, series, quantiles=(0.05, 0.95), batchSize=50)
counts = out.predict(inside, series, batchSize=50)["mean"] > 0.5
band = {name: predicted[name][counts] for name in ("mean", "5%", "95%")}
daily = pd.DataFrame(band, index=returns.index)
later = daily["2017":]

# %%
# A forecast is a t-distribution with this volatility, and its 1% quantile is the value
# at risk, the loss of one day in a hundred. Nine of the 502 held-out days are worse,
# where five are expected: by chance alone, nine or more have probability 0.07.

df = flat["df"].mean()
quantile = student.ppf(0.01, df) * np.sqrt((df - 2) / df)
at_risk = flat["mu"].mean() + quantile * daily["mean"]
below = (returns < at_risk)["2017":]
print(f"{below.sum()} of {len(below)} days below the value at risk, {below.mean():.1%}")

# %%
# The picture
# -----------
# Left: returns, and the posterior of the volatility with its 90% interval, which is
# narrow: the uncertainty of the parameters hardly matters beside that of the return.
# Right: the posterior of the persistence, :math:`\alpha + \beta`, and the exact one.

plt.rcParams.update(
    {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False}
)
figure, (left, right) = plt.subplots(
    1, 2, figsize=(9, 3.6), width_ratios=(2, 1), layout="constrained"
)
shown = daily["2015":]
left.plot(returns["2015":], color="0.75", linewidth=0.6, label="return")
left.fill_between(shown.index, shown["5%"], shown["95%"], color="#4477aa", alpha=0.4)
left.plot(shown["mean"], color="#4477aa", linewidth=1, label="volatility")
left.plot(at_risk["2015":], color="#ee6677", linewidth=0.8, label="value at risk, 1%")
left.axvline(later.index[0], color="0.4", linewidth=0.8, linestyle=":")
left.text(later.index[0], 5, " held out", va="top")
left.set(ylabel="percent a day", ylim=(-7, 5.5))
left.legend(frameon=False, loc="lower left", ncols=3)
bins = np.linspace(0.96, 1.0, 41)
right.hist(shares[:, :2].sum(axis=1), bins, density=True, color="#4477aa", alpha=0.4)
persistence = exact[:, 2:4].sum(axis=1)
style = {"histtype": "step", "color": "black", "label": "exact"}
right.hist(persistence, bins, density=True, weights=weights, **style)
right.set(xlabel=r"$\alpha + \beta$", ylabel="posterior density")
right.legend(frameon=False, loc="upper left")

# sphinx_gallery_start_ignore
figure.savefig("volatility.png", dpi=200)
# sphinx_gallery_end_ignore

# %%
# What can go wrong
# -----------------
# - *A long memory.* The error of a window decreases like :math:`\rho^B` with the number
#   B of days before it. If :math:`\rho` is close to 1, hundreds of days are needed, and
#   most of the work is for them. A run warns if B is too small, and says by how much
#   the means would move.
# - *Counting the wrong days.* A log likelihood that does not multiply by `inside` also
#   counts the days before a window, several times over. It is refused.
# - *The first day.* A window does not know the variance of its first day. The
#   stationary variance is a better start than a constant, and needs fewer days before.
