"""Minibatches drawn with replacement from given probabilities p_i; a drawn observation weighs 1/(n p_i).

The estimate of a sum over the data stays unbiased whatever the p_i > 0 are. Its noise is least if they are in
proportion to the sizes of the terms (Putcha, Nemeth & Fearnhead 2023, eq. 11 and 12).

A draw costs O(1) by an alias table (Walker 1977): of N bins that are equally likely, bin i holds observation i with
probability `kept` and another one, its alias, else.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from sgmcmc.core.random import Stream
from sgmcmc.core.types import Minibatch, Part, Tree

WORD = 2.0**32


def weighted(
    n_data: int, size: int, dtype: tf.DType, probabilities: np.ndarray | None = None, floor: float = 0.0
) -> Minibatch:
    """By these probabilities, [N], or by the importance of the observations: then with the share `floor` of uniform."""

    def prepare(importance: np.ndarray | None) -> Tree:
        p = probabilities
        if p is None:
            assert importance is not None
            p = (1 - floor) * importance / importance.sum() + floor / n_data
        kept, alias = alias_table(np.asarray(p, np.float64))
        kept = np.round(kept * WORD).clip(1, WORD - 1)
        # Weights are the inverse of the probabilities that the table has, which are those given but for rounding.
        drawn = kept.copy()
        np.add.at(drawn, alias, WORD - kept)
        return {
            "kept": tf.constant(kept.astype(np.uint32)),  # [N], times 2^-32
            "alias": tf.constant(alias),  # int32 [N]
            "inverse": tf.constant(n_data * WORD / drawn, dtype),  # [N]
        }

    def draw(stream: Stream, counters: tf.Tensor, constants: Tree, part: Part = 0) -> tuple[tf.Tensor, tf.Tensor]:
        bins, rest = stream.integers_and_bits(counters, part * size + tf.range(size), n_data)
        indices = tf.where(rest < tf.gather(constants["kept"], bins), bins, tf.gather(constants["alias"], bins))
        return indices, tf.gather(constants["inverse"], indices) / size

    return Minibatch(size, draw, prepare=prepare, wants_importance=probabilities is None)


def probabilities_of(constants: Tree) -> np.ndarray | None:
    """Those of the observations, [N], by the constants of minibatches; None where all are equally likely."""
    inverse = constants.get("inverse")
    return None if inverse is None else 1 / inverse.numpy().astype(np.float64)


def alias_table(p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The probability that a bin holds its own observation, [N], and the observation that it holds else, int32 [N].

    Heavy observations fill the bins of light ones in turn; one whose excess is used up leaves the rest of its own bin
    to the next. Who fills which bin follows from the running sums of what is missing and of what is in excess
    (Hübschle-Schneider & Sanders 2022).
    """
    scaled = p * (len(p) / p.sum())
    kept, alias = np.minimum(scaled, 1.0), np.arange(len(p), dtype=np.int32)
    light, heavy = np.flatnonzero(scaled < 1), np.flatnonzero(scaled >= 1)
    if not len(light) or not len(heavy):  # all equally likely, but for rounding
        return np.ones(len(p)), alias
    missing, excess = np.cumsum(1 - scaled[light]), np.cumsum(scaled[heavy] - 1)
    before = np.concatenate([[0.0], missing])
    by = np.searchsorted(excess, before[:-1], side="right")
    alias[light] = heavy[np.minimum(by, len(heavy) - 1)]
    used = np.searchsorted(missing, excess, side="left")  # the light observation with which an excess is used up
    left = 1 + excess - before[np.minimum(used + 1, len(light))]
    kept[heavy] = np.clip(left, 0.0, 1.0)
    alias[heavy[:-1]] = heavy[1:]
    kept[heavy[-1]] = 1.0
    return kept, alias
