"""The stochastic gradient zig-zag process (Fearnhead, Grazzi, Nemeth & Roberts 2024).

In steps of the length h, h^2 = eps. Each element moves with a velocity v of 1 or -1, which turns at the rate
max(0, -v grad). Within a step the gradient is frozen, that of one minibatch at theta + v h/2:

    rate   = max(0, -v grad)
    tau    ~ Exp(rate)
    theta' = theta + v h,                    v' =  v    if tau > h
    theta' = theta + v tau - v (h - tau),    v' = -v    if not

After a turn the rate is 0 as long as the gradient is frozen. So the elements do not depend on each other within a step,
and the paper's clock for all of them together is the same as one for each. The paper takes the gradient at the start of
the step. In the middle, the error is of order h^2 where the gradient has no noise, not of order h (as in the
splitting schemes of Bertazzi, Dobson & Monmarche 2025).

Gradient noise adds turns in both directions, equally to first order in h. With moves v h or 0, by whether tau > h, the
chain would stay on a lattice, with detailed balance up to the sign of v:

    p(theta + h)/p(theta) = S(grad)/S(-grad),    S(grad) = E exp(-h max(0, -grad)),  grad at theta + h/2,

which without noise is exact on a Gaussian. `stationary` is this law for small h and normal noise of variance V. That
of the chain is the same to a few percent of the error. For a V that is much larger than the precision, the variance is
near 1 + h sqrt(V/(2 pi)) times the posterior's. The autocorrelation time is 2 E|grad| / precision / h iterations, by
the Poisson equation of the process in continuous time.

Elements whose noise is correlated turn together. For large noise of covariance V_ij this makes E v_i v_j near
h V_ij sqrt(pi/2) / (sqrt(V_ii) + sqrt(V_jj)), from the rates at which v_i v_j changes, and the correlation of theta_i
and theta_j is as large. So along a direction with the noise V, where that of the elements is V_1 on average, the
variance is near 1 + h (sqrt(V_1/(2 pi)) + sqrt(pi/8) (V - V_1)/sqrt(V_1)).

Sticky (Bierkens, Grazzi, van der Meulen & Schauer 2023): an element that reaches 0 stays there for a time Exp(kappa),
and goes on with the same velocity. With kappa = w/(1 - w) times the slab's density at 0, the prior has an atom of
1 - w at 0, and is otherwise the slab.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import tensorflow as tf

from sgmcmc.core.variates import exponential
from sgmcmc.dynamics import Dynamics, Given, Memory, Stationary

NEVER = 1e30
HEATS, STEPS = (1e-4, 30.0), (1e-4, 1.0)  # of h sqrt(V) and h in the table
LONGEST = 0.6  # in posterior sds, as far as SGLD moves where its error is 5%: longer steps are for Gaussians alone


def sgzigzag(kappa: np.ndarray | None = None) -> Dynamics:
    def init(theta: tf.Tensor, given: Given) -> Memory:
        v = tf.sign(given.noise)
        return {"velocity": v, "ahead": ahead(theta, v, tf.sqrt(given.eps))}

    def ahead(theta: tf.Tensor, v: tf.Tensor, h: tf.Tensor) -> tf.Tensor:
        return v * (0.5 * h if kappa is None else tf.minimum(0.5 * h, _to_zero(theta, v)))

    def drift(theta: tf.Tensor, memory: Memory) -> tf.Tensor:
        return theta + memory["ahead"]

    def step(theta: tf.Tensor, memory: Memory, given: Given) -> tuple[tf.Tensor, Memory]:
        h, v = tf.sqrt(given.eps), memory["velocity"]
        clock, *stays = (given.noise,) if kappa is None else given.noise
        rate = tf.maximum(-v * given.gradient, 0.0)
        tau = tf.where(rate > 0.0, exponential(clock) / tf.where(rate > 0.0, rate, 1.0), NEVER)
        if kappa is None:
            turns = tau < h
            theta = theta + (v * tf.where(turns, 2.0 * tau - h, h) - memory["ahead"])
        else:
            theta, stays = theta - memory["ahead"], [exponential(z) / tf.constant(kappa, z.dtype) for z in stays]
            theta, turns = _sticky(theta, v, tau, h, *stays)
        v = tf.where(turns, -v, v)
        theta = tf.where(tf.math.is_nan(given.gradient), given.gradient, theta)  # which a comparison would hide
        return theta, {"velocity": v, "ahead": ahead(theta, v, h)}

    def stationary(eps: float, precision: np.ndarray, noise: np.ndarray) -> Stationary:
        h = np.sqrt(eps * precision)
        variance = np.where(h <= LONGEST, _ratio(h, np.sqrt(eps * noise)) / precision, np.inf)
        return Stationary(variance, np.maximum(np.sqrt(8 / np.pi * (1 + noise / precision)) / h, 1.0))

    def along(noise: np.ndarray, own: np.ndarray) -> np.ndarray:
        root = np.sqrt(own / (2 * np.pi))
        joint = np.divide(noise - own, 4 * root, out=np.zeros_like(own), where=root > 0)
        return 2 * np.pi * np.maximum(root + joint, 0.0) ** 2

    return Dynamics(
        step,
        init=init,
        drift=drift,
        noises=1 if kappa is None else 3,
        stationary=stationary if kappa is None else None,
        along=along,
        momentum=True,
    )


def _to_zero(theta: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
    return tf.where(theta * v <= 0.0, tf.abs(theta), NEVER)


def _travelled(time: tf.Tensor, to_zero: tf.Tensor, stay: tf.Tensor) -> tf.Tensor:
    """The distance travelled in this time, with a stay at 0."""
    return tf.where(time <= to_zero, time, tf.maximum(time - stay, to_zero))


def _sticky(
    theta: tf.Tensor, v: tf.Tensor, tau: tf.Tensor, h: tf.Tensor, first: tf.Tensor, second: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Where elements are after h, and whether they turned: after moving for tau, with a stay at 0 before and after."""
    to_zero = _to_zero(theta, v)
    turn = tau + tf.where(to_zero < tau, first, 0.0)
    turns = turn < h
    at = theta + v * tau
    straight = theta + v * _travelled(h, to_zero, first)
    back = at - v * _travelled(h - turn, _to_zero(at, -v), second)
    return tf.where(turns, back, straight), turns


