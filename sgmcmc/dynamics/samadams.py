"""Underdamped Langevin dynamics whose time steps adapt to the gradients (Leimkuhler, Lohmann & Whalley 2025, SamAdams).

An iteration is one of BAOAB with step psi h, with h^2 = eps and psi from a moving average of the norm of the gradient
over all parameters:

    zeta  = beta zeta + (1 - beta) (|grad| / scale)^s
    psi'  = m (zeta^r + M) / (zeta^r + m),  which is in [m, M], and 1 at zeta = 1 if m M = 1
    B   p     = p + (psi + psi')/2 h grad,  the end of the last step and the beginning of this one
    A   theta = theta + psi' h/2 p
    O   p     = c p + N(0, 1 - c^2),        c = (1 - alpha)^psi'
    A   theta = theta + psi' h/2 p

In the time t = sum psi h the chain is a Langevin diffusion, since psi depends on the past alone. So averages over its
draws are weighted by psi h, which is recorded as "time". beta is the paper's exp(-alpha dtau). Without a `scale` it is
the geometric mean of all norms so far, which in the limit does not change.
"""

from __future__ import annotations

import tensorflow as tf

from sgmcmc.dynamics import Dynamics, Given, Memory

LEAST = 1e-30  # a norm of 0 has no logarithm


def samadams(alpha: float, beta: float, m: float, M: float, r: float, s: float, scale: float | None) -> Dynamics:  # noqa: N803
    def init(theta: tf.Tensor, given: Given) -> Memory:
        one, zero = tf.ones([], theta.dtype), tf.zeros([], theta.dtype)
        return {
            "unit_momentum": given.noise,
            "zeta": one,
            "psi": one,
            "log_norm": zero,  # the mean so far
            "t": zero,
            "kinetic_temperature": one,
        }

    def step(theta: tf.Tensor, memory: Memory, given: Given) -> tuple[tf.Tensor, Memory]:
        h, log_norm = tf.sqrt(given.eps), tf.math.log(tf.maximum(given.norm, LEAST))
        t = memory["t"] + 1.0
        average = memory["log_norm"] + (log_norm - memory["log_norm"]) / t
        relative = tf.exp(log_norm - average) if scale is None else given.norm / scale
        zeta = beta * memory["zeta"] + (1.0 - beta) * relative**s
        psi = m * (zeta**r + M) / (zeta**r + m)
        kicked = memory["unit_momentum"] + 0.5 * (memory["psi"] + psi) * h * given.gradient
        c = (1.0 - alpha) ** psi
        p = c * kicked + tf.sqrt(1.0 - c**2) * given.noise
        return theta + 0.5 * psi * h * (kicked + p), {
            "unit_momentum": p,
            "zeta": zeta,
            "psi": psi,
            "log_norm": average,
            "t": t,
            "kinetic_temperature": tf.reduce_mean(kicked**2),
        }

    def stats(memory: Memory, given: Given) -> dict[str, tf.Tensor]:
        return {"kinetic_temperature": memory["kinetic_temperature"], "time": memory["psi"] * tf.sqrt(given.eps)}

    return Dynamics(step, init=init, stats=stats, momentum=True, wants_norm=True)
