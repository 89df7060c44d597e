"""Figure 2 of Putcha et al. (2023): KSD and log loss against passes through the data.

    python benchmarks/papers/preferential_figure2.py --data FOLDER --output FOLDER

Writes preferential_figure2.md and preferential_figure2.png. About five minutes.
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
    covertype,
    house_style,
    mode_and_covariance,
    plt,
    samplers,
    table,
    write,
)

from sgmcmc import DivergenceError, sgld
from sgmcmc.diagnostics import fullGradients, ksd, logLoss

SHARE, PASSES, CHAINS, SEED = 0.001, 10, 10, 1
DRAWS = 100  # kept of each chain
COMPARED = {"CASP": (10, 100), "covertype": (4, 50)}  # chains, and draws of each, whose KSD is worked out
SHOWN = (1, 5, 10)


def run(model: Model, mode: np.ndarray, stepsize: float, settings: dict, passes: float) -> Any:
    """As many iterations of burn-in as of sampling; chains of SGLD begin at 0."""
    iterations = round(passes / SHARE)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return sgld(
            **model.given, params={"theta": mode if settings else np.zeros(len(mode))},
            stepsize=stepsize, minibatchSize=round(SHARE * len(model.y)), nIters=2 * iterations, burnIn=iterations,
            thin=iterations // DRAWS, nChains=CHAINS, seed=SEED, preconditioner=None, verbose=False, **settings,
        )  # fmt: skip


def along(draws: np.ndarray, gradients: np.ndarray) -> np.ndarray:
    """The KSD of each chain up to each tenth of it, [chains, 10]."""
    tenth = draws.shape[1] // 10
    ends = np.arange(tenth, 10 * tenth + 1, tenth)
    return np.array([[ksd(x[:end], s[:end]) for end in ends] for x, s in zip(draws, gradients, strict=True)])


def losses(draws: np.ndarray, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The log loss of every draw on held-out data, [chains, draws]."""
    found = []
    for chain in draws:
        p = 1 / (1 + np.exp(-(X @ chain.T.astype(np.float32)).astype(np.float64)))
        found.append(logLoss(p.T, y, perDraw=True))
    return np.array(found)


