"""Table 1 and figure 1 of Shang et al. (2015): the mean and precision of a normal distribution.

    python benchmarks/papers/ccadl_table1.py --output FOLDER

Writes ccadl_table1.md and ccadl_table1.png. The data are synthetic; --data is not looked at.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import scipy.stats
import tensorflow as tf
from shared import Clock, arguments, house_style, plt, table, write
from thermostats import COLOURS, EXPLAINED, KEPT, PAPER, samplers

from sgmcmc.diagnostics import fullGradients

N, MINIBATCH, SEED = 100, 10, 2
CHAINS, SAMPLES, BURN_IN, RUNS = 100, 100_000, 10_000, 10  # a run of 10^6 samples is CHAINS / RUNS chains
LEAPS = 100
CELLS = {"mu": np.linspace(-0.5, 0.5, 51), "gamma": np.linspace(0.5, 1.7, 61)}  # each 0.02 wide
H, A_OTHERS = 0.01, 1  # that cell
OTHERS_HEADER = ("seed", "noise", "RMSE of SGNHT", "variances of mu, gamma", "RMSE of CCAdL", "variances of mu, gamma")
PUBLISHED = {  # (h, A): {sampler: (RMSE, autocorrelation time)}
    (0.001, 1): {KEPT: (0.0148, 236.12), "sgnht": (0.0037, 238.32), "ccadl": (0.0034, 238.06)},
    (0.001, 10): {KEPT: (0.0029, 333.04), "sgnht": (0.0035, 406.71), "ccadl": (0.0031, 402.45)},
    (0.01, 1): {KEPT: (0.0531, 29.78), "sgnht": (0.0044, 26.71), "ccadl": (0.0021, 26.71)},
    (0.01, 10): {KEPT: (0.0132, 39.33), "sgnht": (0.0043, 55.00), "ccadl": (0.0035, 54.43)},
}
OTHERS = (1, 3, 4, 5, 6, 7)  # seeds of further data, for one cell


def logLik(params: dict, dataset: dict) -> tf.Tensor:
    mu, gamma = tf.unstack(params["theta"])
    return tf.reduce_sum(0.5 * tf.math.log(gamma) - 0.5 * gamma * (dataset["x"] - mu) ** 2)


def logPrior(params: dict) -> tf.Tensor:
    mu, gamma = tf.unstack(params["theta"])
    return 0.5 * tf.math.log(gamma) - 0.5 * gamma * mu**2 - gamma


def observations(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=N)


def marginals(x: np.ndarray) -> dict[str, Any]:
    """The exact ones: Student's t and gamma."""
    kappa, alpha, mean = 1 + N, 1 + N / 2, x.mean()
    beta = 1 + 0.5 * ((x - mean) ** 2).sum() + N * mean**2 / (2 * kappa)
    of_mu = scipy.stats.t(2 * alpha, N * mean / kappa, np.sqrt(beta / (alpha * kappa)))
    return {"mu": of_mu, "gamma": scipy.stats.gamma(alpha, scale=1 / beta)}


def gradient_error(x: np.ndarray) -> float:
    """The largest relative difference of the gradient to that of section 4.1, at 20 points."""
    theta = np.column_stack([np.linspace(-0.3, 0.3, 20), np.linspace(0.6, 1.5, 20)])
    found = fullGradients({"theta": theta}, logLik, {"x": x}, logPrior, dtype="float64", verbose=False)["theta"]
    mu, gamma = theta.T
    published = [
        (N + 1) * mu * gamma - gamma * x.sum(),
        1 - (N + 1) / (2 * gamma) + mu**2 / 2 + ((x - mu[:, None]) ** 2).sum(axis=1) / 2,
    ]
    return float(np.max(np.abs(found + np.stack(published, 1)) / np.abs(published).max()))


def starts(x: np.ndarray) -> np.ndarray:
    """Independent draws from the posterior, [CHAINS, 2]."""
    rng = np.random.default_rng(SEED + 1)
    gamma = marginals(x)["gamma"].rvs(CHAINS, random_state=rng)
    return np.stack([rng.normal(N * x.mean() / (1 + N), 1 / np.sqrt((1 + N) * gamma)), gamma], axis=1)


def masses(draws: np.ndarray) -> np.ndarray:
    """The share of each chain's draws in each cell, of both parameters, [CHAINS, cells]."""
    of = [
        np.stack([np.histogram(chain, edges)[0] for chain in draws[:, :, k]]) for k, edges in enumerate(CELLS.values())
    ]
    return np.concatenate(of, axis=1) / draws.shape[1]


