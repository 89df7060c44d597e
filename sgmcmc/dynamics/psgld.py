"""Preconditioned SGLD, with RMSprop's preconditioner (Li, Chen, Carlson & Carin 2016, algorithm 1).

    V'     = beta V + (1 - beta) (grad/N)^2
    G      = 1 / (delta + sqrt(V'))
    theta' = theta + eps/2 * G grad + N(0, eps G)

elementwise, with V = (grad/N)^2 at the first gradient. Since G depends on theta, the exact step has the further term
eps/2 * dG/dtheta. As in the paper it is left out, so the chain does not sample the posterior, however small eps is. If
V stays constant after `adapt` steps, the rest is SGLD with a constant preconditioner, which has no such error.
"""

from __future__ import annotations

import tensorflow as tf

from sgmcmc.dynamics import Dynamics, Given, Memory


def psgld(n_data: int, beta: float, delta: float, adapt: int | None) -> Dynamics:
    def init(theta: tf.Tensor, given: Given) -> Memory:
        return {"square": tf.zeros_like(theta), "t": tf.zeros([], theta.dtype)}

    def step(theta: tf.Tensor, memory: Memory, given: Given) -> tuple[tf.Tensor, Memory]:
        t, square = memory["t"], (given.gradient / n_data) ** 2
        V = tf.where(t == 0.0, square, beta * memory["square"] + (1.0 - beta) * square)  # noqa: N806
        if adapt is not None:
            V = tf.where(t < adapt, V, memory["square"])  # noqa: N806
            t = tf.minimum(t, adapt)  # float32 cannot count beyond 2^24
        G = 1.0 / (delta + tf.sqrt(V))  # noqa: N806
        theta = theta + (0.5 * given.eps * G * given.gradient + tf.sqrt(given.eps * G) * given.noise)
        return theta, {"square": V, "t": t + 1.0}

    return Dynamics(step, init=init)