def measure(model: Model, stepsize: float, passes: float, test: tuple | None, clock: Clock) -> dict[str, dict]:
    mode, covariance = mode_and_covariance(model)
    chains, kept = COMPARED[model.title.split(", ")[1]]
    some = np.s_[:chains, DRAWS // kept - 1 :: DRAWS // kept]
    shared = {"nChains": chains, "dtype": "float32", "verbose": False}
    found = {}
    for name, settings in samplers().items():
        try:
            out = run(model, mode, stepsize, settings, passes)
        except DivergenceError as error:
            found[name] = {"failed": str(error)}
            continue
        clock(f"{model.title}, {name}: chains")
        draws = np.asarray(out["theta"], float)
        gradients = fullGradients({"theta": draws[some]}, **model.given, **shared)["theta"]
        variances = ((draws - mode) ** 2).mean(axis=(0, 1)) / np.diag(covariance)
        found[name] = {"ksd": along(draws[some], gradients), "variance": np.median(variances)}
        if test:
            found[name]["loss"] = losses(draws[:, 1::2], *test)
        clock(f"{model.title}, {name}: {found[name]['ksd'][:, -1].mean():.1f}")
    normal = np.random.default_rng(SEED).multivariate_normal(mode, covariance, size=(CHAINS, DRAWS))
    scores = fullGradients({"theta": normal[some]}, **model.given, **shared)["theta"]
    found["independent draws"] = {"ksd": along(normal[some], scores), "variance": 1.0}
    if test:
        found["independent draws"]["loss"] = losses(normal[:, 1::2], *test)
    return found


def rows(found: dict[str, dict], passes: float) -> list[list[str]]:
    lines = []
    for name, one in found.items():
        if "failed" in one:
            lines.append([name, one["failed"], *[""] * 4])
            continue
        at = [round(10 * k / PASSES) - 1 for k in SHOWN]
        cells = [f"{one['ksd'][:, k].mean():.4g}" for k in at]
        last = one["ksd"][:, -1]
        lines.append([name, *cells, f"{last.min():.4g} to {last.max():.4g}", f"{one['variance']:.3g}"])
    return lines


def order(found: dict[str, dict]) -> list[list[str]]:
    value = {name: one["ksd"][:, -1].mean() if "ksd" in one else np.inf for name, one in found.items()}
    pairs = (("SGLD-CV-PS", "SGLD-CV"), ("SGLD-PS", "SGLD"), ("SGLD-CV", "SGLD"))
    best = min(COLOURS, key=value.get)
    said = "yes" if best == "SGLD-CV-PS" else f"NO: {best} is, but see the next line"
    lines = [["KSD: SGLD-CV-PS is the best", said]]
    ran = {name: one for name, one in found.items() if "ksd" in one}
    spread = {name: one["ksd"][:, -1].std(ddof=1) / len(one["ksd"]) ** 0.5 for name, one in ran.items()}
    for low, high in (pair for pair in pairs if set(pair) <= set(ran)):
        ratio = value[low] / value[high]
        error = ratio * np.hypot(spread[low] / value[low], spread[high] / value[high])
        said = "level" if abs(ratio - 1) < 2 * error else "yes" if ratio < 1 else "NO"
        lines.append([f"KSD: {low} below {high}", f"{said}: {ratio:.3g} ± {error:.2g} times as large"])
    return lines


def curve(ax: Any, at: np.ndarray, values: np.ndarray, name: str) -> None:
    colour = COLOURS.get(name, "black")
    ax.plot(at, values.mean(axis=0), color=colour, linewidth=1.2, label=name, linestyle="-" if name in COLOURS else ":")
    ax.fill_between(at, values.min(axis=0), values.max(axis=0), color=colour, alpha=0.15, linewidth=0)


def main() -> None:
    given, clock = arguments(__doc__), Clock()
    passes = 1 if given.quick else PASSES
    regression = casp(given.data)
    classification, X, y = covertype(given.data, 0.25)
    problems = {
        "(a) linear regression, CASP": (regression, 1e-5, None),
        "(b) (i) logistic regression, covertype": (classification, 1e-6, (X, y)),
    }
    parts = [
        "# KSD and log loss against passes through the data",
        f"{PAPER}, figure 2. Minibatches of {SHARE:.1%} of the data, {passes} passes of burn-in and {passes} of "
        f"sampling, {CHAINS} chains. Stepsizes are those of table 1 there; its convention, theta + eps/2 gradient + "
        "noise of variance eps, is that of this package. Chains of SGLD begin at 0, the others at the mode, "
        "to which `preferential()` takes them by itself; the paper begins SGLD-PS at 0 too. On "
        "covertype SGLD is still on its way from there, so that part of what SGLD-PS gains on it is the start. "
        "`preferential()` has its default floor of 0.1, the paper has none. Columns and response of CASP are "
        "standardised, of which the paper says nothing; covertype is a random 76% of the data set, of which a quarter "
        "is held out. As the pictures are all that is published, there are only orders to compare.",
        "KSD is that of each chain so far, from draws at equal distances and the gradients from all data at them, with "
        "c = 1 and beta = -1/2. The paper does not say of how many draws its KSD is. *Independent draws* are as many "
        "from the normal approximation of the posterior. *Variance* is the mean square distance to the mode over the "
        "posterior's variance, the median over the coefficients. ± are standard errors, from the chains.",
    ]
    house_style()
    figure, axes = plt.subplots(1, 3, figsize=(9.5, 3.6), layout="constrained")
    at = np.linspace(passes / 10, passes, 10)
    for ax, (title, (model, stepsize, test)) in zip(axes, problems.items(), strict=False):
        found = measure(model, stepsize, passes, test, clock)
        header = [
            "sampler",
            *(f"KSD, {k * passes / PASSES:g} passes" for k in SHOWN),
            "range of the chains",
            "variance",
        ]
        parts += [
            f"## {title}",
            f"N = {len(model.y)}, n = {round(SHARE * len(model.y))}, stepsize {stepsize:g}. "
            "KSD of {} chains and {} draws of each.".format(*COMPARED[model.title.split(", ")[1]]),
        ]
        parts += [table(header, rows(found, passes)), table(["published", "here"], order(found), words=True)]
        for name, one in found.items():
            if "ksd" in one:
                curve(ax, at, one["ksd"], name)
        ax.set(yscale="log", xlabel="passes", ylabel="KSD")
        ax.set_title(title, fontsize="medium")
        if test:
            parts += ["Log loss on the held-out data, of single draws:", of_losses(found)]
            finer = np.linspace(2 * passes / DRAWS, passes, DRAWS // 2)
            for name, one in found.items():
                if "loss" in one:
                    curve(axes[2], finer, one["loss"], name)
            axes[2].set(xlabel="passes", ylabel="log loss, held out", yscale="log")
            axes[2].set_title("(b) (ii) covertype", fontsize="medium")
            axes[2].yaxis.set_major_formatter("{x:.3g}")
            axes[2].yaxis.set_minor_formatter("{x:.3g}")
    handles, labels = axes[1].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=5, frameon=False)
    figure.savefig(given.output / "preferential_figure2.png", dpi=130)
    parts += ["![The curves](preferential_figure2.png)", "Lines are means over the chains, bands their range."]
    parts += [f"{clock.minutes} minutes."]
    write(given.output / "preferential_figure2.md", parts)


def of_losses(found: dict[str, dict]) -> str:
    lines = []
    for name, one in found.items():
        if "loss" in one:
            first, second = np.split(one["loss"], 2, axis=1)
            lines.append([name, f"{first.mean():.4f}", f"{second.mean():.4f}", f"{second.std():.2g}"])
    return table(["sampler", "mean, first half", "mean, second half", "sd, second half"], lines)


if __name__ == "__main__":
    main()
