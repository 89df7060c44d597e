"""Section 2.4.2 of the thesis of Baker (2018): SGLD and SGHMC against combined draws of 20 parts of the data.

    python benchmarks/papers/thesis_parts.py --output FOLDER

Writes thesis_parts.md and thesis_parts.png. The data are synthetic; --data is not looked at. The thesis compares with
KDEMC and the Weierstrass sampler too, which this package does not have.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from scipy.spatial import cKDTree
from shared import THESIS, Clock, arguments, house_style, plt, table, write

from sgmcmc import sghmc, sgld
from sgmcmc.diagnostics import combine

PARTS, MINIBATCH, LEAPS, RUNS, SEED = 20, 50, 3, 10, 1
DRAWS, THIN, BURN_IN = 10_000, 10, 10_000
NEIGHBOURS = 10
CELLS = (60, 60, 200)  # of grids, along each axis; each covers what has mass on the one before
DIMENSIONS = (2, 5, 10, 25, 50)
METHODS = ("consensus", "gaussian", "swiss")
COLOURS = {"truth": "#999999", "sgld": "#ee6677", "sghmc": "#228833", "consensus": "#4477aa", "gaussian": "#ccbb44",
           "swiss": "#aa3377"}  # fmt: skip
PUBLISHED = {
    "heavy tails": "all reach the posterior; SGHMC is best, closely followed by consensus; SGLD is among the poorest",
    "two modes": "consensus has one mode between them; SGLD and SGHMC explore both, SGLD best",
    "warped": "consensus lies in the centre; SGLD and SGHMC are better than all divide-and-conquer methods",
}
FOUND = (
    "The statements on modes, warped posteriors and dimension hold for combined draws. SGLD and SGHMC find both modes, "
    "and the warped shape, which draws combined by `consensus` and `gaussian` do not; those of `swiss` keep the warped "
    "shape, but not the modes. That SGHMC is best for heavy tails, and works well in many dimensions, does not hold "
    "here: with three leaps an iteration its variance is 1.5 times that of the posterior, however small the stepsize, "
    "since its momentum is drawn again so often (`sgmcmc/dynamics/sghmc.py`). More leaps mend that."
)
NU, SCALE = 3.0, np.array([[1.0, 0.5], [0.5, 1.0]])
WARPED_SD, WARPED_PRIOR_SD = 2.0, 1.0
MIXTURE_PRIOR_VARIANCE = 10.0


class Target(NamedTuple):
    """A posterior of two numbers: its terms for TensorFlow and, on a grid, for NumPy."""

    data: np.ndarray
    logLik: Callable
    logPrior: Callable | None
    on_grid: Callable[[np.ndarray, np.ndarray], np.ndarray]  # (points [m, 2], data) -> the log likelihood, [m]
    prior_on_grid: Callable[[np.ndarray], np.ndarray]
    box: float
    stepsizes: dict[str, np.ndarray]


def heavy_tails(rng: np.random.Generator) -> Target:
    normal = rng.multivariate_normal(np.zeros(2), SCALE, size=800)
    x = normal / np.sqrt(rng.chisquare(NU, size=(800, 1)) / NU)
    inverse = np.linalg.inv(SCALE)

    def logLik(params: dict, dataset: dict) -> tf.Tensor:
        shift = dataset["x"] - params["theta"]
        square = tf.reduce_sum(tf.matmul(shift, inverse.astype(np.float32)) * shift, axis=1)
        return -(NU + 2) / 2 * tf.math.log1p(square / NU)

    def on_grid(points: np.ndarray, x: np.ndarray) -> np.ndarray:
        u, v = x[:, 0] - points[:, :1], x[:, 1] - points[:, 1:]
        square = inverse[0, 0] * u**2 + 2 * inverse[0, 1] * u * v + inverse[1, 1] * v**2
        return (-(NU + 2) / 2 * np.log1p(square / NU)).sum(axis=1)

    steps = {"sgld": 10.0 ** np.arange(-6.0, -3.4, 0.25), "sghmc": 10.0 ** np.arange(-7.0, -4.4, 0.25)}
    return Target(x, logLik, None, on_grid, lambda points: np.zeros(len(points)), 2.0, steps)


def two_modes(rng: np.random.Generator) -> Target:
    x = rng.normal(size=10_000) + rng.choice([-0.15, 0.15], size=10_000)

    def logLik(params: dict, dataset: dict) -> tf.Tensor:
        shift = dataset["x"][:, None] - params["theta"]
        return tf.reduce_logsumexp(-0.5 * shift**2, axis=1)

    def logPrior(params: dict) -> tf.Tensor:
        return -0.5 * tf.reduce_sum(params["theta"] ** 2) / MIXTURE_PRIOR_VARIANCE

    def on_grid(points: np.ndarray, x: np.ndarray) -> np.ndarray:
        shift = x - points[:, :, None]
        return np.logaddexp(*np.moveaxis(-0.5 * shift**2, 1, 0)).sum(axis=1)

    def prior(points: np.ndarray) -> np.ndarray:
        return -0.5 * (points**2).sum(axis=1) / MIXTURE_PRIOR_VARIANCE

    steps = {"sgld": 10.0 ** np.arange(-6.0, -3.9, 0.25), "sghmc": 10.0 ** np.arange(-7.5, -5.4, 0.25)}
    return Target(x, logLik, logPrior, on_grid, prior, 2.0, steps)


def warped(rng: np.random.Generator) -> Target:
    x = rng.normal(0.5, WARPED_SD, size=800)

    def logLik(params: dict, dataset: dict) -> tf.Tensor:
        theta = params["theta"]
        return -0.5 * ((dataset["x"] - theta[0] - theta[1] ** 2) / WARPED_SD) ** 2

    def logPrior(params: dict) -> tf.Tensor:
        return -0.5 * tf.reduce_sum(params["theta"] ** 2) / WARPED_PRIOR_SD**2

    def on_grid(points: np.ndarray, x: np.ndarray) -> np.ndarray:
        mean = points[:, 0] + points[:, 1] ** 2
        return -0.5 * (((x**2).sum() - 2 * mean * x.sum() + len(x) * mean**2) / WARPED_SD**2)

    def prior(points: np.ndarray) -> np.ndarray:
        return -0.5 * (points**2).sum(axis=1) / WARPED_PRIOR_SD**2

    steps = 10.0 ** np.arange(-5.0, -2.9, 0.25)
    return Target(x, logLik, logPrior, on_grid, prior, 25.0, {"sgld": steps, "sghmc": steps})


TARGETS = {"heavy tails": heavy_tails, "two modes": two_modes, "warped": warped}


def exact(
    target: Target, x: np.ndarray, prior_power: float, power: float, n: int, rng: np.random.Generator
) -> np.ndarray:
    """Independent draws on a fine grid, each moved within its cell, [n, 2]."""
    low, high = np.full(2, -target.box), np.full(2, target.box)
    for cells in CELLS:
        edges = [np.linspace(a, b, cells + 1) for a, b in zip(low, high, strict=True)]
        centres = [(edge[1:] + edge[:-1]) / 2 for edge in edges]
        points = np.stack(np.meshgrid(*centres, indexing="ij"), axis=-1).reshape(-1, 2)
        pieces = np.array_split(points, max(1, len(points) * len(x) // 20_000_000))
        log_lik = np.concatenate([target.on_grid(piece, x) for piece in pieces])
        log_p = power * log_lik + prior_power * target.prior_on_grid(points)
        inside = points[log_p > log_p.max() - 25]
        widths = (high - low) / cells
        low, high = inside.min(axis=0) - widths, inside.max(axis=0) + widths
    p = np.exp(log_p - log_p.max())
    at = rng.choice(len(points), size=n, p=p / p.sum())
    return points[at] + widths * (rng.random((n, 2)) - 0.5)


def divergence(truth: np.ndarray, draws: np.ndarray) -> float:
    """Kullback and Leibler's, of the truth from the draws, by distances to the tenth neighbour, as FNN estimates it."""
    of_truth = cKDTree(truth).query(truth, NEIGHBOURS + 1)[0][:, -1]
    of_draws = cKDTree(draws).query(truth, NEIGHBOURS)[0][:, -1]
    size = truth.shape[1]
    return float(size * np.mean(np.log(of_draws / of_truth)) + np.log(len(draws) / (len(truth) - 1)))


