"""Minibatches that grow with the distance from the centre (Putcha, Nemeth & Fearnhead 2023, eq. 19).

If the gradients of the observations have the Lipschitz constants L_i, and p_i are their probabilities, the noise
variance of an estimate from n observations is at most |theta - centre|^2 / n sum_i L_i^2 / p_i. This bound equals V_0
with

    n = |theta - centre|^2 (sum_i L_i^2 / p_i) / V_0

observations, rounded up to parts of a fixed size. The estimate is the mean of the estimates from the parts.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from sgmcmc.core.trees import Tree
from sgmcmc.minibatch import Minibatch
from sgmcmc.model import Mode

PART = 32  # the most observations in a part: enough that the loop over the parts costs little
CENTRE, PER_SQUARE = "centre", "per square"


def adaptive(part: Minibatch, n_data: int) -> Minibatch:
    most = max(n_data // part.size, 1)

    def parts(params: Tree, constants: Tree) -> tf.Tensor:
        square = sum(tf.reduce_sum((params[name] - constants[CENTRE][name]) ** 2) for name in sorted(params))
        wanted = tf.math.ceil(square * constants[PER_SQUARE] / part.size)
        return tf.cast(tf.clip_by_value(wanted, 1.0, float(most)), tf.int32)

    return part._replace(parts=parts)


def constants(mode: Mode, per_square: float, dtype: tf.DType) -> Tree:
    return {CENTRE: mode.params, PER_SQUARE: tf.constant(per_square, dtype)}


def per_square_distance(lipschitz: np.ndarray, probabilities: np.ndarray | None, threshold: float) -> float:
    """The size that keeps the bound at this threshold, at a distance of 1."""
    squares = np.asarray(lipschitz, np.float64) ** 2
    return float((squares / (1 / len(squares) if probabilities is None else probabilities)).sum() / threshold)
