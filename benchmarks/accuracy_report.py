"""Writes ACCURACY.md and its picture from the results in accuracy.json."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
from harness import HERE, HOUSE_STYLE, number

KEPT, TEXT, PICTURE = HERE / "accuracy.json", HERE / "ACCURACY.md", HERE / "figures" / "accuracy.png"
CONVERGED, TOLERANCE = 1.01, 0.05
ASTRAY = 1.0  # sds: effective sample sizes are compared only where no mean is off by more
PLAIN = ", no preconditioner"
OURS = ("sgld", "sghmc", "sgnht", "sgldcv", "sghmccv", "sgnhtcv")
OF_R = [name + suffix for name in OURS for suffix in ("", PLAIN)]
FURTHER = ("ccadl, full", "badodab", "badodab, cv", "baoab, cv", "sgldcv, preferential")
ORDER = [*OF_R, *FURTHER]
LINES = (*OURS, *FURTHER)  # of the picture; runs with and without a preconditioner share a line
COLUMNS = (
    "sampler",
    "mean, in sds",
    "worst sd",
    "expected",
    "outside",
    "smallest ESS",
    "R-hat",
    "seconds",
    "processor s",
)
COLUMNS = (*COLUMNS, "million gradients", "ESS / s", "ESS / processor s")
LEFT, RIGHT = 0.7, 1.4

INTRO = f"""# Accuracy

Each sampler of sgmcmc runs on posteriors that are known, with `stepsize="auto"`: nothing is tuned by hand. The
preconditioner is "dense" or none. Each run has four chains, and the first tenth of each chain is discarded. The further
samplers have a dense preconditioner: `ccadl` with `covariance="full"`, for problems whose parameters are one array, as
its automatic stepsize requires; `badodab` and `baoab`, where `cv` stands for `gradient=controlVariates()`; and `sgldcv`
with `subsampling=preferential()`. `psgld` is missing, since it has no automatic stepsize.

The columns are over all elements of the parameters:

- **mean, in sds**: the largest error of a posterior mean, in posterior standard deviations, ± its Monte Carlo error;
- **worst sd**: the largest relative error of a standard deviation, ± its Monte Carlo error. It is the worst of all
  elements, so part of it is chance;
- **expected**: the largest relative error of a standard deviation, in any direction, that the sampler itself predicted
  (`out.settings["expected"]`). It exceeds the tolerance of {TOLERANCE:.0%} where no stepsize would keep it, as for
  `sghmc` with five leaps;
- **outside**: the number of elements whose error exceeds 0.1 sd in the mean or {TOLERANCE:.0%} in the sd by more than
  two Monte Carlo errors. Monte Carlo errors combine those of the run and of the reference. Where R-hat is large, they
  are too small to be trusted;
- **smallest ESS** and **R-hat**: the smallest bulk effective sample size, and the largest rank-normalised R-hat.
  Where R-hat is above {CONVERGED}, the effective sample size means little;
- **seconds**: the whole call, including compilation and the searches for the mode and the stepsize. **processor s**:
  processor time, which depends less on what else the computer did meanwhile;
- **million gradients**: gradients of single observations in the chains. Control variates need two per observation.

All samplers of sgmcmc see the same number of minibatches. `sghmc` uses five per iteration, so it makes a fifth of the
iterations. The reference is exact, or importance sampling on all data from a t distribution. The two modes of the
mixture differ only by the labels of the groups. The control variates are centred at one of them.

![Standard deviations relative to those of the reference](figures/accuracy.png)

