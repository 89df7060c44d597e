"""The table of topics: their most probable words."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pandas as pd


def mean_and_sd(draws: Iterable[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Mean and sd of draws, one at a time, by Welford's recursion; 0 is the sd of one."""
    n, mean, squares = 0, np.zeros(1), np.zeros(1)
    for n, draw in enumerate(draws, start=1):
        before = draw - mean
        mean = mean + before / n
        squares = squares + before * (draw - mean)
    return mean, np.sqrt(squares / max(n - 1, 1))


def top_words(mean: np.ndarray, sd: np.ndarray, vocabulary: np.ndarray, n: int) -> pd.DataFrame:
    """The n most probable words of each topic, [K, V], in order."""
    import pandas as pd

    words = np.argsort(-mean, axis=1, kind="stable")[:, :n]
    return pd.DataFrame(
        {
            "topic": np.repeat(np.arange(len(mean)), n),
            "rank": np.tile(np.arange(1, n + 1), len(mean)),
            "word": vocabulary[words].ravel(),
            "probability": np.take_along_axis(mean, words, axis=1).ravel(),
            "sd": np.take_along_axis(sd, words, axis=1).ravel(),
        }
    )
