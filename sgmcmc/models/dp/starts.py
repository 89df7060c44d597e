"""Where the chains of a mixture begin: the assignments and their counts."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from sgmcmc.core.random import Purpose, Stream, keys


def at_random(seed: int, chains: range, n_data: int, n_components: int) -> np.ndarray:
    """Uniform random assignments to the first components, int32 [C, N]."""
    stream = Stream(keys(seed, Purpose.START, chains))
    return stream.integers(tf.zeros([1], tf.uint32), tf.range(n_data), n_components)[0].numpy()


def counted(
    assignments: np.ndarray, categories: np.ndarray, counts: np.ndarray, shape: tuple[int, int]
) -> tuple[np.ndarray, np.ndarray]:
    """The sizes [C, K] and the category counts [C, K, d] of the components.

    From assignments [C, N], categories and counts [N, longest], and (K, d); all int32.
    """
    n_components, n_categories = shape
    sizes = np.stack([np.bincount(z, minlength=n_components) for z in assignments])
    cells = assignments[:, :, None] * n_categories + categories
    tables = [np.bincount(c.ravel(), counts.ravel(), n_components * n_categories) for c in cells]
    return sizes.astype(np.int32), np.stack(tables).reshape(-1, *shape).astype(np.int32)
