"""Statistics of ranks, and CALIBRATION.md with its picture, from the results in calibration.json."""

from __future__ import annotations

from functools import cache
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from arviz_stats.ecdf_utils import compute_ecdf, get_pointwise_confidence_band, simulate_confidence_bands
from harness import HERE, HOUSE_STYLE, number
from scipy.special import ndtri
from scipy.stats import chisquare

KEPT, TEXT = HERE / "calibration.json", HERE / "CALIBRATION.md"
PICTURE = HERE / "figures" / "calibration.png"
L = 199  # draws that a truth is compared with, so ranks are 0 to 199
LIKELIHOOD, SECONDS = "log likelihood", "processor seconds"
LEVEL, BINS, SIMULATIONS = 0.95, 20, 10_000
TAIL = round((1 - LEVEL) / 2 * (L + 1))  # the ranks on either side of the interval
POINTS = np.arange(1, L + 1) / (L + 1)
ENOUGH = 10  # data sets, for a row of the table

COLUMNS = (
    "model",
    "elements",
    "data sets",
    "smallest p",
    "outside",
    "p of log likelihood",
    "95% intervals",
    "sd ratio",
    "processor s",
    "warned",
    "failed",
)

INTRO = f"""# Calibration

Simulation-based calibration ([Talts et al. 2018](https://doi.org/10.48550/arXiv.1804.06788)) checks `sgldcv` with
everything automatic. For each data set, the parameters are drawn from the prior, and the data given the parameters. If
the draws are from the posterior, then the rank of each true value among independent draws is uniform. No reference
posterior is needed, and no data set is chosen by hand.

Six models are written as a user would write them, with `logLik`, `logPrior` on the natural scale and `transforms`
(`calibration_models.py`). The call is `sgldcv(..., minibatchSize="auto", nIters="auto", ess=400)`. Nothing is tuned.

A truth is compared with {L} draws at equal distances from all chains. A run stops when every element has 400
effective draws, so these {L} are nearly independent. An interval of {L + 1 - 2 * TAIL} of the {L + 1} ranks has a level
of exactly 95%. Ranks are of the parameters as the user sees them, and of the log likelihood of all data. The log
likelihood depends on all parameters, and its ranks reveal errors that no single parameter shows
([Modrák et al. 2023](https://doi.org/10.1214/23-BA1404)).

**What to expect.** The stepsize is the largest that keeps the standard deviations within the tolerance of 5%. So they
are about 4% too large by design, and ranks lie a little too often in the middle. `tolerance=0.01` makes this smaller.

- **smallest p**: of chi-square tests with {BINS} bins, one for each element, after Holm's correction for their number.
- **outside**: the number of elements whose empirical distribution leaves its simultaneous {LEVEL:.0%} band anywhere
  ([Säilynoja et al. 2022](https://doi.org/10.1007/s11222-022-10090-6)). One in 20 does so by chance. The band is
  that of ArviZ.
- **p of log likelihood**: the chi-square test of its ranks. An asterisk marks an empirical distribution outside its
  band.
- **95% intervals**: the share that contains the truth, over all elements.
- **sd ratio**: the standard deviation of the draws over that of the posterior, as the ranks imply it, ± its standard
  error. For a normal posterior, the normal scores of the ranks have a standard deviation of one over this ratio. The
  error allows for dependence between the elements of a data set.
- **processor s**: the median processor time of a run, including the search for the mode and the compilation.
- **warned**, **failed**: the number of runs with a warning, and of those that ended in an error. Runs with a warning
  count like all others. Runs that failed have no ranks, and are missing from the other columns.
"""

CAPTION = """Each thin line is one element: the empirical distribution of its ranks minus the uniform distribution. The
thick line is the log likelihood. The grey band is the simultaneous 95% band of a single line. Draws that are too wide
give a line below zero on the left and above zero on the right.
"""

