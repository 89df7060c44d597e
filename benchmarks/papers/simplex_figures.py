"""Figures 5.2.1 and 5.3.1 of the thesis of Baker (2018): SCIR and SGRLD on a sparse and a dense Dirichlet posterior.

    python benchmarks/papers/simplex_figures.py --output FOLDER

Writes simplex_figures.md, simplex_figures.json and simplex_figures.png.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import tensorflow as tf
from scipy import special, stats
from shared import THESIS, Clock, arguments, house_style, plt, table, write

from sgmcmc import scir, sgrld

N, ALPHA, ITERATIONS, SEEDS = 1000, 0.1, 1000, 5
COUNTS = {
    "sparse": np.array([800, 100, 100, 0, 0, 0, 0, 0, 0, 0]),
    "dense": np.array([112, 119, 92, 98, 95, 96, 102, 92, 91, 103]),
}
SHARES = (0.001, 0.01, 0.05, 0.1, 0.2, 0.5)
SAMPLERS = {"SCIR": scir, "SGRLD": sgrld}
# Table B.5.1.
STEPSIZES = {
    "SCIR": (1.0, 5e-1, 1e-1, 5e-2, 1e-2, 5e-3, 1e-3),
    "SGRLD": (5e-1, 1e-1, 5e-2, 1e-2, 5e-3, 1e-3, 5e-4, 1e-4),
}
COLOURS = {"exact": "#888888", "SCIR": "#228833", "SGRLD": "#ee6677"}
BOX_SHARE, BOX_COMPONENT = 0.01, 4


def suffStats(params: dict, dataset: dict) -> dict[str, tf.Tensor]:
    return {"omega": tf.reduce_sum(dataset["z"], axis=0)}


def distance(log_omega: np.ndarray, shapes: np.ndarray) -> float:
    """The mean Kolmogorov-Smirnov distance to uniform of draws [T, d] after the Rosenblatt transform (B.5).

    Of a Dirichlet distribution omega_j / (omega_j + ... + omega_d) is Beta distributed given those before.
    """
    rests = np.cumsum(shapes[::-1])[::-1]
    of_rest = np.logaddexp.accumulate(log_omega[:, ::-1], axis=1)[:, ::-1]
    parts = np.exp(log_omega - of_rest)
    cdfs = [special.betainc(shapes[j], rests[j + 1], parts[:, j]) for j in range(len(shapes) - 1)]
    return float(np.mean([stats.kstest(u, "uniform").statistic for u in cdfs]))


def run(name: str, z: np.ndarray, share: float, stepsize: float, iterations: int) -> np.ndarray | None:
    """Logarithms of the draws of chains with a seed each, [C, T, d]; None if they diverge."""
    try:
        out = SAMPLERS[name](
            suffStats, {"z": z}, {"omega": np.full(z.shape[1], 1 / z.shape[1])}, stepsize, ALPHA,
            max(round(share * N), 1), iterations, False, 1, logScale=True, nChains=SEEDS, dtype="float64",
        )  # fmt: skip
    except FloatingPointError:
        return None
    return out["omega"]


def tuned(name: str, z: np.ndarray, shapes: np.ndarray, share: float, iterations: int) -> dict[str, Any]:
    """For each seed the least distance over the grid of stepsizes, and the draws that have it."""
    found: dict[float, np.ndarray] = {}
    for stepsize in STEPSIZES[name]:
        if (draws := run(name, z, share, stepsize, iterations)) is not None:
            found[stepsize] = draws
    each = {h: [distance(chain, shapes) for chain in draws] for h, draws in found.items()}
    best = [min(each, key=lambda h: each[h][c]) for c in range(SEEDS)]
    return {
        "distance": [each[h][c] for c, h in enumerate(best)],
        "stepsize": best,
        "draws": np.concatenate([found[h][c] for c, h in enumerate(best)]),
    }


def main() -> None:
    given, clock = arguments(__doc__), Clock()
    iterations, shares = (200, SHARES[1::3]) if given.quick else (ITERATIONS, SHARES)
    rng = np.random.default_rng(1)
    results: dict[str, dict] = {}
    boxes: dict[str, np.ndarray] = {}
    for case, counts in COUNTS.items():
        z, shapes = np.repeat(np.eye(len(counts)), counts, axis=0), ALPHA + counts
        exact = np.log(np.maximum(rng.dirichlet(shapes, size=(SEEDS, iterations)), 1e-300))
        results[case] = {"exact": [distance(draws, shapes) for draws in exact]}
        if case == "sparse":
            boxes["exact"] = exact[..., BOX_COMPONENT].ravel()
        for name in SAMPLERS:
            for share in shares:
                best = tuned(name, z, shapes, share, iterations)
                draws = best.pop("draws")
                results[case].setdefault(name, {})[share] = best
                if case == "sparse" and share == BOX_SHARE:
                    boxes[name] = draws[:, BOX_COMPONENT]
                print(case, name, share, np.round(best["distance"], 3), best["stepsize"], flush=True)
    picture(given, results, boxes, shares)
    (given.output / "simplex_figures.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    text(given, clock, results, shares, iterations)


def mean(results: dict, case: str, name: str, share: float) -> float:
    return float(np.mean(results[case][name][share]["distance"]))


def at_the_end(results: dict) -> str:
    """Whether a sampler takes the least stepsize of its grid everywhere."""
    for name, grid in STEPSIZES.items():
        if all(h == min(grid) for case in COUNTS for best in results[case][name].values() for h in best["stepsize"]):
            return f" {name} always takes the least of its grid."
    return ""


def text(given: Any, clock: Clock, results: dict, shares: tuple, iterations: int) -> None:
    lines = []
    for case in COUNTS:
        for name in SAMPLERS:
            cells = [f"{mean(results, case, name, share):.3f}" for share in shares]
            hs = [f"{np.median(results[case][name][share]['stepsize']):g}" for share in shares]
            lines.append([case, name, *cells])
            lines.append(["", "stepsize", *hs])
        lines.append([case, "exact draws", *[f"{np.mean(results[case]['exact']):.3f}"] * len(shares)])
    ratio = {
        case: [mean(results, case, "SGRLD", s) / mean(results, case, "SCIR", s) for s in shares] for case in COUNTS
    }
    said = {case: ", ".join(f"{x:.1f}" for x in values) for case, values in ratio.items()}
    parts = [
        "# SCIR and SGRLD on a sparse and a dense posterior",
        f"{THESIS}, sections 5.2.3 and 5.3.2, figures 5.2.1 and 5.3.1. {N} observations of 10 categories, alpha = "
        f"{ALPHA}. The chains begin at equal probabilities and make {iterations} iterations, all of which count. For "
        f"each of {SEEDS} seeds the stepsize of table B.5.1 with the least distance is taken. The distance is the mean "
        "over the categories of the Kolmogorov-Smirnov distance to uniform after the Rosenblatt transform.",
        table(["posterior", "sampler", *[f"n/N = {share:g}" for share in shares]], lines),
        "The stepsizes are medians over the seeds." + at_the_end(results),
        "## What is published, and what came out",
        table(
            ["published", "here"],
            [
                ["sparse: SCIR is clearly below SGRLD at every size of the minibatch (figure 5.3.1 a)",
                 f"{'so it is' if min(ratio['sparse']) > 1 else 'NO'}: SGRLD has {said['sparse']} times SCIR's"],
                ["dense: both are level (figure 5.3.1 b)", f"SGRLD's distance is {said['dense']} times SCIR's"],
            ],
            words=True,
        ),
        "![Distances by the size of the minibatch, and box plots](simplex_figures.png)",
        f"{clock.minutes} minutes.",
    ]  # fmt: skip
    write(given.output / "simplex_figures.md", parts)


def picture(given: Any, results: dict, boxes: dict[str, np.ndarray], shares: tuple) -> None:
    house_style()
    figure, (left, *others) = plt.subplots(1, 3, figsize=(12, 4), constrained_layout=True)
    names = [name for name in COLOURS if name in boxes]
    drawn = left.boxplot(
        [boxes[name] / np.log(10) for name in names], whis=(5, 95), showfliers=False, patch_artist=True
    )
    for patch, name in zip(drawn["boxes"], names, strict=True):
        patch.set_facecolor(COLOURS[name])
    left.set_xticks(range(1, len(names) + 1), names)
    left.set(title="sparse, n/N = 0.01", ylabel="log10 of the fifth probability")
    for axes, case in zip(others, COUNTS, strict=True):
        for name in SAMPLERS:
            values = np.array([results[case][name][share]["distance"] for share in shares])
            axes.plot(shares, values, ".", color=COLOURS[name], alpha=0.5)
            axes.plot(shares, values.mean(axis=1), color=COLOURS[name], label=name)
        axes.axhline(np.mean(results[case]["exact"]), color=COLOURS["exact"], label="exact draws")
        axes.set(xscale="log", yscale="log", title=case, xlabel="n/N", ylabel="Kolmogorov-Smirnov distance")
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter("{x:.2g}")
    others[0].legend()
    figure.savefig(given.output / "simplex_figures.png")


if __name__ == "__main__":
    main()
