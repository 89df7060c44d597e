"""The distributions over topics of documents, given topics."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import tensorflow as tf

from sgmcmc.core.compiled import Compiled
from sgmcmc.core.random import Purpose, keys
from sgmcmc.models.lda.assignments import expected
from sgmcmc.models.lda.documents import NONE, tokens
from sgmcmc.models.lda.pieces import LENGTH

if TYPE_CHECKING:
    from scipy import sparse

AT_A_TIME = 64  # documents


class Inference:
    """Inference of the topics of documents.

    Parameters
    ----------
    counts : scipy.sparse.csr_array
        Documents; some may be empty.
    prior : float
        Of the distributions over topics.
    sweeps, seed : int
    """

    def __init__(self, counts: sparse.csr_array, prior: float, sweeps: int, seed: int) -> None:
        longest = max(int(counts.sum(axis=1).max()), 1)
        # Lengths are rounded up, so other documents can use the same program.
        words, size = tokens(counts, -(-longest // LENGTH) * LENGTH), min(AT_A_TIME, counts.shape[0])
        padded = np.pad(words, [(0, -len(words) % size), (0, 0)], constant_values=NONE)
        self._blocks = np.split(padded, len(padded) // size)
        self._n_documents, self._seed = counts.shape[0], seed

        self._settings = tf.constant(prior), tf.constant(sweeps)
        self._program = Compiled(lambda *given: [expected(*given).shares])

    def shares(self, number: int, topics: np.ndarray) -> np.ndarray:
        """Each document's mean distribution given these topics, [K, V]: [documents, K].

        `number` selects the random numbers.
        """
        n = len(self._blocks)
        seeds = keys(self._seed, Purpose.INFERENCE, range(number * n, (number + 1) * n)).view(np.int32)
        phi = tf.constant(topics)
        found = [
            self._program(tf.constant(words), phi, *self._settings, tf.constant(seed))[0].numpy()
            for words, seed in zip(self._blocks, seeds, strict=True)
        ]
        return np.concatenate(found)[: self._n_documents]