def correlation_times(draws: np.ndarray, leaps: int) -> tuple[float, float]:
    """In minibatches, the mean of both parameters: 1 + 2 sum of the autocorrelations, up to the first that is not
    positive, and all of them, by the variance of the chains' means."""
    first, whole = [], []
    for k in range(draws.shape[2]):
        x = draws[:, :, k] - draws[:, :, k].mean()
        length = x.shape[1]
        spectrum = sum(np.abs(np.fft.rfft(chain, 2 * length)) ** 2 for chain in x)
        correlation = np.fft.irfft(spectrum)[:length] / np.arange(length, 0, -1)
        correlation /= correlation[0]
        until = np.argmax(correlation <= 0)
        first.append(2 * correlation[:until].sum() - 1)
        whole.append(length * x.mean(axis=1).var(ddof=1) / x.var())
    return leaps * float(np.mean(first)), leaps * float(np.mean(whole))


def measured(draws: np.ndarray, leaps: int, exact: dict[str, Any]) -> dict[str, Any]:
    truth = np.concatenate([np.diff(exact[name].cdf(edges)) for name, edges in CELLS.items()])
    shares = masses(draws)
    runs = shares.reshape(RUNS, -1, shares.shape[1]).mean(axis=1)
    rmse = np.sqrt(((runs - truth) ** 2).mean(axis=1))

    # The square of the error that stays however long the run, without what chance adds to it, and its jackknife error.
    def squared_bias(shares: np.ndarray) -> float:
        noise = shares.var(axis=0, ddof=1) / len(shares)
        return float(((shares.mean(axis=0) - truth) ** 2 - noise).mean())

    without = [squared_bias(np.delete(shares, c, axis=0)) for c in range(len(shares))]
    ratios = {}
    for k, name in enumerate(CELLS):
        squares = ((draws[:, :, k] - draws[:, :, k].mean()) ** 2).mean(axis=1) / exact[name].var()
        ratios[name] = squares.mean() - 1, squares.std(ddof=1) / np.sqrt(len(squares))
    return {
        "rmse": rmse.mean(),
        "error": rmse.std(ddof=1) / np.sqrt(RUNS),
        "spread": rmse.std(ddof=1),
        "noise": np.sqrt((shares.var(axis=0, ddof=1) * RUNS / len(shares)).mean()),
        "squared bias": squared_bias(shares),
        "its error": np.std(without) * np.sqrt(len(without) - 1),
        "variances": ratios,
        "times": correlation_times(draws, leaps),
        "density": shares.mean(axis=0),
    }


