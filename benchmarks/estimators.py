"""Cost of each estimator relative to the plain one: medians of ratios, in turn in one run.

Simulated logistic regression, 55 coefficients, n = 500:

    python benchmarks/estimators.py --output benchmarks/ESTIMATORS.md
"""

from __future__ import annotations

from typing import Any

from costs import MINIBATCH, Candidate, parsed, publish, timed

from sgmcmc import adaptive, controlVariates, preferential, saga, sgldSetup, svrg

STEPSIZE = 1e-7
ESTIMATORS: dict[str, dict[str, Any]] = {
    "plain": {},
    "preferential": {"subsampling": preferential()},
    "control variates": {"gradient": controlVariates()},
    "control variates, preferential": {"gradient": controlVariates(), "subsampling": preferential()},
    "saga": {"gradient": saga()},
    "svrg": {"gradient": svrg()},
    "control variates, adaptive": {"gradient": controlVariates(), "minibatchSize": adaptive(pilot=MINIBATCH)},
    "dense preconditioner": {"preconditioner": "dense", "stepsize": 1e-2},
    "diagonal preconditioner": {"preconditioner": "diagonal", "stepsize": 1e-2},
}


def main() -> None:
    """Measure, and write the table."""
    given = parsed(__doc__)
    candidates = {name: Candidate(sgldSetup, {"stepsize": STEPSIZE} | changes) for name, changes in ESTIMATORS.items()}
    lines = ["| estimator | us per iteration | relative to plain |", "| --- | ---: | ---: |"]
    for name, (seconds, ratio) in timed(candidates, given.repetitions).items():
        lines.append(f"| {name} | {1e6 * seconds:.0f} | {ratio:.2f} |")
    publish("Cost of an estimator", "estimators.py", lines, given)


if __name__ == "__main__":
    main()
