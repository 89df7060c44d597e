"""Cost of each dynamics relative to SGLD: medians of ratios, in turn in one run.

Simulated logistic regression, 55 coefficients, n = 500:

    python benchmarks/dynamics.py --output benchmarks/DYNAMICS.md
"""

from __future__ import annotations

import tensorflow as tf
from costs import Candidate, parsed, publish, timed

import sgmcmc

STEPSIZE = 1e-9
LEAPS = 5  # of sghmc


def langevin(theta: tf.Tensor, memory: dict, given: sgmcmc.Given) -> tuple[tf.Tensor, dict]:
    """SGLD as a user's update rule."""
    return theta + given.eps / 2 * given.gradient + tf.sqrt(given.eps) * given.noise, memory


DYNAMICS = {
    "sgld": Candidate(sgmcmc.sgldSetup, {}),
    "sghmc, per leap": Candidate(sgmcmc.sghmcSetup, {"L": LEAPS}, LEAPS),
    "sghmc, betaHat fisher, per leap": Candidate(sgmcmc.sghmcSetup, {"L": LEAPS, "betaHat": "fisher"}, LEAPS),
    "sgnht": Candidate(sgmcmc.sgnhtSetup, {}),
    "ccadl, diag": Candidate(sgmcmc.ccadlSetup, {}),
    "ccadl, full": Candidate(sgmcmc.ccadlSetup, {"covariance": "full"}),
    "baoab": Candidate(sgmcmc.baoabSetup, {}),
    "badodab": Candidate(sgmcmc.badodabSetup, {}),
    "psgld": Candidate(sgmcmc.psgldSetup, {}),
    "sgld by sample": Candidate(sgmcmc.sampleSetup, {"dynamics": sgmcmc.Dynamics(langevin)}),
    "sgld, cyclical": Candidate(sgmcmc.sgldSetup, {"stepsize": sgmcmc.cyclical(STEPSIZE, 1000, 0.5)}),
    "sgld, temperature 2": Candidate(sgmcmc.sgldSetup, {"temperature": 2.0}),
}


def main() -> None:
    """Measure, and write the table."""
    given = parsed(__doc__)
    candidates = {
        name: one._replace(arguments={"stepsize": STEPSIZE} | one.arguments) for name, one in DYNAMICS.items()
    }
    lines = ["| dynamics | us per gradient | relative to sgld |", "| --- | ---: | ---: |"]
    for name, (seconds, ratio) in timed(candidates, given.repetitions).items():
        lines.append(f"| {name} | {1e6 * seconds:.0f} | {ratio:.2f} |")
    publish("Cost of a dynamics", "dynamics.py", lines, given)


if __name__ == "__main__":
    main()