def run(h: float, A: float, name: str, x: np.ndarray) -> dict[str, Any]:
    sampler, leaps = samplers(h, A, LEAPS, "full")[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of temperatures: they are in the table
        out = sampler(
            logLik, {"x": x}, {"theta": [0.0, 1.0]}, logPrior=logPrior, minibatchSize=MINIBATCH,
            subsampling="withReplacement", nIters=(BURN_IN + SAMPLES) // leaps, burnIn=BURN_IN // leaps,
            nChains=CHAINS, starts={"theta": starts(x)}, verbose=False, seed=SEED,
        )  # fmt: skip
    found = measured(out["theta"].astype(float), leaps, marginals(x))
    return found | {"temperature": out.sampleStats["kinetic_temperature"].mean(dtype=float)}


def line(name: str, one: dict[str, Any], published: tuple | None) -> list[str]:
    rmse, time = published or ("", "")
    bias = np.sqrt(max(one["squared bias"], 0))
    upper = np.sqrt(max(one["squared bias"], 0) + 2 * one["its error"])
    said = f"{bias:.4f}" if one["squared bias"] > 2 * one["its error"] else f"below {upper:.4f}"
    return [
        name,
        f"{rmse}",
        f"{one['rmse']:.4f} ± {one['error']:.5f}",
        f"{one['noise']:.4f}",
        said,
        *(f"{100 * ratio:+.1f} ± {100 * error:.1f}%" for ratio, error in one["variances"].values()),
        f"{time}",
        *(f"{x:.3g}" for x in one["times"]),
        f"{one['temperature']:.3g}",
    ]


HEADER = ("sampler", "RMSE, published", "RMSE, here", "chance", "bias", "variance of mu", "variance of gamma")
HEADER += ("time, published", "time, here", "time, all lags", "temperature")


def judge(found: dict) -> list[list[str]]:
    def at(h: float, A: float) -> str:
        return f"h = {h}, A = {A}"

    level, better, hot = [], [], []
    for (h, A), cell in found.items():
        one, other, kept = cell["ccadl"], cell["sgnht"], cell[KEPT]
        z = (one["rmse"] - other["rmse"]) / np.hypot(one["error"], other["error"])
        z_bias = (one["squared bias"] - other["squared bias"]) / np.hypot(one["its error"], other["its error"])
        verdict = "lower" if z < -2 else "HIGHER" if z > 2 else "level"
        verdict_bias = "lower" if z_bias < -2 else "HIGHER" if z_bias > 2 else "level"
        level.append(f"{at(h, A)}: RMSE {verdict} (z = {z:.1f}), bias {verdict_bias} (z = {z_bias:.1f})")
        better.append(f"{at(h, A)}: {kept['rmse'] / other['rmse']:.1f} and {kept['rmse'] / one['rmse']:.1f} times")
        hot.append(f"{at(h, A)}: {cell['sghmc']['rmse']:.4f} against {kept['rmse']:.4f}")
    factors = "; ".join(
        f"{name}: " + ", ".join(f"{PUBLISHED[key][name][0] / cell[name]['rmse']:.1f}" for key, cell in found.items())
        for name in (KEPT, "sgnht", "ccadl")
    )
    return [
        ["CCAdL has a lower RMSE than SGNHT in every cell", "; ".join(level)],
        [
            "SGHMC is much worse, except with h = 0.001, A = 10, where it is the best",
            "RMSE over that of SGNHT and CCAdL, " + "; ".join(better),
        ],
        [
            "RMSE",
            f"published over ours, in the four cells: {factors}. Of SGHMC and CCAdL they differ by about one factor, "
            "as with cells of another width or number; of SGNHT also by what the data make of its error (see above)",
        ],
        ["(not in the paper) `sghmc` renews its momentum", f"RMSE of `sghmc` against {KEPT}, " + "; ".join(hot)],
    ]


def draw(found: dict, exact: dict[str, Any], path: Any) -> None:
    house_style()
    figure, axes = plt.subplots(2, len(found), figsize=(11, 5.6), layout="constrained", sharey="row")
    shown = (KEPT, "sghmc", "sgnht", "ccadl", "badodab")
    for column, ((h, A), cell) in zip(axes.T, found.items(), strict=True):
        column[0].set_title(f"h = {h}, A = {A}", fontsize="medium")
        first = 0
        for ax, (name, edges) in zip(column, CELLS.items(), strict=True):
            n_cells = len(edges) - 1
            middle, width = (edges[1:] + edges[:-1]) / 2, edges[1] - edges[0]
            inset = ax.inset_axes((0.64, 0.55, 0.36, 0.42))
            peak = middle[np.argmax(np.diff(exact[name].cdf(edges)))]
            height = exact[name].pdf(peak)
            for where in (ax, inset):
                for sampler in shown:
                    share = cell[sampler]["density"][first : first + n_cells] / width
                    dashes = "--" if sampler in ("sghmc", "badodab") else "-"
                    where.plot(middle, share, dashes, color=COLOURS[sampler], linewidth=1.2, label=sampler)
                where.plot(middle, np.diff(exact[name].cdf(edges)) / width, "k:", linewidth=1.4, label="exact")
            inset.set(xlim=(peak - 0.09, peak + 0.09), ylim=(0.83 * height, 1.07 * height), xticks=[], yticks=[])
            inset.spines[:].set_visible(True)
            ax.set(xlabel=rf"$\{name}$", xlim=(edges[0], edges[-1] + 0.35))
            first += n_cells
    for ax in axes[:, 0]:
        ax.set_ylabel("density")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=6, frameon=False)
    figure.savefig(path, dpi=130)


def steps(x: np.ndarray, h: float, A: float) -> float:
    """What the steps of CCAdL make of the variance of mu."""
    noise = N**2 / MINIBATCH * marginals(x)["gamma"].mean()
    return 1 - (A * h + h**2 * noise / 2) / 2


