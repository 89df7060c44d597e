"""What an iteration of each estimator costs, relative to the plain one: side by side in one run, medians of ratios.

Logistic regression of 55 coefficients, n = 500, simulated:

    python benchmarks/estimators.py --output benchmarks/ESTIMATORS.md
"""

from __future__ import annotations

from typing import Any

from costs import MINIBATCH, Candidate, parsed, publish, timed

from sgmcmc import adaptive, controlVariates, preferential, saga, sgldSetup, svrg

STEPSIZE = 1e-7
ESTIMATORS: dict[str, tuple[dict[str, Any], float | None]] = {  # and the most that was aimed at
    "plain": ({}, None),
    "preferential": ({"subsampling": preferential()}, 1.5),
    "control variates": ({"gradient": controlVariates()}, 1.5),
    "control variates, preferential": ({"gradient": controlVariates(), "subsampling": preferential()}, None),
    "saga": ({"gradient": saga()}, 2.0),
    "svrg": ({"gradient": svrg()}, 1.6),
    "control variates, adaptive": ({"gradient": controlVariates(), "minibatchSize": adaptive(pilot=MINIBATCH)}, None),
    "dense preconditioner": ({"preconditioner": "dense", "stepsize": 1e-2}, 1.15),
    "diagonal preconditioner": ({"preconditioner": "diagonal", "stepsize": 1e-2}, 1.05),
}


def main() -> None:
    """Measure, and write the table."""
    given = parsed(__doc__)
    candidates = {
        name: Candidate(sgldSetup, {"stepsize": STEPSIZE} | changes) for name, (changes, _) in ESTIMATORS.items()
    }
    lines = ["| estimator | us per iteration | over plain | aimed at |", "| --- | ---: | ---: | ---: |"]
    for name, (seconds, ratio) in timed(candidates, given.repetitions).items():
        aim = ESTIMATORS[name][1]
        lines.append(f"| {name} | {1e6 * seconds:.0f} | {ratio:.2f} | {'' if aim is None else aim} |")
    publish("What an estimator costs", "estimators.py", lines, given)


if __name__ == "__main__":
    main()
