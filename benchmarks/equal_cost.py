"""Accuracy of all methods at equal cost, on posteriors with published references; see EQUAL_COST.md.

    python benchmarks/equal_cost.py                                 # all problems; about an hour
    python benchmarks/equal_cost.py --covertype FILE                # covertype too
    python benchmarks/equal_cost.py --only rare --methods "sgzigzag, cv;NUTS"
    python benchmarks/equal_cost.py --only nothing                  # remake only the page

The cost is the number of gradients of single observations. The references in reference/*.npz can be reused: they have
the means and standard deviations of all elements, in order of name, their errors and how they were computed. The
results are stored in equal_cost.json.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
from automatic import CHAINS, Problem, Reference, flattened
from equal_cost_full import FULL
from equal_cost_problems import cases, published
from harness import HERE, number, read, write

import sgmcmc
from sgmcmc.draws.convergence import diagnostics

KEPT, COVERAGE = HERE / "equal_cost.json", HERE / "equal_cost_coverage.json"
TEXT = HERE / "EQUAL_COST.md"
CV = {"gradient": sgmcmc.controlVariates()}
OURS: dict[str, tuple[str, dict[str, Any]]] = {
    "sgld": ("sgld", {}),
    "sgldcv": ("sgldcv", {}),
    "sghmc, L = 20": ("sghmc", {"L": 20, "alpha": 0.1}),
    "sghmccv, L = 20": ("sghmccv", {"L": 20, "alpha": 0.1}),
    "sgnht": ("sgnht", {}),
    "sgnhtcv": ("sgnhtcv", {}),
    "baoab, cv": ("baoab", CV),
    "ubu, cv": ("ubu", CV),
    "badodab": ("badodab", {}),
    "badodab, cv": ("badodab", CV),
    "barker": ("barker", {}),
    "barker, cv": ("barker", CV),
    "sgzigzag": ("sgzigzag", {}),
    "sgzigzag, cv": ("sgzigzag", CV),
}
OF_NETWORKS: dict[str, tuple[str, dict[str, Any]]] = {
    "sghmc, L = 10": ("sghmc", {"L": 10, "alpha": 0.1}),
    "sgnht": ("sgnht", {}),
    "baoab": ("baoab", {}),
    "ubu, symmetric": ("ubu", {"subsampling": "symmetric"}),
    "badodab": ("badodab", {}),
}
METHODS = [*OURS, *FULL]
ALL = list(dict.fromkeys([*OURS, *OF_NETWORKS, *FULL]))
BUDGET = {  # in gradients of single observations
    "large": 200e6,
    "covertype": 300e6,
    "network": 200e6,
}
USUAL = 40e6
TRAINING, PILOT = 5000, 2000  # iterations for networks


def against(truth: Reference, mean: np.ndarray, sd: np.ndarray) -> dict[str, Any]:
    """The largest error of all elements, and the root mean square."""
    shift, ratio = (mean - truth.mean) / truth.sd, sd / truth.sd - 1
    return {
        "mean": float(np.abs(shift).max()),
        "mean_rms": float(np.sqrt((shift**2).mean())),
        "sd": float(ratio[np.argmax(np.abs(ratio))]),
        "sd_rms": float(np.sqrt((ratio**2).mean())),
    }


def of_draws(x: np.ndarray) -> dict[str, float]:
    """The smallest effective sample size and the largest R-hat of draws [C, T, D]."""
    told = diagnostics(np.moveaxis(x, 2, 0))
    return {"ess": float(np.min(told["ess_bulk"])), "r_hat": float(np.max(told["r_hat"]))}


def flat_draws(out: sgmcmc.Draws, problem: Problem) -> np.ndarray:
    """The draws [C, T, D] of all elements, in order of name."""
    of_each = [np.reshape(out[name], (*out[name].shape[:2], -1)) for name in sorted(problem.params)]
    return np.concatenate(of_each, axis=2).astype(float)


def gradients_of(label: str, problem: Problem) -> int:
    """Gradients of single observations in an iteration of all chains; control variates evaluate each twice."""
    leaps, evaluations = (OURS | OF_NETWORKS)[label][1].get("L", 1), 2 if "cv" in label else 1
    return evaluations * leaps * problem.minibatchSize * CHAINS


def for_network(label: str, problem: Problem) -> tuple[dict[str, Any], int]:
    """Trained networks as starts, the stepsize of checkTemperature, and the gradients that both took."""
    name, options = OF_NETWORKS[label]
    rng = np.random.default_rng(1)
    given = {"logPrior": problem.logPrior, "minibatchSize": problem.minibatchSize, "seed": 1, "verbose": False}
    starts = sgmcmc.train(
        problem.logLik, problem.dataset, problem.params, stepsize=0.01, nIters=TRAINING,
        starts=[{key: rng.normal(size=np.shape(x)) for key, x in problem.params.items()} for _ in range(CHAINS)],
        **given,
    )  # fmt: skip
    table = sgmcmc.checkTemperature(
        getattr(sgmcmc, name), problem.logLik, problem.dataset, starts[0], nIters=PILOT, **given, **options
    )
    pilots = table["stepsize"].nunique() * PILOT * gradients_of(label, problem) // CHAINS
    spent = TRAINING * CHAINS * problem.minibatchSize + pilots
    return {"starts": starts, "stepsize": table.attrs["stepsize"], **options}, spent


def ours(label: str, problem: Problem, truth: Reference, budget: float) -> dict[str, Any]:
    """A run of sgmcmc, with nothing tuned by hand."""
    (name, options), spent = (OURS | OF_NETWORKS)[label], 0
    started = time.process_time()
    if problem.outputs is not None:
        options, spent = for_network(label, problem)
    of_iteration = gradients_of(label, problem)
    iterations = int((budget - spent) / of_iteration)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            out = getattr(sgmcmc, name)(
                problem.logLik, problem.dataset, problem.params, logPrior=problem.logPrior,
                minibatchSize=problem.minibatchSize, nIters=iterations, burnIn=iterations // 10, nChains=CHAINS,
                thin=max(1, iterations // 20_000), seed=1, verbose=False, **problem.options | options,
            )  # fmt: skip
        except (ValueError, sgmcmc.DivergenceError, sgmcmc.ModeSearchError) as error:
            return {"failed": f"{type(error).__name__}: {str(error)[:100]}"}
    seconds = time.process_time() - started
    x = flat_draws(out, problem)
    if problem.outputs is not None:
        x = problem.outputs(x)
    return (
        against(truth, x.mean(axis=(0, 1)), x.std(axis=(0, 1)))
        | of_draws(x)
        | {
            "gradients": spent + of_iteration * iterations,
            "seconds": seconds,
            "warnings": [str(one.message) for one in said],
        }
    )


def full(label: str, problem: Problem, truth: Reference, budget: float) -> dict[str, Any]:
    """A method that uses all data."""
    n_data = len(next(iter(problem.dataset.values())))
    started = time.process_time()
    found = FULL[label](flattened(problem), int(budget / n_data), 1)
    seconds = time.process_time() - started
    measured = {} if found.draws is None else of_draws(found.draws)
    measured |= {"gradients": found.passes * n_data, "seconds": seconds, "warnings": []}
    return against(truth, found.mean, found.sd) | measured


INTRO = """# Accuracy at equal cost