def runs_of(name: str, target: Target, stepsize: float, truth: np.ndarray, n_draws: int, burn_in: int) -> np.ndarray:
    """Ten chains from the posterior's mean, [10, n, 2]."""
    sampler, more = (sgld, {}) if name == "sgld" else (sghmc, {"L": LEAPS})
    given: dict[str, Any] = {"logPrior": target.logPrior, "minibatchSize": MINIBATCH, "seed": SEED, **more}
    out = sampler(
        target.logLik, {"x": target.data.astype(np.float32)}, {"theta": truth.mean(axis=0)}, stepsize,
        nIters=burn_in + THIN * n_draws, burnIn=burn_in, thin=THIN, nChains=RUNS, verbose=False, **given,
    )  # fmt: skip
    return out["theta"]


def best_of(name: str, target: Target, truth: np.ndarray, n_draws: int, burn_in: int) -> tuple[float, np.ndarray]:
    """The stepsize with the smallest divergence, as in the thesis, and its chains."""
    found = {}
    for stepsize in target.stepsizes[name]:
        try:
            chains = runs_of(name, target, float(stepsize), truth, n_draws, burn_in)
        except Exception as error:
            print(f"{name}, stepsize {stepsize:.2g}: {type(error).__name__}")
            continue
        found[float(stepsize)] = (np.median([divergence(truth, chain) for chain in chains]), chains)
    stepsize = min(found, key=lambda eps: found[eps][0])
    return stepsize, found[stepsize][1]


