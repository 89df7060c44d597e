"""Minibatches that grow with the distance from the centre (Putcha, Nemeth & Fearnhead 2023, eq. 19).

With gradients whose observations' terms have the Lipschitz constants L_i, and probabilities p_i, the noise of the
estimate from n observations is at most |theta - centre|^2 / n sum_i L_i^2 / p_i. Its bound is kept at V_0 by

    n = |theta - centre|^2 (sum_i L_i^2 / p_i) / V_0

observations, rounded up to whole parts of a fixed size; the estimate is the mean of those from the parts.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from sgmcmc.core.types import Minibatch, Mode, Tree

PART = 32  # observations at most: to loop over parts costs little beside that many
CENTRE, PER_SQUARE = "centre", "per square"


def adaptive(part: Minibatch, n_data: int) -> Minibatch:
    """From minibatches of the size of a part."""
    most = max(n_data // part.size, 1)

    def parts(params: Tree, constants: Tree) -> tf.Tensor:
        square = sum(tf.reduce_sum((params[name] - constants[CENTRE][name]) ** 2) for name in sorted(params))
        wanted = tf.math.ceil(square * constants[PER_SQUARE] / part.size)
        return tf.cast(tf.clip_by_value(wanted, 1.0, float(most)), tf.int32)

    return part._replace(parts=parts)


def constants(mode: Mode, per_square: float, dtype: tf.DType) -> Tree:
    """What `parts` is given: the centre, and the observations that are wanted at a distance of 1 from it."""
    return {CENTRE: mode.params, PER_SQUARE: tf.constant(per_square, dtype)}


def per_square_distance(lipschitz: np.ndarray, probabilities: np.ndarray | None, threshold: float) -> float:
    """The observations that keep the bound at this threshold, for a distance of 1."""
    squares = np.asarray(lipschitz, np.float64) ** 2
    return float((squares / (1 / len(squares) if probabilities is None else probabilities)).sum() / threshold)
