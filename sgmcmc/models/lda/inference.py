"""Inference of the topics in documents, and prediction of half of a document from the other half."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import tensorflow as tf

from sgmcmc.core.compilation import Compiled
from sgmcmc.core.random import Purpose, keys
from sgmcmc.models.lda.assignments import LENGTH, expected
from sgmcmc.models.lda.documents import NONE, halves, tokens

if TYPE_CHECKING:
    from scipy import sparse


AT_A_TIME = 64  # documents


class Inference:
    """Inference of the topics of documents, of which some may be empty; `prior` is that of their distributions."""

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
        """Each document's mean distribution, [documents, K], given the topics [K, V] of draw `number`."""
        n = len(self._blocks)
        seeds = keys(self._seed, Purpose.INFERENCE, range(number * n, (number + 1) * n)).view(np.int32)
        phi = tf.constant(topics)
        found = [
            self._program(tf.constant(words), phi, *self._settings, tf.constant(seed))[0].numpy()
            for words, seed in zip(self._blocks, seeds, strict=True)
        ]
        return np.concatenate(found)[: self._n_documents]


class Completion:
    """Documents split at random: topics are inferred from one half, and the other is scored."""

    def __init__(self, counts: sparse.csr_array, prior: float, sweeps: int, seed: int) -> None:
        seen, self._scored = halves(counts, seed)
        self._inference = Inference(seen, prior, sweeps, seed)

    def probabilities(self, number: int, topics: np.ndarray) -> np.ndarray:
        """The probability of each scored word under the topics [K, V] of draw `number`."""
        theta, phi = self._inference.shares(number, topics).astype(np.float64), topics.astype(np.float64)
        blocks = [slice(k, k + AT_A_TIME) for k in range(0, len(theta), AT_A_TIME)]
        return np.concatenate([(theta[block] @ phi)[self._scored[block].tocoo().coords] for block in blocks])

    def perplexity(self, probabilities: np.ndarray) -> float:
        """One over the geometric mean of the probabilities of the tokens; infinite if one is 0."""
        times = self._scored.data
        with np.errstate(divide="ignore", over="ignore"):
            return float(np.exp(-(times @ np.log(probabilities)) / times.sum()))
