"""Minibatches of an epoch forwards, then backwards (Paulin, Whalley, Chada & Leimkuhler 2024).

A random permutation has R = floor(N/n) minibatches, as in `reshuffled`. They come in the order 1, ..., R, R, ..., 1,
and then those of a fresh permutation. The first-order effect of the noise of a minibatch on the chain is then undone
within 2R gradients, and so is the effect of the order of two minibatches.
"""

from __future__ import annotations

import tensorflow as tf

from sgmcmc.minibatch import Minibatch
from sgmcmc.minibatch.reshuffled import of_permutations


def symmetric(n_data: int, size: int) -> Minibatch:
    cycle = 2 * (n_data // size)
    return of_permutations(n_data, size, cycle, lambda number: tf.minimum(number, cycle - 1 - number))
