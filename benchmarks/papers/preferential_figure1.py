"""Figure 1 of Putcha et al. (2023): the pseudo-variance of the gradient against the size of the minibatch.

    python benchmarks/papers/preferential_figure1.py --output FOLDER

Writes preferential_figure1.md and preferential_figure1.png. The data are synthetic; --data is not looked at.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from shared import (
    COLOURS,
    PAPER,
    Clock,
    Model,
    arguments,
    house_style,
    mode_and_covariance,
    plt,
    samplers,
    synthetic,
    table,
    write,
)

from sgmcmc import sgldSetup
from sgmcmc.diagnostics import pseudoVariance

N, POINTS, SEED = 1000, 10, 1
SHARES = (0.01, 0.1, 0.2, 0.5, 0.9)
COVARIANCE = np.array([[1e5, 6e4], [6e4, 2e5]])  # of the Gaussian data; appendix C.1.3
GAUSSIAN_PRIOR = 1e3
WITH = {"subsampling": "withReplacement"}


def gaussian() -> tuple[Model, np.ndarray, np.ndarray]:
    """The model, and the mean and covariance of its posterior."""
    x = np.random.default_rng(SEED).multivariate_normal([0.0, 1.0], COVARIANCE, size=N)
    precision = np.linalg.inv(COVARIANCE)

    def logLik(params: dict, dataset: dict) -> tf.Tensor:
        off = dataset["X"] - params["theta"]
        return -0.5 * tf.reduce_sum(off * tf.linalg.matmul(off, tf.constant(precision)))

    def logPrior(params: dict) -> tf.Tensor:
        return -0.5 * tf.reduce_sum(params["theta"] ** 2) / GAUSSIAN_PRIOR

    covariance = np.linalg.inv(np.eye(2) / GAUSSIAN_PRIOR + N * precision)
    model = Model("bivariate Gaussian", logLik, x, np.zeros(N), logPrior)
    return model, covariance @ (precision @ x.sum(axis=0)), covariance


def curves(model: Model, mode: np.ndarray, covariance: np.ndarray, cv: bool, shares: tuple) -> dict[str, np.ndarray]:
    """The mean over points from the (approximate) posterior, for each share."""
    points = np.random.default_rng(SEED + 1).multivariate_normal(mode, covariance, size=POINTS)
    wanted = {}
    for name, settings in samplers(floor=0.0).items():
        if "CV" in name and not cv:
            continue
        if "PS" in name:
            with_floor = samplers()[name]
            wanted |= {f"{name}, weights at the mode": (settings, False), f"{name}, floor 0.1": (with_floor, False)}
        else:
            wanted |= {name: (settings, False), f"{name}, with replacement": (settings | WITH, False)}
            wanted |= {f"{name}-PS, best weights at each point": (settings | WITH, True)}
    found: dict[str, list[float]] = {name: [] for name in wanted}
    for name, (settings, optimal) in wanted.items():
        for share in shares:
            sampler = sgldSetup(
                **model.given, params={"theta": mode}, stepsize=1e-9, minibatchSize=round(share * N), dtype="float64",
                seed=SEED, preconditioner=None, **settings,
            )  # fmt: skip
            found[name].append(pseudoVariance(sampler, {"theta": points}, optimal=optimal).mean())
    return {name: np.array(values) for name, values in found.items()}


def law(share: np.ndarray, name: str) -> np.ndarray:
    """How the variance falls with n, up to a factor."""
    return (1 - share) / share if name in ("SGLD", "SGLD-CV") else 1 / share


def style(name: str) -> dict:
    base = name.split(",")[0]
    line = "--" if "with replacement" in name else ":" if "best" in name else "-"
    return {"color": COLOURS[base], "linestyle": line, "linewidth": 2.5 if "best" in name else 1.2}


def main() -> None:
    given, clock = arguments(__doc__), Clock()
    shares = SHARES[::2] if given.quick else SHARES
    scenarios = {"(a) bivariate Gaussian": (*gaussian(), False)}
    for letter, title, share in (("b", "balanced", 0.5), ("c", "imbalanced", 0.95)):
        model = synthetic(N, share, SEED, np.float64)
        scenarios[f"({letter}) logistic regression, {title}"] = (model, *mode_and_covariance(model), True)
    parts = [
        "# Pseudo-variance against the size of the minibatch",
        f"{PAPER}, figure 1. N = {N}; the mean over {POINTS} points from the posterior, for (b) and (c) from its "
        "normal approximation. `pseudoVariance` works it out exactly, where the paper estimates it from minibatches: "
        "the points of the picture. Its lines are the law by which the variance falls with n, 1/n, and "
        "(N - n) / (n (N - 1)) without replacement, through the first of them.",
        "In (b) and (c), with 50% and 95% ones, the data are `make_classification` of scikit-learn with 4 informative "
        "features; the paper says "
        "no more than four features. The weights at the mode are those of the paper, without a floor; those with the "
        "default of `preferential()` are beside them. As the picture is all that is published, there are no numbers "
        "to compare with, only an order.",
    ]
    house_style()
    figure, axes = plt.subplots(1, 3, figsize=(9.5, 3.6), layout="constrained")
    judged, finer = [], np.linspace(shares[0], shares[-1], 90)
    for ax, (title, (model, mode, covariance, cv)) in zip(axes, scenarios.items(), strict=True):
        found = curves(model, mode, covariance, cv, shares)
        clock(title)
        rows = [[name, *(f"{value:.3g}" for value in values)] for name, values in found.items()]
        parts += [f"## {title}", table(["gradient", *(f"n = {share:.0%} of N" for share in shares)], rows)]
        judged += judge(title, found, list(shares))
        for name, values in found.items():
            if "floor" not in name:
                ax.plot(finer, values[0] * law(finer, name) / law(shares[0], name), label=name, **style(name))
                ax.plot(shares, values, "o", color=style(name)["color"], markersize=2.5)
        ax.set(yscale="log", xlabel="n / N")
        ax.set_title(title, fontsize="medium")
    axes[0].set_ylabel("pseudo-variance")
    handles, labels = axes[1].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
    figure.savefig(given.output / "preferential_figure1.png", dpi=130)
    parts += ["## What is published, and what came out", table(["published", "here"], judged, words=True)]
    parts += ["![The curves](preferential_figure1.png)", f"{clock.minutes} minutes."]
    write(given.output / "preferential_figure1.md", parts)


def judge(title: str, found: dict[str, np.ndarray], shares: list[float]) -> list[list[str]]:
    letter, rows = title[:3], []
    small = np.array(shares) <= 0.2
    for base in ("SGLD", "SGLD-CV"):
        if base not in found:
            continue
        plain, again = found[base], found[f"{base}, with replacement"]
        ps, best = found[f"{base}-PS, weights at the mode"], found[f"{base}-PS, best weights at each point"]
        gain = plain[small] / ps[small]
        rows += [
            [
                f"{letter} {base}-PS below {base} for n <= 0.2 N",
                f"{'yes' if (gain > 1).all() else 'NO'}: {base} has {gain.min():.2f} to {gain.max():.2f} times as much",
            ],
            [
                f"{letter} {base}: for n <= 0.2 N little is gained without replacement; as n nears N it is the best",
                f"{(again / plain)[small].max():.2f} times less at most up to 0.2 N, {(again / plain)[-1]:.1f} times "
                f"at {shares[-1]:g} N; there {'below' if plain[-1] < best[-1] else 'NOT below'} the best weights",
            ],
            [
                f"{letter} {base}-PS: " + ("a difference" if "CV" in base else "very little difference")
                + " between exact and approximate weights",
                f"approximate weights give {ps[0] / best[0]:.3f} times the variance of exact ones",
            ],
        ]  # fmt: skip
    return rows


if __name__ == "__main__":
    main()