IN_LIKELIHOOD = 21  # elements of the hierarchical model on which the log likelihood depends: effects and scale
READING = """## What the tolerance does

With the default tolerance, standard deviations are {least:.1%} to {most:.1%} too large, up to the errors in the table,
and 95% intervals contain the truth in {fewest:.1%} to {largest:.1%} of the cases. The log likelihood shows it best,
since the excess of all elements adds up there. Draws that are too wide have a lower likelihood, the truth ranks too
high, and the thick line lies below zero. It leaves its band in {leaving} of {models} models. With `tolerance=0.01` it
leaves it in {still} of {runs}.

The size is as expected. Let the standard deviations of the draws be r times those of a normal posterior of D elements.
The mean of the log likelihood is then D (r² - 1)/2 lower, its standard deviation is about √(D/2), and the empirical
distribution of the ranks moves by up to (r² - 1) √(D/2) / √(2π). In the hierarchical model, with D = {elements} and
r = {ratio:.3f}, that is {shift:.3f}.
"""

NOTES = """## What is not here

In the hierarchical model each group has 50 observations, which determine its effect. With little data in each group,
or few groups, the posterior of the same centred model has the shape of a funnel. The joint density then has no useful
mode, and `sgldcv` does not work: see [hierarchical models](../docs/guide/hierarchical.md).
"""


def scores(ranks: np.ndarray) -> np.ndarray:
    """The normal scores of ranks, with variance 1 if these are uniform."""
    every = ndtri((np.arange(L + 1) + 0.5) / (L + 1))
    return every[ranks] / every.std()


def sd_ratio(ranks: np.ndarray) -> tuple[float, float]:
    """The ratio of standard deviations that ranks [data sets, elements] imply, and its standard error."""
    z = scores(ranks)
    squares = np.mean((z - z.mean(axis=0)) ** 2, axis=1) * len(z) / (len(z) - 1)
    variance, error = squares.mean(), squares.std(ddof=1) / len(z) ** 0.5
    return variance**-0.5, 0.5 * error * variance**-1.5