def _ratio(h: np.ndarray, root_heat: np.ndarray) -> np.ndarray:
    """The variance over the posterior's, for h in posterior sds, and h sqrt(V)."""
    bounded = np.clip(root_heat, *HEATS), np.clip(h, *STEPS)
    return np.exp(_log_ratio().ev(*map(np.log, bounded)))


@cache
def _log_ratio() -> Any:
    """The logarithm of the variance, a spline of the logarithms of h sqrt(V) and of h."""
    from scipy.integrate import cumulative_trapezoid, trapezoid
    from scipy.interpolate import RectBivariateSpline
    from scipy.special import log_ndtr

    heats, steps = (np.linspace(np.log(low), np.log(high), 50) for low, high in (HEATS, STEPS))
    u, h = np.exp(heats)[:, None, None], np.exp(steps)[:, None]
    sd = u / h
    y = np.linspace(0, 10, 400) * (1 + u)

    def log_no_turn(y: np.ndarray) -> np.ndarray:
        # log E exp(-h max(0, -grad)), for grad ~ N(-y, sd^2)
        return np.logaddexp(log_ndtr(-y / sd), u**2 / 2 - h * y + log_ndtr(y / sd - u))

    slope = (log_no_turn(y) - log_no_turn(-y)) / h
    p = np.exp(cumulative_trapezoid(slope, y, initial=0))
    return RectBivariateSpline(heats, steps, np.log(trapezoid(p * y**2, y) / trapezoid(p, y)), kx=1, ky=1)
