"""Figure 2 of Shang et al. (2015): logistic regression on MNIST, digits 7 and 9.

    python benchmarks/papers/ccadl_figure2.py --data FOLDER --output FOLDER

Writes ccadl_figure2.md and ccadl_figure2.png. FOLDER has mnist.npz.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp
from shared import Clock, arguments, house_style, plt, table, write
from thermostats import COLOURS, EXPLAINED, KEPT, PAPER, samplers

from sgmcmc import DivergenceError

FEATURES, MINIBATCH, LEAPS, SEED = 100, 500, 10, 1
DIMENSIONS = (1, 4)  # 2 and 5, counted from 1
FRICTIONS = (1, 10)
PASSES = {0.2e-4: 600, 0.5e-4: 300, 1e-4: 300}
STEPS = {0.2e-4: 200_000, 0.5e-4: 100_000, 1e-4: 50_000}  # with A = 10 after these passes, for the ellipses
CHAINS, BURN_IN, DRAWS = 10, 200, 1000  # of the reference
HMC = "HMC on all data"
PUBLISHED = {  # test log likelihood in the end, about, as far as it can be read off the picture
    "SGHMC": "far below the others with A = 1; nearer with A = 10, the more so the smaller h",
    "SGNHT": "slower than CCAdL; with A = 1 slower than with A = 10",
    "CCAdL": "about -300 soon, with A = 1 as with A = 10",
}


WIDTHS = {"badodab": {"linewidth": 3.5, "zorder": 1}, "sghmc": {"linewidth": 3, "zorder": 1}}  # behind their likes


class Problem:
    """The data, the mode and the curvature there."""

    def __init__(self, folder: Path) -> None:
        file = np.load(folder / "mnist.npz")
        self.projection = np.random.default_rng(SEED).normal(size=(784, FEATURES))
        self.X, self.y = self.part(file["x_train"], file["y_train"])
        self.X_test, self.y_test = self.part(file["x_test"], file["y_test"])
        X, y, theta = self.X.astype(float), self.y.astype(float), np.zeros(FEATURES)
        for _ in range(25):
            p = 1 / (1 + np.exp(y * (X @ theta)))
            curvature = (X * (p * (1 - p))[:, None]).T @ X + np.eye(FEATURES)
            theta = theta + np.linalg.solve(curvature, X.T @ (y * p) - theta)
        self.mode, self.curvature = theta, curvature
        self.noise = len(y) ** 2 / MINIBATCH * np.var(X * (y * p)[:, None], axis=0)

    def part(self, images: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        kept = np.isin(labels, (7, 9))
        X = images[kept].reshape(kept.sum(), -1) / 255 @ self.projection
        return X.astype(np.float32), np.where(labels[kept] == 9, 1, -1).astype(np.float32)

    def test_log_likelihood(self, theta: np.ndarray) -> np.ndarray:
        """Of the held-out labels, for rows of theta."""
        return -np.logaddexp(0, -self.y_test[:, None] * (self.X_test.astype(float) @ theta.T)).sum(axis=0)


def logLik(params: dict, dataset: dict) -> tf.Tensor:
    return -tf.reduce_sum(tf.nn.softplus(-dataset["y"] * tf.linalg.matvec(dataset["X"], params["theta"])))


def logPrior(params: dict) -> tf.Tensor:
    return -0.5 * tf.reduce_sum(params["theta"] ** 2)


def reference(problem: Problem, draws: int) -> tuple[np.ndarray, dict[str, float]]:
    """By HMC on all data, in coordinates whitened by the curvature at the mode; and what tells that it can be trusted.

    The chains begin twice as far from the mode as the posterior is wide.
    """
    root = np.linalg.inv(np.linalg.cholesky(problem.curvature)).T
    X, y, mode = tf.constant(problem.X), tf.constant(problem.y), tf.constant(problem.mode, tf.float32)
    to_theta = tf.constant(root, tf.float32)

    def log_density(z: tf.Tensor) -> tf.Tensor:
        theta = mode + tf.linalg.matmul(z, to_theta, transpose_b=True)
        eta = tf.linalg.matmul(theta, X, transpose_b=True)
        return -tf.reduce_sum(tf.nn.softplus(-y * eta), 1) - 0.5 * tf.reduce_sum(theta**2, 1)

    kernel = tfp.mcmc.HamiltonianMonteCarlo(log_density, step_size=0.35, num_leapfrog_steps=5)

    @tf.function(autograph=False, jit_compile=True)
    def run() -> tuple[tf.Tensor, tf.Tensor]:
        start = tf.constant(2 * np.random.default_rng(SEED).normal(size=(CHAINS, FEATURES)), tf.float32)
        return tfp.mcmc.sample_chain(
            draws, start, kernel=kernel, num_burnin_steps=BURN_IN, seed=(SEED, SEED),
            trace_fn=lambda _, results: results.is_accepted,
        )  # fmt: skip

    z, accepted = run()
    theta = problem.mode + z.numpy().astype(float) @ root.T  # [draws, CHAINS, FEATURES]
    laplace = np.diag(np.linalg.inv(problem.curvature))
    told = {
        "accepted": float(np.mean(accepted)),
        "rhat": float(np.max(tfp.mcmc.potential_scale_reduction(theta))),
        "ess": float(np.min(tfp.mcmc.effective_sample_size(theta, cross_chain_dims=1))),
        "against the mode": float(np.median(np.sqrt(theta.var(axis=(0, 1)) / laplace))),
        "shift": float(np.sqrt(np.mean((theta.mean(axis=(0, 1)) - problem.mode) ** 2 / laplace))),
    }
    return theta.reshape(-1, FEATURES), told


def run(problem: Problem, h: float, A: float, name: str, steps: int) -> dict[str, Any] | None:
    """Every tenth draw of one chain from 0, and its seconds; None if it left for infinity."""
    sampler, leaps = samplers(h, A, LEAPS, "full")[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of temperatures: they are in the table
        try:
            out = sampler(
                logLik, {"X": problem.X, "y": problem.y}, {"theta": np.zeros(FEATURES)}, logPrior=logPrior,
                minibatchSize=MINIBATCH, nIters=steps // leaps, thin=LEAPS // leaps, verbose=False, seed=SEED,
            )  # fmt: skip
        except DivergenceError:
            return None
    temperature = out.sampleStats["kinetic_temperature"]
    return {
        "theta": np.asarray(out["theta"], float),
        "temperature": float(temperature[len(temperature) // 2 :].mean(dtype=float)),
        "seconds": out.timings["sampling"],
    }


def along(problem: Problem, theta: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Passes, and the test log likelihood of the mean of all draws until then, at some of the first n draws."""
    means = np.cumsum(theta[:n], axis=0) / np.arange(1, n + 1)[:, None]
    at = np.unique(np.geomspace(1, n, 300).astype(int)) - 1
    return (at + 1) * LEAPS * MINIBATCH / len(problem.y), problem.test_log_likelihood(means[at])