def p_value(ranks: np.ndarray) -> float:
    """Of the chi-square test that ranks [data sets] are uniform."""
    return chisquare(np.bincount(ranks * BINS // (L + 1), minlength=BINS)).pvalue


def covered(ranks: np.ndarray) -> float:
    """The share of intervals that contain the truth."""
    return np.mean((ranks >= TAIL) & (ranks <= L - TAIL))


@cache
def band(size: int, level: float = LEVEL) -> tuple[np.ndarray, np.ndarray]:
    """The simultaneous band of the empirical distribution of that many uniform ranks, at POINTS."""
    pointwise = simulate_confidence_bands(size, 1, POINTS, level, SIMULATIONS, np.random.default_rng(1))
    return get_pointwise_confidence_band(pointwise, size, POINTS)


def ecdf(ranks: np.ndarray) -> np.ndarray:
    return compute_ecdf((ranks + 1) / (L + 1), POINTS)


def outside(ranks: np.ndarray) -> bool:
    """Whether the empirical distribution of ranks [data sets] leaves its band."""
    (low, high), found = band(len(ranks)), ecdf(ranks)
    return bool(np.any((found < low) | (found > high)))


def ranks_of(arm: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """The ranks of the runs that did not fail: of parameters, [data sets, elements], and of the log likelihood."""
    names = [name for name in arm["rows"] if name not in (LIKELIHOOD, SECONDS)]
    rows = np.array([arm["rows"][name] for name in (*names, LIKELIHOOD)], dtype=object)
    *of_parameters, of_likelihood = rows[:, [rank is not None for rank in rows[0]]].astype(int)
    return np.array(of_parameters).T, of_likelihood


def title(arm: dict[str, Any]) -> str:
    return f"{arm['title']}, {arm['told']}" if arm["told"] else arm["title"]


def row(arm: dict[str, Any]) -> str:
    """A row of the table."""
    ranks, of_likelihood = ranks_of(arm)
    smallest = min(1.0, ranks.shape[1] * min(map(p_value, ranks.T)))
    ratio, error = sd_ratio(ranks)
    cells = (
        title(arm),
        f"{ranks.shape[1]}",
        f"{len(ranks)}",
        number(smallest),
        f"{sum(map(outside, ranks.T))}",
        number(p_value(of_likelihood)) + (" *" if outside(of_likelihood) else ""),
        f"{covered(ranks):.1%}",
        f"{ratio:.3f} ± {error:.3f}",
        f"{np.median(arm['rows'][SECONDS]):.1f}",
        f"{runs(arm['warned'])}",
        f"{runs(arm['failed'])}",
    )
    return "| " + " | ".join(cells) + " |"


def runs(messages: dict[str, list[int]]) -> int:
    """The number of runs with any of these messages."""
    return len({run for of_message in messages.values() for run in of_message})


def told(kept: dict[str, Any]) -> str:
    """Warnings and errors, with the number of their runs."""
    lines = [
        f"- {title(arm)}: {message} ({len(numbers)})"
        for arm in kept.values()
        for message, numbers in {**arm["warned"], **arm["failed"]}.items()
    ]
    return "\n".join(["Warnings and errors, without their numbers, and in brackets the number of runs:", "", *lines])


def reading(kept: dict[str, Any]) -> str:
    """What the tolerance does to the ranks."""
    default, tight = ([arm for arm in kept.values() if arm["told"] == of] for of in ("", "tolerance 0.01"))
    ranks = [ranks_of(arm)[0] for arm in default]
    ratios, shares = [sd_ratio(of_arm)[0] for of_arm in ranks], [covered(of_arm) for of_arm in ranks]
    leaving = [sum(outside(ranks_of(arm)[1]) for arm in arms) for arms in (default, tight)]
    ratio = ratios[default.index(kept["groups"])]
    shift = (ratio**2 - 1) * (IN_LIKELIHOOD / 2) ** 0.5 / (2 * np.pi) ** 0.5
    return READING.format(
        least=min(ratios) - 1, most=max(ratios) - 1, fewest=min(shares), largest=max(shares), models=len(default),
        leaving=leaving[0], runs=len(tight), still=leaving[1], elements=IN_LIKELIHOOD, ratio=ratio, shift=shift,
    ).strip()  # fmt: skip


def report(kept: dict[str, Any]) -> None:
    """Write the page and the picture."""
    kept = {name: arm for name, arm in kept.items() if len(arm["rows"][SECONDS]) - runs(arm["failed"]) >= ENOUGH}
    if not kept:
        return
    draw(kept)
    head = ["| " + " | ".join(COLUMNS) + " |", "|---|" + "---:|" * (len(COLUMNS) - 1)]
    table = "\n".join(head + [row(arm) for arm in kept.values()])
    parts = [INTRO.strip(), "## Results", table]
    if any(arm["warned"] or arm["failed"] for arm in kept.values()):
        parts.append(told(kept))
    parts.append(f"![Empirical distributions of ranks, minus the uniform](figures/{PICTURE.name})")
    parts.append(CAPTION.strip())
    if "groups" in kept:
        parts.append(reading(kept))
    last = max(kept.values(), key=lambda arm: arm["date"])
    parts += [
        NOTES.strip(),
        f"Made by `calibration.py`, in several sittings. The last was on {last['date']}. Machine: {last['machine']}.",
    ]
    TEXT.write_text("\n\n".join(parts) + "\n")


def draw(kept: dict[str, Any]) -> None:
    """A panel for each row of the table."""
    plt.rcParams.update(HOUSE_STYLE)
    across = 3
    down = -(-len(kept) // across)
    figure, axes = plt.subplots(
        down, across, figsize=(11, 2.6 * down), sharex=True, squeeze=False, layout="constrained"
    )
    for ax, arm in zip(axes.flat, kept.values(), strict=False):
        ranks, of_likelihood = ranks_of(arm)
        low, high = band(len(ranks))
        ax.fill_between(POINTS, low - POINTS, high - POINTS, color="#dddddd", lw=0)
        for of_element in ranks.T:
            ax.plot(POINTS, ecdf(of_element) - POINTS, color="#33608c", lw=0.7, alpha=0.8)
        ax.plot(POINTS, ecdf(of_likelihood) - POINTS, color="#d08a3c", lw=1.8)
        ax.set_title(title(arm), fontsize="medium")
        ax.set_xlim(0, 1)
        limit = 1.1 * max(abs(y) for y in ax.dataLim.intervaly)
        ax.set_ylim(-limit, limit)
    for ax in list(axes.flat)[len(kept) :]:
        ax.remove()
    figure.supxlabel("rank of the truth, as a share", fontsize="medium")
    figure.supylabel("empirical distribution, minus the uniform", fontsize="medium")
    keys = [plt.Line2D([], [], color="#33608c", lw=0.9), plt.Line2D([], [], color="#d08a3c", lw=1.8)]
    figure.legend(keys, ["each element", "log likelihood"], loc="outside upper center", ncols=2, frameon=False)
    figure.savefig(PICTURE, dpi=130)
    plt.close(figure)
