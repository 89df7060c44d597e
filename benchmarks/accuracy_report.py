"""ACCURACY.md and the picture, from what accuracy.py kept."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
from harness import HERE, number

KEPT, TEXT, PICTURE = HERE / "accuracy.json", HERE / "ACCURACY.md", HERE / "figures" / "accuracy.png"
CONVERGED, TOLERANCE = 1.01, 0.05
ASTRAY = 1.0  # sds, from which the error of a mean makes an effective sample size no longer worth comparing
PLAIN = ", no preconditioner"
OURS = ("sgld", "sghmc", "sgnht", "sgldcv", "sghmccv", "sgnhtcv")
OF_R = [name + suffix for name in OURS for suffix in ("", PLAIN)]
FURTHER = ("ccadl, full", "badodab", "badodab, cv", "baoab, cv", "sgldcv, preferential")
ORDER = [*OF_R, *FURTHER]
LINES = (*OURS, *FURTHER)  # of the picture: with and without a preconditioner share one
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

Each sampler of sgmcmc on posteriors that are known, with `stepsize="auto"`: nothing is tuned by hand. The
preconditioner is "dense", or there is none. There are four chains. A tenth of each is left out at the beginning.
Further samplers, with a dense preconditioner: `ccadl` with `covariance="full"`, for problems whose parameters are one
array, as its automatic stepsize asks; `badodab` and `baoab`, `cv` with `gradient=controlVariates()`; and `sgldcv` with
`subsampling=preferential()`. `psgld` is not there, since nothing finds its stepsize.

What the columns say, over all elements of the parameters:

- **mean, in sds**: the largest error of a posterior mean, in posterior standard deviations, ± its Monte Carlo error;
- **worst sd**: the error of the standard deviation that is farthest off, ± its Monte Carlo error. It is the worst of
  all, so some of it is chance;
- **expected**: the largest error of a standard deviation, in any direction, that the sampler itself expected
  (`out.settings["expected"]`). It is above the tolerance of {TOLERANCE:.0%} where no stepsize would keep it, as with
  the five leaps of `sghmc`;
- **outside**: how many elements are off by more than 0.1 sd in the mean or {TOLERANCE:.0%} in the sd, and two Monte
  Carlo errors. Monte Carlo errors are those of the run and of the reference together. Where R-hat is large they are
  too small to be believed;
- **smallest ESS** and **R-hat**: the least bulk effective sample size, and the largest rank-normalised R-hat.
  Where R-hat is above {CONVERGED}, the effective sample size means little;
- **seconds**: the whole call, with compilation, the search for the mode and that for the stepsize. **processor s**:
  the time of the processors, which says less of what else the computer did meanwhile;
- **million gradients**: of single observations, in the chains. Control variates need two for each.

All samplers of sgmcmc look at as many minibatches. `sghmc` takes five per iteration, so it makes a fifth of the
iterations. The reference is exact, or importance sampling on all data from a t distribution.
The two modes of the mixture differ only by the labels of the groups. Control variates are made at one of them.

![Standard deviations over those of the reference](figures/accuracy.png)

Every point is an element: its standard deviation over that of the reference. The band is {TOLERANCE:.0%} on either
side. Hollow points are of runs with an R-hat above {CONVERGED}. Points outside the range of an axis are drawn at its
edge.
"""


def report(kept: dict[str, Any]) -> None:
    """Write both."""
    if not kept:
        return
    draw(kept)
    parts = [INTRO.strip()]
    for name, problem in kept.items():
        size = f", whose effective sample size is {number(problem['size'])}" if problem["size"] else ""
        parts.append(f"## {problem['title'][0].upper()}{problem['title'][1:]}")
        parts.append(f"{problem['parameters']} parameters. Reference: {problem['told']}{size}.")
        rows = ordered(problem["rows"])
        parts.append(table(rows))
        parts += [text for text in (silent(rows), warned(rows), missing(rows)) if text]
        if name == "covertype":
            parts.append(compared(rows))
    TEXT.write_text("\n\n".join(parts) + "\n")


def ordered(rows: dict[str, dict]) -> dict[str, dict]:
    """Ours first."""
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
    """What the runs warned of, each with its first clause."""
    lines = []
    for name, row in rows.items():
        for message in row.get("warnings", []):
            lines.append(f"- {name}: {message.split(';')[0].rstrip('.')}.")
    return "\n".join(["What the runs warned of:", "", *lines]) if lines else ""


def silent(rows: dict[str, dict]) -> str:
    """Which of ours are wrong, and say nothing."""
    names = [
        name
        for name, row in rows.items()
        if name in ORDER and row.get("outside") and row["r_hat"] <= CONVERGED and not row["warnings"]
    ]
    return f"Outside, though R-hat is small and there was no warning: {'; '.join(names)}." if names else ""


def missing(rows: dict[str, dict]) -> str:
    left = [name for name in OF_R if name not in rows]
    return f"Not run, because of the time it takes: {'; '.join(left)}." if left else ""


def compared(rows: dict[str, dict]) -> str:
    """Sgldcv on this problem, in figures and relative to its peers."""
    lines = [
        "### `sgldcv` compared with the others",
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
        kept = f"with which SGMCMCJax has R-hat {CONVERGED} and no element outside"
        lines.append(f"| stepsizes of the grid {kept} | {len(right)} of {tried} |")
    for name, row in peers.items():
        if name.startswith("NUTS"):
            lines.append(
                f"| ESS / s over {name} | it has no draws: {row['failed']} |"
                if "failed" in row
                else against(f"{name}, warm-up counted", ours, row)
            )
    machine, loads = ours["machine"], [row["load"] for row in rows.values()]
    lines += [
        "",
        "The best of the grid is the one with the most effective samples per second, among those whose means are all "
        f"within {ASTRAY:g} sd. Four chains that have not met count for about four effective samples, however short "
        "they are; so where R-hat is large, the true ratio is probably larger than that above.",
        "",
    ]
    lines += [f"On {machine}. The load was between {min(loads):.1f} and {max(loads):.1f} while this ran."]
    return "\n".join(lines)


def against(what: str, ours: dict, other: dict) -> str:
    times, work = (ours["ess"] / ours[clock] / (other["ess"] / other[clock]) for clock in ("seconds", "work"))
    return f"| ESS / s over {what} | {number(times)} times; {number(work)} by processor time |"


def draw(kept: dict[str, Any]) -> None:
    """A panel for each problem, a line for each sampler."""
    plt.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False})
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
