"""Figures 3 and 5 of Putcha et al. (2023): sizes that adapt, the data they look at and the KSD they reach.

    python benchmarks/papers/preferential_figure3.py --data FOLDER --output FOLDER

Writes preferential_figure3.md and preferential_figure3.png.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from shared import (
    COLOURS,
    PAPER,
    Clock,
    Model,
    arguments,
    casp,
    house_style,
    mode_and_covariance,
    plt,
    samplers,
    synthetic,
    table,
    write,
)

from sgmcmc import adaptive, sgld
from sgmcmc.diagnostics import fullGradients, ksd

ITERATIONS, CHAINS, DRAWS, SEED = 10_000, 4, 100, 1
SHARES = (0.001, 0.01)  # of the fixed minibatches and of the pilot; the paper has the first


def run(model: Model, mode: np.ndarray, stepsize: float, size: Any, settings: dict, iterations: int) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return sgld(
            **model.given, params={"theta": mode}, stepsize=stepsize, minibatchSize=size, nIters=iterations,
            nChains=CHAINS, seed=SEED, preconditioner=None, verbose=False, **settings,
        )  # fmt: skip


def measure(model: Model, stepsize: float, share: float, iterations: int, clock: Clock) -> dict[str, dict]:
    mode, _ = mode_and_covariance(model)
    n, found = round(share * len(model.y)), {}
    for name, settings in list(samplers().items())[2:]:
        for size in (n, adaptive(pilot=n)):
            out = run(model, mode, stepsize, size, settings, iterations)
            every = np.asarray(out["theta"], float)
            draws = every[:, iterations // DRAWS - 1 :: iterations // DRAWS]
            scores = fullGradients({"theta": draws}, **model.given, nChains=CHAINS, verbose=False)["theta"]
            squares = ((every - mode) ** 2).sum(axis=2)
            label = name if size is n else f"A{name}"
            one = {"ksd": np.array([ksd(x, s) for x, s in zip(draws, scores, strict=True)])}
            if size is n:
                one |= {"passes": n * iterations / len(model.y), "unrounded": n * iterations / len(model.y)}
            else:
                one["sizes"] = np.asarray(out.sampleStats["minibatch_size"])
                one["passes"] = float(np.mean(np.asarray(out.sampleStats["observations"])[:, -1])) / len(model.y)
                wanted = np.clip(np.ceil(n * squares / np.quantile(squares, 0.95)), 1, len(model.y))
                one["unrounded"] = wanted.mean() * iterations / len(model.y)
            found[label] = one
            clock(f"{model.title}, {share:.1%}, {label}: KSD {one['ksd'].mean():.1f}, passes {one['passes']:.1f}")
    return found


def rows(share: float, found: dict[str, dict]) -> list[list[str]]:
    lines = []
    for name, one in found.items():
        fixed = found[name.removeprefix("A")]
        against = "" if fixed is one else f"{one['passes'] / fixed['passes']:.2f}"
        alike = "" if fixed is one else f"{one['ksd'].mean() / fixed['ksd'].mean():.2f}"
        spread = f"{one['ksd'].mean():.4g} ({one['ksd'].min():.3g} to {one['ksd'].max():.3g})"
        size = f"{one['sizes'].mean():.0f}" if "sizes" in one else ""
        cells = (spread, alike, size, f"{one['passes']:.1f}", against, f"{one['unrounded'] / fixed['passes']:.2f}")
        lines.append([f"{share:.1%}", name, *cells])
    return lines


def main() -> None:
    given, clock = arguments(__doc__), Clock()
    iterations = 1000 if given.quick else ITERATIONS
    problems = {
        "logistic regression, synthetic, balanced (figure 3)": (synthetic(10_000, 0.5, SEED), 1e-4),
        "linear regression, CASP (figure 5)": (casp(given.data), 1e-5),
    }
    parts = [
        "# Sizes that adapt",
        f"{PAPER}, figures 3 and 5: {iterations:,} iterations of SGLD with control variates, with minibatches of a "
        "fixed size and with `adaptive(pilot=...)` of that size, which sets the threshold to the 95% quantile of a "
        f"pilot chain; {CHAINS} chains from the mode, stepsizes of table 1 there. The paper has 0.1% of the data. "
        f"KSD is the mean over the chains and their range, from {DRAWS} draws of each and gradients from all data.",
        "*Against fixed* is the data looked at over that with the fixed size, without the pilot chain, of 2000 "
        "iterations. Here sizes are rounded up to parts of a quarter of the fixed size, and of at most 32. "
        "*Unrounded* is what single observations would have given, "
        "as in the paper, worked out from the distances of the same chains.",
    ]
    house_style()
    figure, axes = plt.subplots(2, 3, figsize=(9.5, 5.6), layout="constrained")
    header = ("n or pilot", "sampler", "KSD", "over fixed", "mean size", "passes", "against fixed", "unrounded")
    judged = []
    for line, (title, (model, stepsize)) in zip(axes, problems.items(), strict=True):
        lines, all_found = [], {}
        for share in SHARES:
            all_found[share] = found = measure(model, stepsize, share, iterations, clock)
            lines += rows(share, found)
        parts += [f"## {title[0].upper()}{title[1:]}", f"N = {len(model.y):,}, stepsize {stepsize:g}."]
        parts += [table(header, lines)]
        draw(line, all_found, iterations, title)
        judged += judge(title, all_found)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    figure.savefig(given.output / "preferential_figure3.png", dpi=130)
    parts += ["## What is published, and what came out", table(["published", "here"], judged, words=True)]
    parts += ["![KSD, sizes and passes](preferential_figure3.png)", f"{clock.minutes} minutes."]
    write(given.output / "preferential_figure3.md", parts)


def draw(line: Any, all_found: dict, iterations: int, title: str) -> None:
    """KSD against passes, hollow where the size is fixed; the sizes of one chain; the passes."""
    for k, label in enumerate(next(iter(all_found.values()))):
        colour, fixed = COLOURS[label.removeprefix("A")], not label.startswith("A")
        for at, found in enumerate(all_found.values()):
            one, name = found[label], label if at == 0 else None
            mean, fill = one["ksd"].mean(), "white" if fixed else colour
            reach = [[mean - one["ksd"].min()], [one["ksd"].max() - mean]]
            line[0].errorbar(
                one["passes"] * 1.03 ** (k - 1.5), mean, reach, fmt="o", color=colour, mfc=fill, markersize=5,
                linewidth=0.8, label=name,
            )  # fmt: skip
            place = at + 0.2 * (k - 1.5)
            line[2].bar(place, one["passes"], 0.18, edgecolor=colour, color="white" if fixed else colour)
    sizes = all_found[0.01]["ASGLD-CV-PS"]["sizes"][0]
    line[1].plot(np.arange(1, iterations + 1), sizes, color=COLOURS["SGLD-CV-PS"], linewidth=0.4)
    line[0].set(xscale="log", yscale="log", xlabel="passes", ylabel="KSD")
    low, high = line[0].get_ylim()
    line[0].yaxis.set_minor_formatter("{x:g}" if high / low < 10 else plt.NullFormatter())
    line[1].set(xlabel="iteration", ylabel="size, pilot of 1%")
    line[1].set_title(title, fontsize="medium")
    line[2].set(xlabel="fixed size or pilot", ylabel="passes")
    line[2].set_xticks(range(len(SHARES)), [f"{share:.1%} of N" for share in SHARES])


def judge(title: str, all_found: dict) -> list[list[str]]:
    where, lines = title.split(",")[1].strip().split(" (")[0], []
    for share, found in all_found.items():
        for name in ("SGLD-CV", "SGLD-CV-PS"):
            fixed, adapted = found[name], found[f"A{name}"]
            data, distance = adapted["passes"] / fixed["passes"], adapted["ksd"].mean() / fixed["ksd"].mean()
            said = "yes" if data < 0.8 else "NO"
            said = "less, not far less" if 0.5 < data < 0.8 else said
            what = f"{where}, {share:.1%}: A{name} looks at far less data than {name}, at a KSD not much larger"
            lines.append([what, f"{said}: {data:.2f} times the data, {distance:.2f} times the KSD"])
        with_ps, without = found["ASGLD-CV-PS"]["ksd"], found["ASGLD-CV"]["ksd"]
        ratio = with_ps.mean() / without.mean()
        error = ratio * np.hypot(*(x.std(ddof=1) / x.mean() / CHAINS**0.5 for x in (with_ps, without)))
        verdict = "level" if abs(ratio - 1) < 2 * error else "yes" if ratio < 1 else "NO"
        what = f"{where}, {share:.1%}: ASGLD-CV-PS is somewhat better than ASGLD-CV"
        lines.append([what, f"{verdict}: {ratio:.2f} ± {error:.2f} times the KSD"])
    return lines


if __name__ == "__main__":
    main()