Each method gets the same number of gradients of single observations, and nothing is tuned by hand. The samplers of
`sgmcmc` run with `stepsize="auto"` and four chains, of which the first tenth is discarded. NUTS and MALA (TensorFlow
Probability, all data in each iteration, four chains) run in coordinates whitened by the curvature at the mode. Laplace
is the normal distribution with this mode and curvature, and ADVI has independent normals. So all methods know the mode.
A step of NUTS or MALA is a full pass, so they make few steps on large data.

- **mean**: the largest error of a posterior mean, in posterior standard deviations; **rms**, its root mean square.
- **sd**: the largest relative error of a standard deviation, and the root mean square.
- **ESS**, **R-hat**: the smallest bulk effective sample size, and the largest rank-normalised R-hat.
- **gradients**: in millions. **seconds**: processor time, including compilation and all searches.

With ESS effective draws, chance alone causes errors of about 2.5/sqrt(ESS) in the worst of a few tens of means, and of
1.8/sqrt(ESS) in the worst standard deviation. The references are in `benchmarks/reference/`: the means and standard
deviations of all elements, in order of name, their Monte Carlo errors, and how they were computed.
`numpy.load("reference/rare.npz")` reads one.

The posterior of a network is not normal around a mode, so `stepsize="auto"` is not meant for it. There the samplers
start at four trained networks and use the stepsize of `checkTemperature`; the cost of both is included in their
gradients. The comparison is of the function of the network. `NETWORKS.md` compares larger networks by predictions.

The tables show:

- With control variates, `sgzigzag`, `ubu` and `baoab` have the most effective draws: up to thirteen times as many as
  `sgldcv`, and five to thirteen times as many as NUTS and MALA on the 397,125 rows of covertype.
- Where a handful of observations is decisive (rare categories), minibatches gain nothing over full passes at this
  sample size.
- `barker` has the fewest effective draws: robustness has its price.
- Laplace is the cheapest, and sufficient where the posterior is nearly normal. With heavy tails its standard deviations
  are up to 23% too large, and it finds only one mode of the mixture. The standard deviations of ADVI are too small
  wherever elements are correlated.
