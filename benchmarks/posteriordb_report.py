"""Writes POSTERIORDB.md and its picture from the results in posteriordb.json."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from harness import HERE, HOUSE_STYLE, number

KEPT, TEXT, PICTURE = HERE / "posteriordb.json", HERE / "POSTERIORDB.md", HERE / "figures" / "posteriordb.png"
SAMPLERS = {
    "sgldcv": "`sgldcv`",
    "sghmccv": "`sghmccv`",
    "baoab, cv": "`baoab` with control variates",
    "sgnht": "`sgnht`",
    "NUTS": "NUTS",
}
SHIFT, TOLERANCE = 0.1, 0.05  # sds; relative
WIDEST = 0.3  # of the picture
COLUMNS = (
    "posterior",
    "N",
    "elements",
    "mean, in sds",
    "sd ratios",
    "outside",
    "ESS",
    "R-hat",
    "seconds",
    "processor s",
    "check",
)

INTRO = """# posteriordb

[posteriordb](https://github.com/stan-dev/posteriordb) is a public database of posteriors, with reference draws that its
authors made and checked ([Magnusson et al., 2024](https://doi.org/10.48550/arXiv.2407.04967)). Fourteen of them are
written here as a user of sgmcmc would write them: raw covariates, parameters on their constrained scales, and a start
from coefficients of zero and standard deviations of one. Everything else is automatic:

```python
sgldcv(logLik, dataset, params, logPrior=logPrior, transforms=transforms, minibatchSize="auto", nIters="auto", seed=1)
```

So are the runs of `sghmccv`, of `baoab` with `gradient=controlVariates()`, and of `sgnht`. They stop at 1,000 effective
draws, bulk and tail, of every element. NumPyro's NUTS runs until the same number: four chains with 500 iterations of
warm-up each, in double precision. The time limit of all is five minutes.

These data are small, with 8 to 5,000 observations. NUTS is the method of choice for them; it is here as a check of the
models, and to compare the accuracy. The database has no posterior of the size for which sgmcmc is made.

The columns:

- **mean, in sds**: the largest error of a posterior mean, in standard deviations of the reference draws;
- **sd ratios**: the smallest and the largest standard deviation, over that of the reference draws. By default sgmcmc
  allows standard deviations to be 5% off. With 1,000 effective draws, the Monte Carlo error of one ratio is 2.2%;
- **outside**: the number of elements whose error exceeds 0.1 sd in the mean or 5% in the sd by more than two Monte
  Carlo errors, those of the run and of the reference draws combined;
- **ESS** and **R-hat**: the smallest effective sample size, of the bulk or the tails, and the largest R-hat;
- **seconds**: the whole call, including compilation and the searches for the mode and the stepsize. **processor s**:
  processor time, which depends less on what else the computer did meanwhile;
- **check**: whether `out.check()` finds the draws good. For NUTS, the number of divergent transitions.

![Standard deviations relative to those of the reference draws](figures/posteriordb.png)

Each point is one element. The band is 5% on either side. Points outside the range of an axis are drawn at its edge."""


def errors(row: dict[str, Any], draws: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of all elements: errors of means, ratios of sds, and whether one of them is outside."""
    shift, ratio = np.array(row["shift"]), np.array(row["ratio"])
    shift_error = np.hypot(np.array(row["shift_error"]), draws**-0.5)
    outside = np.abs(shift) > SHIFT + 2 * shift_error
    return shift, ratio, outside | (np.abs(ratio - 1) > TOLERANCE + 2 * np.array(row["ratio_error"]))


def report(kept: dict[str, Any]) -> None:
    """Write the page and the picture."""
    if not kept:
        return
    draw(kept)
    parts = [INTRO]
    for label, title in SAMPLERS.items():
        rows = {name: (problem, problem["rows"][label]) for name, problem in kept.items() if label in problem["rows"]}
        parts += [f"## {title}", table(rows), *of_checks(rows)]
    told = [row for problem in kept.values() for row in problem["rows"].values()]
    dates, machines = sorted({row["date"] for row in told}), sorted({row["machine"] for row in told})
    parts.append(f"Made by `posteriordb.py` on {', '.join(dates)}. Machine: {'; '.join(machines)}.")
    TEXT.write_text("\n\n".join(parts) + "\n")


def table(rows: dict[str, tuple[dict, dict]]) -> str:
    lines = ["| " + " | ".join(COLUMNS) + " |", "|---|" + "---:|" * (len(COLUMNS) - 2) + "---|"]
    for name, (problem, row) in rows.items():
        known = f"| {name} | {problem['N']:,} | {len(problem['elements'])} |"
        if "failed" in row:
            lines.append(f"{known} | | | | | | | {row['failed']} |")
            continue
        shift, ratio, outside = errors(row, problem["draws"])
        verdict = f"{row['divergences']} divergences" if "divergences" in row else row["verdict"].split(":")[0].lower()
        cells = (
            f"{np.abs(shift).max():.2f}",
            f"{ratio.min():.2f} to {ratio.max():.2f}",
            f"{outside.sum()}",
            f"{row['ess']:,}",
            f"{row['r_hat']:.3f}",
            number(row["seconds"]),
            number(row["work"]),
            verdict,
        )
        lines.append(f"{known} {' | '.join(cells)} |")
    return "\n".join(lines)


def of_checks(rows: dict[str, tuple[dict, dict]]) -> list[str]:
    """What the checks miss, and the warnings, with the posteriors that have them."""
    lines = []
    for name, (_, row) in rows.items():
        if "verdict" not in row:
            continue
        said = [] if row["verdict"].startswith("Good") else [row["verdict"].partition(": ")[2]]
        said += [f"warning: {message.split(': ')[0].rstrip('.')}." for message in row["warnings"]]
        if said:
            lines.append(f"- {name}: {' '.join(said)}")
    return ["\n".join(["What `check` misses, and warnings:", "", *lines])] if lines else []


def draw(kept: dict[str, Any]) -> None:
    """A panel for each sampler, a line for each posterior."""
    plt.rcParams.update(HOUSE_STYLE)
    figure, axes = plt.subplots(1, len(SAMPLERS), figsize=(11, 4), sharey=True, layout="constrained")
    names = list(kept)
    for ax, (label, title) in zip(axes, SAMPLERS.items(), strict=True):
        ax.axvspan(1 - TOLERANCE, 1 + TOLERANCE, color="#dddddd", lw=0)
        for line, name in enumerate(names):
            row = kept[name]["rows"].get(label)
            if row and "failed" not in row:
                _, ratio, outside = errors(row, kept[name]["draws"])
                x = ratio.clip(1 - WIDEST, 1 + WIDEST)
                for which, colour in ((~outside, "#33608c"), (outside, "#d08a3c")):
                    ax.scatter(x[which], np.full(which.sum(), line), s=12, color=colour, lw=0, clip_on=False)
        ax.set_title(title.replace("`", "").replace("control variates", "c. v."), fontsize="medium")
        ax.set_xlim(1 - WIDEST, 1 + WIDEST)
    axes[0].set_yticks(range(len(names)), names)
    axes[0].set_ylim(len(names) - 0.5, -0.5)
    figure.supxlabel("standard deviation, over the reference's", fontsize="medium")
    keys = [plt.Line2D([], [], marker="o", ls="", color=colour) for colour in ("#33608c", "#d08a3c")]
    figure.legend(keys, ["inside", "outside"], loc="outside upper center", ncols=2, frameon=False)
    figure.savefig(PICTURE, dpi=130)
    plt.close(figure)