def ellipse(mean: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """That which has 95% of a normal distribution."""
    angle = np.linspace(0, 2 * np.pi, 200)
    circle = np.sqrt(-2 * np.log(0.05)) * np.stack([np.cos(angle), np.sin(angle)])
    return mean[:, None] + np.linalg.cholesky(covariance) @ circle


def against(theta: np.ndarray, truth: np.ndarray) -> dict[str, Any]:
    """Errors of all dimensions and of the two that are drawn, in the reference's standard deviations."""
    sd = truth.std(axis=0)
    off = (theta.mean(axis=0) - truth.mean(axis=0)) / sd
    ratios = theta.std(axis=0) / sd
    batches = np.stack([part.std(axis=0) for part in np.array_split(theta, 4)]) / sd
    two = list(DIMENSIONS)
    return {
        "off": np.sqrt(np.mean(off**2)),
        "ratio": np.exp(np.mean(np.log(ratios))),
        "range": (ratios.min(), ratios.max()),
        "two": ratios[two],
        "error": batches[:, two].std(axis=0, ddof=1) / 2,
    }


def main() -> None:
    given, clock = arguments(__doc__), Clock()
    shorter = 50 if given.quick else 1
    problem = Problem(given.data)
    truth, told = reference(problem, DRAWS // shorter)
    clock(f"reference: {told}")
    best = float(problem.test_log_likelihood(truth.mean(axis=0, keepdims=True))[0])
    house_style()
    figure, axes = plt.subplots(2, 3, figsize=(11, 6.6), layout="constrained")
    curves: dict[tuple, Any] = {}
    ends: list[list[str]] = []
    samples: list[list[str]] = []
    errors: dict[tuple, Any] = {}
    for column, (h, passes) in zip(axes.T, PASSES.items(), strict=True):
        n = passes * len(problem.y) // MINIBATCH // LEAPS // shorter
        for A in FRICTIONS:
            more = {1: 0, 10: STEPS[h]}[A] // LEAPS // shorter
            for name in COLOURS:
                found = run(problem, h, A, name, (n + more) * LEAPS)
                if found is None:
                    ends.append([f"{h:g}", str(A), name, *["diverged"] * 6])
                    continue
                clock(f"h = {h:g}, A = {A}, {name}: {found['seconds']:.0f} s")
                x, y = curves[h, A, name] = along(problem, found["theta"], n)
                near = np.abs(y - best) < 5
                stays = np.flatnonzero(~near)[-1] + 1 if (~near).any() else 0
                there = f"{x[stays]:.3g}" if stays < len(x) else "not yet"
                values = [f"{np.interp(x[-1] * part, x, y):.1f}" for part in (0.05, 0.2, 0.5, 1)]
                ends.append([f"{h:g}", str(A), name, *values, there, f"{found['temperature']:.3g}"])
                column[0].plot(x, y, "-" if A == 10 else ":", color=COLOURS[name], **WIDTHS.get(name, {}))
                if more:
                    settled = found["theta"][n:]
                    one = errors[h, name] = against(settled, truth)
                    two = [f"{ratio:.2f} ± {e:.2f}" for ratio, e in zip(one["two"], one["error"], strict=True)]
                    spread = "{:.2f} to {:.2f}".format(*one["range"])
                    samples.append([f"{h:g}", name, f"{one['off']:.2f}", f"{one['ratio']:.2f}", spread, *two])
                    draw_ellipse(column[1], settled, name)
        column[0].axhline(best, color="black", linewidth=0.6)
        column[0].set(xlabel="passes", ylim=(-600, -270))
        column[0].set_title(f"h = {h:g}", fontsize="medium")
        draw_ellipse(column[1], truth, HMC)
        frame(column[1], truth)
    axes[0, 0].set_ylabel("test log likelihood of the mean")
    axes[1, 0].set_ylabel(r"$w_5$")
    names = [*COLOURS, HMC]
    lines = [plt.Line2D([], [], color=COLOURS.get(name, "black")) for name in names]
    lines += [plt.Line2D([], [], color="grey", linestyle=style) for style in (":", "-")]
    figure.legend(lines, [*names, "A = 1", "A = 10"], loc="outside lower center", ncols=5, frameon=False)
    figure.savefig(given.output / "ccadl_figure2.png", dpi=130)
    report(given, clock, problem, told, best, ends, samples, judge(curves, errors, best))


def draw_ellipse(ax: Any, theta: np.ndarray, name: str) -> None:
    two, colour = theta[:, list(DIMENSIONS)], COLOURS.get(name, "black")
    look = WIDTHS.get(name, {"zorder": 5 if name == HMC else 3})
    ax.plot(*ellipse(two.mean(axis=0), np.cov(two.T)), color=colour, **look)
    ax.plot(*two.mean(axis=0), "o" if name == HMC else "x", color=colour, markersize=5, zorder=look["zorder"])


def frame(ax: Any, truth: np.ndarray) -> None:
    """Twice as wide as the reference's ellipse; what is wider leaves the picture."""
    mean, sd = truth.mean(axis=0), truth.std(axis=0)
    first, second = DIMENSIONS
    ends = 4.9 * np.array([-1, 1])
    ax.set(xlim=mean[first] + ends * sd[first], ylim=mean[second] + ends * sd[second])
    ax.locator_params(nbins=6)
    ax.set_xlabel(r"$w_2$")


def judge(curves: dict, errors: dict, best: float) -> list[list[str]]:
    def area(h: float, A: float, name: str) -> float:
        """How far below the reference the curve is, on the average over the passes."""
        if (h, A, name) not in curves:
            return np.inf
        x, y = curves[h, A, name]
        return float(np.trapezoid(best - y, x) / (x[-1] - x[0]))

    below = {
        (h, A): ", ".join(f"{area(h, A, name):.1f}" for name in (KEPT, "sgnht", "ccadl"))
        for h in PASSES
        for A in FRICTIONS
    }
    fastest = [
        key for key in below if area(*key, "ccadl") == min(area(*key, name) for name in (KEPT, "sgnht", "ccadl"))
    ]
    robust = "; ".join(
        f"{name} " + ", ".join(f"{area(h, 1, name) / area(h, 10, name):.2f}" for h in PASSES)
        for name in (KEPT, "sgnht", "ccadl")
    )
    ratios = "; ".join(
        f"h = {h:g}: "
        + ", ".join(f"{errors[h, name]['ratio']:.2f}" for name in (KEPT, "sgnht", "ccadl") if (h, name) in errors)
        for h in PASSES
    )
    ours = ", ".join(f"{area(h, A, 'sghmc'):.1f}" for h, A in below)
    return [
        [
            "CCAdL converges much faster than the other two",
            f"the fastest of the three in {len(fastest)} of {len(below)} cells. How far below the reference the curve "
            f"is on the average ({KEPT}, sgnht, ccadl): "
            + "; ".join(f"h = {h:g}, A = {A}: {value}" for (h, A), value in below.items()),
        ],
        [
            "CCAdL does not depend on A, SGHMC and SGNHT do",
            f"all do. The same with A = 1 over that with A = 10, for the three h: {robust}. In absolute terms CCAdL "
            "loses least",
        ],
        [
            "CCAdL has the right ellipse, SGNHT a wrong one, SGHMC one beyond the picture",
            f"standard deviations over the reference's, the geometric mean of all dimensions ({KEPT}, sgnht, ccadl): "
            f"{ratios}. The ellipse of SGHMC is too wide, but in the picture, as steps are smaller here (see above)",
        ],
        ["(not in the paper) `sghmc`, which renews its momentum", f"on the average below the reference: {ours}"],
    ]


def report(
    given: Any, clock: Clock, problem: Problem, told: dict, best: float, ends: list, samples: list, judged: list
) -> None:
    sizes = len(problem.y), len(problem.y_test)
    heat = problem.noise.mean() / 2
    sd = np.sqrt(np.diag(np.linalg.inv(problem.curvature)))[list(DIMENSIONS)]
    steps = ", ".join(f"{n:,}" for n in STEPS.values())
    parts = [
        "# Logistic regression on MNIST, digits 7 and 9",
        f"{PAPER}, figure 2. {sizes[0]:,} observations, {sizes[1]:,} held out, pixels in [0, 1] projected to "
        f"{FEATURES} features by a matrix of N(0, 1) (seed {SEED}), prior N(0, I), no intercept, minibatches of "
        f"{MINIBATCH}. One parameter with one thermostat, and CCAdL has the full covariance. Chains begin at 0.",
        EXPLAINED + f" Here L is {LEAPS}.",
        "The paper does not say how its projection is scaled. With ours the noise of the gradients adds "
        f"{heat * 1e-4:.0f} to the friction at h = 1e-4, far more than A. Its ellipses are about 4 times narrower than "
        f"ours (standard deviations of {sd[0]:.3f} and {sd[1]:.3f} here, near 0.005 there), so its features were "
        "larger, and the same h is a smaller step here.",
        "## The reference",
        f"HMC of TensorFlow Probability on all data, whitened by the curvature at the mode: {CHAINS} chains of {DRAWS} "
        f"draws after {BURN_IN}, from starts that are twice as wide as the posterior. {told['accepted']:.0%} accepted, "
        f"the largest R-hat is {told['rhat']:.4f}, the smallest effective sample size {told['ess']:,.0f} (not counted "
        "beyond the number of draws). Its standard "
        f"deviations are {told['against the mode']:.3f} times those by the curvature at the mode (median), its mean is "
        f"{told['shift']:.2f} of them from the mode. The test log likelihood of its mean is {best:.1f}.",
        "## Test log likelihood of the mean",
        "The mean is that of all draws until then, of which every tenth is stored. *There*: passes after which it "
        "stays within 5 of the reference. *Temperature* is the mean of momentum^2 / stepsize in the second half, right "
        f"at 1. Curves end after {', '.join(map(str, PASSES.values()))} passes, as in the paper. The means have "
        "the way from 0 in them, so that a chain that settled late is behind for long.",
        table(["h", "A", "sampler", *(f"{part:.0%}" for part in (0.05, 0.2, 0.5, 1)), "there", "temperature"], ends),
        "## Sample quality, A = 10",
        f"From {steps} steps after these passes, where the paper has 10^6. *Mean off*: the root mean square error of "
        "the mean over the dimensions, in the posterior's standard deviations; it has the error of a short chain too. "
        "*Sd*: the standard deviation over that of the reference, the geometric mean over the dimensions and their "
        "range; for dimensions 2 and 5 with standard errors from quarters of the chain.",
        table(["h", "sampler", "mean off", "sd", "range", "dimension 2", "dimension 5"], samples),
        "## What is published, and what came out",
        "The paper has pictures only. What they show: "
        + "; ".join(f"{name}, {what}" for name, what in PUBLISHED.items())
        + ".",
        table(["published", "here"], judged, words=True),
        "![Test log likelihood, and ellipses of dimensions 2 and 5](ccadl_figure2.png)",
        "Above, dotted lines are A = 1, the thin line is the reference. Below, ellipses of 95% with A = 10. `badodab` "
        "lies behind `sgnht`, and `sghmc` behind *fisher*. The ellipses of `sghmc` are those of a chain that is still "
        "on its way: with a new momentum every 10 steps of this size it moves slowly.",
        f"{clock.minutes} minutes.",
    ]
    write(given.output / "ccadl_figure2.md", parts)


if __name__ == "__main__":
    main()