Each point is one element: its standard deviation relative to that of the reference. The band is {TOLERANCE:.0%} on
either side. Hollow points belong to runs with an R-hat above {CONVERGED}. Points outside the range of an axis are drawn
at its edge.
"""


def report(kept: dict[str, Any]) -> None:
    """Write the page and the picture."""
    if not kept:
        return
    draw(kept)
    parts = [INTRO.strip()]
    for name, problem in kept.items():
        size = f", effective sample size {number(problem['size'])}" if problem["size"] else ""
        parts.append(f"## {problem['title'][0].upper()}{problem['title'][1:]}")
        parts.append(f"{problem['parameters']} parameters. Reference: {problem['told']}{size}.")
        rows = ordered(problem["rows"])
        parts.append(table(rows))
        parts += [text for text in (silent(rows), warned(rows), missing(rows)) if text]
        if name == "covertype":
            parts.append(compared(rows))
    TEXT.write_text("\n\n".join(parts) + "\n")


def ordered(rows: dict[str, dict]) -> dict[str, dict]:
    """The rows, those of sgmcmc first."""
    return {name: rows[name] for name in [*ORDER, *(one for one in rows if one not in ORDER)] if name in rows}


def table(rows: dict[str, dict]) -> str:
    lines = ["| " + " | ".join(COLUMNS) + " |", "|---|" + "---:|" * (len(COLUMNS) - 1)]
    for name, row in rows.items():
        if "failed" in row:
            lines.append(f"| {name} | {row['failed']} |" + " |" * (len(COLUMNS) - 2))
            continue
        cells = (
            name,
            f"{row['mean']:.2f} ± {row['mean_error']:.2f}",
            f"{row['sd']:+.1%} ± {row['sd_error']:.1%}",
            f"{row['expected']:.1%}" if "expected" in row else "",
            f"{row['outside']}",
            number(row["ess"]),
            f"{row['r_hat']:.3f}",
            number(row["seconds"]),
            number(row["work"]),
            number(row["gradients"] / 1e6),
            number(row["ess"] / row["seconds"]),
            number(row["ess"] / row["work"]),
        )
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def warned(rows: dict[str, dict]) -> str:
    """The first clause of each warning."""
    lines = []
    for name, row in rows.items():
        for message in row.get("warnings", []):
            lines.append(f"- {name}: {message.split(';')[0].rstrip('.')}.")
    return "\n".join(["Warnings:", "", *lines]) if lines else ""


def silent(rows: dict[str, dict]) -> str:
    """Samplers of sgmcmc with elements outside, a small R-hat and no warning."""
    names = [
        name
        for name, row in rows.items()
        if name in ORDER and row.get("outside") and row["r_hat"] <= CONVERGED and not row["warnings"]
    ]
    return f"Elements outside, with a small R-hat and no warning: {'; '.join(names)}." if names else ""


def missing(rows: dict[str, dict]) -> str:
    left = [name for name in OF_R if name not in rows]
    return f"Not run, for lack of time: {'; '.join(left)}." if left else ""


def compared(rows: dict[str, dict]) -> str:
    """`sgldcv` on this problem, and relative to the other packages."""
    lines = [
        "### `sgldcv` compared with other packages",
        "",
        "| `sgldcv`, nothing tuned | measured |",
        "|---|---|",
    ]
    ours = rows.get("sgldcv", {"failed": ""})
    if "failed" in ours:
        return ""
    lines += [
        f"| seconds | {ours['seconds']:.0f}; {ours['work']:.0f} of processors |",
        f"| largest R-hat | {ours['r_hat']:.3f} |",
        f"| elements outside | {ours['outside']} |",
    ]
    peers = {name: row for name, row in rows.items() if name not in ORDER}
    ran = {name: row for name, row in peers.items() if "failed" not in row}
    jax = {name: row for name, row in ran.items() if name.startswith("SGMCMCJax") and row["mean"] < ASTRAY}
    tried = sum(name.startswith("SGMCMCJax") for name in peers)
    if jax:
        best = max(jax, key=lambda name: jax[name]["ess"] / jax[name]["seconds"])
        lines.append(against(f"{best}, the best of the grid", ours, jax[best]))
        right = [name for name, row in jax.items() if row["r_hat"] <= CONVERGED and not row["outside"]]
        kept = f"with an R-hat of at most {CONVERGED} and no element outside"
        lines.append(f"| SGMCMCJax stepsizes of the grid {kept} | {len(right)} of {tried} |")
    for name, row in peers.items():
        if name.startswith("NUTS"):
            lines.append(
                f"| ESS / s relative to {name} | no draws: {row['failed']} |"
                if "failed" in row
                else against(f"{name}, warm-up counted", ours, row)
            )
    machine, loads = ours["machine"], [row["load"] for row in rows.values()]
    lines += [
        "",
        "The best of the grid has the most effective draws per second among the stepsizes whose means are all within "
        f"{ASTRAY:g} sd. Four chains that have not mixed count as about four effective draws, however short they are. "
        "So where R-hat is large, the true ratio is probably larger than the one above.",
        "",
    ]
    lines += [f"Machine: {machine}. The load was between {min(loads):.1f} and {max(loads):.1f} during the runs."]
    return "\n".join(lines)


def against(what: str, ours: dict, other: dict) -> str:
    times, work = (ours["ess"] / ours[clock] / (other["ess"] / other[clock]) for clock in ("seconds", "work"))
    return f"| ESS / s relative to {what} | {number(times)} times; {number(work)} by processor time |"


def draw(kept: dict[str, Any]) -> None:
    """A panel for each problem, a line for each sampler."""
    plt.rcParams.update(HOUSE_STYLE)
    across = min(4, len(kept))
    down = -(-len(kept) // across)
    figure, axes = plt.subplots(down, across, figsize=(11, 3 * down), sharey=True, squeeze=False, layout="constrained")
    colours = {"": "#33608c", PLAIN: "#d08a3c"}
    for ax, problem in zip(axes.flat, kept.values(), strict=False):
        ax.axvspan(1 - TOLERANCE, 1 + TOLERANCE, color="#dddddd", lw=0)
        for line, name in enumerate(LINES):
            for shift, (suffix, colour) in zip((-0.17, 0.17), colours.items(), strict=True):
                row = problem["rows"].get(name + suffix)
                if row and "failed" not in row:
                    ratios = [min(max(ratio, LEFT), RIGHT) for ratio in row["ratios"]]
                    fill = colour if row["r_hat"] <= CONVERGED else "none"
                    at = [line + shift] * len(ratios)
                    ax.scatter(ratios, at, s=14, facecolors=fill, edgecolors=colour, lw=0.7, clip_on=False)
        ax.set_title(problem["title"].split(":")[0], fontsize="medium")
        ax.set_xlim(LEFT, RIGHT)
        ax.set_yticks(range(len(LINES)), LINES)
        ax.set_ylim(len(LINES) - 0.5, -0.5)
    for ax in list(axes.flat)[len(kept) :]:
        ax.remove()
    figure.supxlabel("standard deviation, over the reference's", fontsize="medium")
    keys = [plt.Line2D([], [], marker="o", ls="", color=colour) for colour in colours.values()]
    figure.legend(keys, ["dense preconditioner", "none"], loc="outside upper center", ncols=2, frameon=False)
    figure.savefig(PICTURE, dpi=130)
    plt.close(figure)