def other_data(clock: Clock) -> list[list[str]]:
    rows = []
    for seed in OTHERS:
        x = observations(seed)
        gamma = marginals(x)["gamma"].mean()
        noise = (scipy.stats.kurtosis(x, fisher=False) - 1) / (4 * gamma**3)
        rows.append([str(seed), f"{noise:.2f}"])
        for name in ("sgnht", "ccadl"):
            one = run(H, A_OTHERS, name, x)
            of_both = ", ".join(f"{100 * ratio:+.1f}%" for ratio, _ in one["variances"].values())
            rows[-1] += [f"{one['rmse']:.4f} ± {one['error']:.5f}", of_both]
        clock(f"data {seed}: {rows[-1]}")
    return rows


def main() -> None:
    global SAMPLES, BURN_IN
    given, clock = arguments(__doc__), Clock()
    SAMPLES, BURN_IN = (5000, 1000) if given.quick else (SAMPLES, BURN_IN)
    x, found, parts = observations(SEED), {}, []
    for h, A in PUBLISHED:
        found[h, A] = {}
        for name in COLOURS:
            found[h, A][name] = run(h, A, name, x)
            clock(f"h = {h}, A = {A}, {name}: RMSE {found[h, A][name]['rmse']:.4f}")
        lines = [line(name, one, PUBLISHED[h, A].get(name)) for name, one in found[h, A].items()]
        parts += [f"## h = {h}, A = {A}", table(HEADER, lines)]
    others = other_data(clock)
    draw(found, marginals(x), given.output / "ccadl_table1.png")
    text = [
        "# The mean and precision of a normal distribution",
        f"{PAPER}, table 1 and figure 1. N = {N} observations from N(0, 1), minibatches of {MINIBATCH} with "
        "replacement, a normal-gamma prior; mu and gamma are one parameter with one thermostat, and CCAdL has the full "
        f"covariance. The gradients are those of section 4.1 to {gradient_error(x):.0e}. The paper's data are not "
        f"known. Ours are `default_rng({SEED}).normal`.",
        EXPLAINED + f" Here L is {LEAPS}.",
        f"{CHAINS} chains side by side, each of {SAMPLES:,} steps after {BURN_IN:,} of burn-in, begin at draws from "
        f"the exact posterior. {CHAINS // RUNS} of them count as one run of {CHAINS // RUNS * SAMPLES:,} samples, so "
        f"that there are {RUNS} runs.",
        "*RMSE*: the root of the mean square difference between the share of the draws in a cell and the exact "
        "probability of it, over cells of 0.02 from -0.5 to 0.5 for mu and from 0.5 to 1.7 for gamma, taken together. "
        "Here it is the mean over the runs and its standard error. The paper does not define its grid, nor whether it "
        "is of densities, which would be 50 times as large. *Chance* is the part of it that a longer run would take "
        "away. *Bias* is what would stay, from all runs; it is given as below two standard errors where it is not "
        "seen. *Variance* is relative to the exact one. *Time* is the autocorrelation time in steps, the mean of both "
        "parameters. The published one is near 1 + 2 times the sum of the autocorrelations up to the first that is "
        "negative, which is what stands beside it. *All lags* is what counts for the error of a mean (standard error "
        "about 14%). The oscillations of a weakly damped chain make it shorter. *Temperature* is the mean of "
        "momentum^2 / stepsize.",
        *parts,
        "## Other data",
        f"The same with h = {H}, A = {A_OTHERS} and other seeds for the data. SGNHT has one friction for both "
        "parameters, and is right if the gradients of both have as much noise. How much they have depends on the "
        "data: N^2/n times gamma for mu, and about N^2/n (kurtosis - 1) / (4 gamma^2) for gamma. *Noise* is the second "
        "over the first, at the mean of gamma.",
        table(OTHERS_HEADER, others),
        "## What is published, and what came out",
        table(["published", "here"], judge(found), words=True),
        "What stays of the error of CCAdL is that of its steps. Of a normal posterior the variance comes out as "
        "1 - (a + h^2 v/2)/2 of what it is, with v for the variance of the gradient's noise. For mu, whose v is about "
        f"N^2/n times gamma, that is {steps(x, 0.01, 10) - 1:+.1%} with h = 0.01 and A = 10, and "
        f"{steps(x, 0.01, 1) - 1:+.1%} with A = 1.",
        "![The marginal densities](ccadl_table1.png)",
        f"{clock.minutes} minutes.",
    ]  # fmt: skip
    write(given.output / "ccadl_table1.md", text)


if __name__ == "__main__":
    main()
