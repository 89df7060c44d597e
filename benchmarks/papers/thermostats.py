"""The samplers that the experiments of Shang et al. (2015) compare, in the paper's parametrisation."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import tensorflow as tf

from sgmcmc import Dynamics, badodab, ccadl, sample, sghmc, sgnht

PAPER = (
    "Shang, Zhu, Leimkuhler and Storkey (2015), Covariance-controlled adaptive Langevin thermostat for large-scale "
    "Bayesian sampling"
)
KEPT = "SGHMC, momentum kept"
COLOURS = {
    KEPT: "#ee6677",
    "sghmc": "#ccbb44",
    "sghmc, fisher": "#aa3377",
    "sgnht": "#228833",
    "ccadl": "#4477aa",
    "badodab": "#bbbbbb",
}
EXPLAINED = (
    f"*{KEPT}* is SGHMC as the paper has it: no noise is taken off, and the momentum is never drawn anew. It is an "
    "update rule of a few lines for `sample`. `sghmc` makes the same leaps, but draws the momentum anew before every L "
    "of them (Chen, Fox and Guestrin, algorithm 2), which keeps the noise of the gradients from adding up. "
    '*fisher* is `sghmc(betaHat="fisher")`. Of `sghmc` a draw is stored after L leaps, of the others after each '
    "step. `badodab` is not in the paper. It has the dynamics of `sgnht`, but its steps cause less error. "
    "The paper's stepsize h and friction A are `stepsize=h**2` and `a=A*h`, for `sghmc` `alpha=A*h`."
)


def momentum_kept(alpha: float) -> Dynamics:
    """SGHMC with a momentum that is never renewed, in single steps."""

    def init(theta: tf.Tensor, given) -> dict:
        return {"momentum": tf.sqrt(given.eps) * given.noise}

    def drift(theta: tf.Tensor, memory: dict) -> tf.Tensor:
        return theta + memory["momentum"]

    def step(theta: tf.Tensor, memory: dict, given) -> tuple[tf.Tensor, dict]:
        u = (1 - alpha) * memory["momentum"] + given.eps * given.gradient
        return theta, {"momentum": u + tf.sqrt(2 * alpha * given.eps) * given.noise}

    def stats(memory: dict, given) -> dict[str, tf.Tensor]:
        return {"kinetic_temperature": tf.reduce_mean(memory["momentum"] ** 2) / given.eps}

    return Dynamics(step, init=init, drift=drift, stats=stats)


def samplers(h: float, A: float, leaps: int, covariance: str) -> dict[str, tuple[Callable, int]]:
    """By name, the function and how many minibatches an iteration of it looks at."""
    size, part = {"stepsize": h**2}, A * h
    ours = partial(sghmc, alpha=part, L=leaps, **size)
    return {
        KEPT: (partial(sample, dynamics=momentum_kept(part), **size), 1),
        "sghmc": (ours, leaps),
        "sghmc, fisher": (partial(ours, betaHat="fisher"), leaps),
        "sgnht": (partial(sgnht, a=part, **size), 1),
        "ccadl": (partial(ccadl, a=part, covariance=covariance, **size), 1),
        "badodab": (partial(badodab, a=part, **size), 1),
    }