- All samplers but `sghmc`, and NUTS, estimate the function of the network to about a tenth of its standard deviation
  (rms), from at most some hundred effective draws. The standard deviations of the samplers are 12% to 22% (rms) too
  large; `baoab` and `ubu` warn of it. `checkTemperature` measures at one trained network, and the gradient noise
  differs between networks. Laplace, ADVI, and MALA in the coordinates of one mode fail.
- Over 200 data sets, 95% intervals of the samplers cover 95% to 97% of the true values, as do those of Laplace. The
  exception is `barker` with rare categories, which has too few draws (92%). Intervals of ADVI cover 91%, and 82% for
  the worst element.
"""


def report() -> None:
    """Write the page."""
    parts = [INTRO.strip()]
    for problem in read(KEPT).values():
        title = f"{problem['title'][0].upper()}{problem['title'][1:]}"
        size = f", ESS {number(problem['size'])}" if problem["size"] else ""
        lines = [
            f"## {title}\n\n{problem['elements']} elements, minibatches of {problem['n']}. "
            f"Reference: {problem['told']}{size}.\n",
            "| method | mean | rms | sd | rms | ESS | R-hat | gradients | seconds |",
            "|---|---:|---:|---:|---:|---:|---:|---:|---:|",
        ]
        for label in [label for label in ALL if label in problem["rows"]]:
            row = problem["rows"][label]
            if "failed" in row:
                lines.append(f"| {label} | {row['failed']} |" + " |" * 7)
                continue
            cells = (
                label, f"{row['mean']:.2f}", f"{row['mean_rms']:.3f}", f"{row['sd']:+.1%}", f"{row['sd_rms']:.1%}",
                number(row["ess"]) if "ess" in row else "", r_hat_of(row),
                number(row["gradients"] / 1e6), number(row["seconds"]),
            )  # fmt: skip
            lines.append("| " + " | ".join(cells) + " |")
        parts.append("\n".join(lines))
    if coverage := read(COVERAGE):
        parts.append(of_coverage(coverage))
    TEXT.write_text("\n\n".join(parts) + "\n")


def r_hat_of(row: dict[str, Any]) -> str:
    if "r_hat" not in row:
        return ""
    return f"{row['r_hat']:.3f}" if row["r_hat"] < 10 else "> 10"


def of_coverage(kept: dict[str, Any]) -> str:
    """The table of equal_cost_coverage.py."""
    problems = list(kept.values())
    lines = [
        "## Coverage of 95% intervals\n",
        "Parameters are drawn from the prior, and data given the parameters, so exact intervals cover 95%. Each method "
        f"has 1.6 million gradients for each of {problems[0]['data sets']} data sets. In parentheses is the coverage "
        "of the worst element; with exact intervals the worst of five elements has about 93%. Intervals from few "
        "effective draws are narrow: with rare categories a run of `barker` has some 13 effective draws, and warns of "
        "it, and its intervals are 8% narrower than with 16 times as many gradients (mean over 16 data sets).\n",
        "| method | " + " | ".join(problem["title"] for problem in problems) + " |",
        "|---|" + "---:|" * len(problems),
    ]
    for label in METHODS:
        cells = []
        for problem in problems:
            row = problem["rows"].get(label)
            failed = f", {row['failed']} failed" if row and row["failed"] else ""
            cells.append(f"{row['share']:.1%} ± {row['error']:.1%} ({row['worst']:.1%}){failed}" if row else "")
        if any(cells):
            lines.append(f"| {label} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--covertype", help="the file of covertype.py")
    parser.add_argument("--only", help="problems, separated by commas")
    parser.add_argument("--methods", help="separated by semicolons")
    arguments = parser.parse_args()
    for name, case in cases(arguments.covertype).items():
        if arguments.only and name not in arguments.only.split(","):
            continue
        problem, truth, kept = case.problem, published(name, case), read(KEPT)
        found = kept.setdefault(name, {"rows": {}})
        size = float(truth.size) if np.isfinite(truth.size) else None
        found |= {"title": problem.title, "told": case.told, "n": problem.minibatchSize, "size": size}
        found["elements"] = len(truth.mean)
        usual = METHODS if problem.outputs is None else [*OF_NETWORKS, *FULL]
        for label in arguments.methods.split(";") if arguments.methods else usual:
            measure = full if label in FULL else ours
            found["rows"][label] = measure(label, problem, truth, BUDGET.get(name, USUAL))
            print(name, label, json.dumps(found["rows"][label]), flush=True)
            write(KEPT, kept)
    report()


if __name__ == "__main__":
    main()