def combined(target: Target, n_draws: int, run: int) -> dict[str, np.ndarray]:
    """Draws from 20 parts, each of which gives exact ones, by each method."""
    rng = np.random.default_rng([SEED, run])
    data = np.array_split(rng.permutation(target.data), PARTS)
    shares = [exact(target, part, 1 / PARTS, 1.0, n_draws, rng) for part in data]
    inflated = [exact(target, part, 1.0, PARTS, -(-n_draws // PARTS), rng) for part in data]
    parts = {"consensus": shares, "gaussian": shares, "swiss": inflated}
    return {method: combine(parts[method], method, seed=run) for method in METHODS}


def gaussian_target(size: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    covariance = 0.5 ** np.abs(np.subtract.outer(np.arange(size), np.arange(size)))
    return rng.multivariate_normal(np.zeros(size), covariance, size=800), covariance


def by_dimension(size: int, n_draws: int, burn_in: int) -> dict[str, list[float]]:
    """The divergence of the normal distribution with the draws' moments, of ten runs."""
    from sgmcmc.diagnostics import gaussianKL

    rng = np.random.default_rng(SEED)
    x, covariance = gaussian_target(size, rng)
    inverse, exact_moments = np.linalg.inv(covariance).astype(np.float32), (x.mean(axis=0), covariance / len(x))

    def logLik(params: dict, dataset: dict) -> tf.Tensor:
        shift = dataset["x"] - params["theta"]
        return -0.5 * tf.reduce_sum(tf.matmul(shift, inverse) * shift, axis=1)

    def of_parts(method: str, run: int) -> np.ndarray:
        rng = np.random.default_rng([SEED, run])
        parts = np.array_split(rng.permutation(x), PARTS)
        power = PARTS if method == "swiss" else 1
        n = -(-n_draws // PARTS) if method == "swiss" else n_draws
        draws = [rng.multivariate_normal(part.mean(axis=0), covariance / len(part) / power, size=n) for part in parts]
        return combine(draws, method, seed=run)

    steps = {"sgld": 10.0 ** np.arange(-5.5, -2.9, 0.25), "sghmc": 10.0 ** np.arange(-7.0, -4.4, 0.25)}
    target = Target(x, logLik, None, None, None, 0.0, steps)  # type: ignore[arg-type]
    found = {}
    for name in ("sgld", "sghmc"):
        of_steps = {}
        for stepsize in steps[name]:
            try:
                chains = runs_of(name, target, float(stepsize), x, n_draws, burn_in)
            except Exception as error:
                print(f"{name}, D = {size}, stepsize {stepsize:.2g}: {type(error).__name__}")
                continue
            of_steps[float(stepsize)] = [gaussianKL(chain, *exact_moments) for chain in chains]
        best = min(of_steps, key=lambda eps: float(np.median(of_steps[eps])))
        print(f"{name}, D = {size}: best stepsize {best:.2g}")
        found[name] = of_steps[best]
    return found | {
        method: [gaussianKL(of_parts(method, run), *exact_moments) for run in range(RUNS)] for method in METHODS
    }


def main() -> None:
    warnings.simplefilter("ignore")  # of samplers with stepsizes that are too large, among those that are tried
    given, clock = arguments(__doc__), Clock()
    n_draws, burn_in = (500, 500) if given.quick else (DRAWS, BURN_IN)
    dimensions = DIMENSIONS[:2] if given.quick else DIMENSIONS
    house_style()
    figure, axes = plt.subplots(4, 6, figsize=(11, 7.5), layout="constrained")
    rows: list[list[str]] = []
    for line, (title, make) in enumerate(TARGETS.items()):
        rng = np.random.default_rng(SEED)
        target = make(rng)
        if given.quick:
            target = target._replace(stepsizes={name: eps[2:4] for name, eps in target.stepsizes.items()})
        truth = exact(target, target.data, 1.0, 1.0, n_draws, rng)
        others = exact(target, target.data, 1.0, 1.0, RUNS * n_draws, rng).reshape(RUNS, n_draws, 2)
        again = [divergence(truth, draws) for draws in others]
        found, shown, chosen = {"exact draws": again}, {"truth": truth}, {}
        for name in ("sgld", "sghmc"):
            chosen[name], chains = best_of(name, target, truth, n_draws, burn_in)
            found[name], shown[name] = [divergence(truth, chain) for chain in chains], chains[0]
            clock(f"{title}: {name}, stepsize {chosen[name]:.2g}, {np.median(found[name]):.3f}")
        of_runs = [combined(target, n_draws, run) for run in range(RUNS)]
        for method in METHODS:
            found[method] = [divergence(truth, draws[method]) for draws in of_runs]
            shown[method] = of_runs[0][method]
            clock(f"{title}: {method}, {np.median(found[method]):.3f}")
        rows += [
            [title, f"{name}, stepsize {chosen[name]:.2g}" if name in chosen else name, f"{np.median(values):.3f}",
             f"{min(values):.3f} to {max(values):.3f}"] for name, values in found.items()
        ]  # fmt: skip
        ends = np.quantile(truth, [0.0005, 0.9995], axis=0) + np.ptp(truth, axis=0) * np.array([[-0.2], [0.2]])
        edges = [np.linspace(*ends[:, k], 61) for k in range(2)]
        for axis, (name, draws) in zip(axes[line], shown.items(), strict=True):
            axis.hist2d(*draws.T, bins=edges, cmap="Greys" if name == "truth" else "Blues", rasterized=True)
            axis.set_title(f"{title}: {name}", fontsize=8)
            axis.tick_params(labelsize=6)
    dimension_rows = []
    of_dimensions = {size: by_dimension(size, n_draws, burn_in) for size in dimensions}
    clock("dimensions")
    for name in of_dimensions[dimensions[0]]:
        values = [float(np.median(of_dimensions[size][name])) for size in dimensions]
        dimension_rows.append([name, *(f"{value:.4f}" for value in values)])
    grid = axes[3, 0].get_gridspec()
    for axis in axes[3]:
        axis.remove()
    axis = figure.add_subplot(grid[3, :])
    for name, of_size in ((row[0], row[1:]) for row in dimension_rows):
        axis.plot(dimensions, [float(value) for value in of_size], ".-", color=COLOURS[name], label=name)
    axis.plot(dimensions, [d * (d + 3) / (4 * n_draws) for d in dimensions], ":", color="black", label="exact draws")
    axis.set(xlabel="dimension", ylabel="divergence", yscale="log")
    axis.legend(fontsize=7, ncols=6, frameon=False)
    figure.savefig(given.output / "thesis_parts.png", dpi=130)
    what = [f"- {title}: {text}." for title, text in PUBLISHED.items()]
    what.append("- dimension: consensus is particularly good, being exact there; SGLD and SGHMC work well.")
    intro = (
        f"{THESIS}, section 2.4.2: {PARTS} parts of 800 observations, or of 10,000 of the mixture; minibatches of "
        f"{MINIBATCH}, SGHMC with L={LEAPS}. Scales and stepsizes are not published; stepsizes are those with the "
        f"smallest divergence, as in the thesis. The mixture has observations of one number, so that the posterior of "
        f"its two locations is known on a grid. The draws of the parts are exact, which is the best that their chains "
        f"could do. {n_draws:,} draws, of SGLD and SGHMC every {THIN}th, {RUNS} runs. The divergence is that of exact "
        f"draws from those of a method, estimated from distances to the {NEIGHBOURS}th neighbour; *exact draws* says "
        "what it is for draws that are right."
    )
    write(
        given.output / "thesis_parts.md",
        [
            "# Runs on parts of the data, combined, against SGLD and SGHMC",
            intro,
            table(("posterior", "method", "divergence, median", "of ten runs"), rows),
            "![](thesis_parts.png)",
            "## By dimension",
            "A normal distribution with known covariance; the divergence of the draws' moments, medians of ten runs. "
            f"Independent draws have about D (D + 3) / (4 T) for T = {n_draws:,}.",
            table(("method", *(f"D = {size}" for size in dimensions)), dimension_rows),
            "## What is published",
            "\n".join(what),
            "## What came out",
            FOUND,
            f"{clock.minutes} minutes.",
        ],
    )


if __name__ == "__main__":
    main()
