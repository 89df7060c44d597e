"""Random variates from the words of the generator, elementwise: uniform, normal, exponential."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from sgmcmc.core.tracing import traced_once


def u32(x: int | tf.Tensor) -> tf.Tensor:
    """The lowest 32 bits as uint32."""
    if isinstance(x, int | np.integer):
        return tf.constant(int(x) & 0xFFFFFFFF, tf.uint32)
    return tf.cast(x, tf.uint32)


def open_uniform(high: tf.Tensor, low: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    """A uniform on (0, 1]."""
    if dtype == tf.float32:
        return (tf.cast(high, dtype) + 0.5) * 2.0**-32
    return (tf.cast(high, dtype) + (tf.cast(low, dtype) + 0.5) * 2.0**-32) * 2.0**-32


# Giles's coefficients, for w < 5 and beyond
# fmt: off
CENTRE = (2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503,
          -0.00417768164, 0.246640727, 1.50140941)
FAR = (-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613,
       0.00943887047, 1.00167406, 2.83297682)
# fmt: on


@traced_once
def normal(high: tf.Tensor) -> tf.Tensor:
    """A standard normal in float32 from one word, as in `Stream.normal`."""
    positive = tf.equal(tf.bitwise.bitwise_and(high, u32(1)), u32(0))
    x = _central_normal_quantile((tf.cast(tf.bitwise.right_shift(high, u32(1)), tf.float32) + 0.5) * 2.0**-32)
    return tf.where(positive, x, -x)


def _central_normal_quantile(tail: tf.Tensor) -> tf.Tensor:
    """x with P(Z > x) = tail for tail in (0, 1/2], in float32.

    Giles (2010), "Approximating the erfinv function", single precision: two polynomials in w = -log(1 - y^2) for
    y = 1 - 2 tail; here w is computed from the tail itself, where 1 - y^2 would cancel.
    """
    w = -tf.math.log(4.0 * tail * (1.0 - tail))
    centre, far = polynomial(w - 2.5, CENTRE), polynomial(tf.sqrt(w) - 3.0, FAR)
    return np.float32(np.sqrt(2.0)) * (1.0 - 2.0 * tail) * tf.where(w < 5.0, centre, far)


def polynomial(x: tf.Tensor, coefficients: tuple[float, ...]) -> tf.Tensor:
    """The polynomial with these coefficients, from the highest power to the constant."""
    value = tf.fill(tf.shape(x), tf.constant(coefficients[0], x.dtype))
    for c in coefficients[1:]:
        value = value * x + c
    return value


def uniform(z: tf.Tensor) -> tf.Tensor:
    """A uniform on (0, 1) from a standard normal."""
    return 0.5 * tf.math.erfc(-(0.5**0.5) * z)


def exponential(z: tf.Tensor) -> tf.Tensor:
    """An exponential with mean 1 from a standard normal, precise in both tails."""
    tail = 0.5 * tf.math.erfc((0.5**0.5) * tf.abs(z))
    return tf.where(z > 0.0, -tf.math.log(tail), -tf.math.log1p(-tail))
