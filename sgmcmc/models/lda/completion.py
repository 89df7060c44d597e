"""Document completion: half of a document predicts the rest (Wallach et al. 2009)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sgmcmc.models.lda.documents import halves
from sgmcmc.models.lda.inference import AT_A_TIME, Inference

if TYPE_CHECKING:
    from scipy import sparse


class Completion:
    """Documents split at random: one half gives the topics, the other is scored.

    Parameters
    ----------
    counts : scipy.sparse.csr_array
    prior : float
        Of the distributions over topics.
    sweeps, seed : int
    """

    def __init__(self, counts: sparse.csr_array, prior: float, sweeps: int, seed: int) -> None:
        seen, self._scored = halves(counts, seed)
        self._inference = Inference(seen, prior, sweeps, seed)

    def probabilities(self, number: int, topics: np.ndarray) -> np.ndarray:
        """The probability of each scored word under the topics [K, V] of draw `number`."""
        theta, phi = self._inference.shares(number, topics).astype(np.float64), topics.astype(np.float64)
        found = []
        for k in range(0, len(theta), AT_A_TIME):
            scored = self._scored[k : k + AT_A_TIME].tocoo()
            found.append((theta[k : k + AT_A_TIME] @ phi)[scored.coords])
        return np.concatenate(found)

    def perplexity(self, probabilities: np.ndarray) -> float:
        """One over the geometric mean of the probabilities of the tokens; infinite if one is 0."""
        times = self._scored.data
        with np.errstate(divide="ignore", over="ignore"):
            return float(np.exp(-(times @ np.log(probabilities)) / times.sum()))
