"""Minibatches drawn with replacement with probabilities p_i, and weights 1/(n p_i).

The estimate of a sum over the data is unbiased for all p_i > 0. Its noise is smallest if they are in proportion to the
sizes of the terms (Putcha, Nemeth & Fearnhead 2023, eq. 11 and 12).

A draw costs O(1) with an alias table (Walker 1977): it chooses one of N equally likely bins. Bin i gives observation i
with probability `kept`, and otherwise another observation, its alias.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from sgmcmc.core.errors import warn_user
from sgmcmc.core.random import Stream
from sgmcmc.core.trees import Tree
from sgmcmc.minibatch import Minibatch, Part

WORD = 2.0**32
NEVER, LIFTED = 1e-4, 0.1  # of the mean importance: observations below the first are hardly drawn, and get the second


def weighted(
    n_data: int, size: int, dtype: tf.DType, probabilities: np.ndarray | None = None, floor: float = 0.0
) -> Minibatch:
    """Minibatches with these probabilities, [N], or in proportion to the importance but for a uniform share `floor`."""

    def prepare(importance: np.ndarray | None) -> Tree:
        p = probabilities
        if p is None:
            assert importance is not None
            lifted = importance if floor else _lifted(importance)
            p = (1 - floor) * lifted / lifted.sum() + floor / n_data
        kept, alias = alias_table(np.asarray(p, np.float64))
        kept = np.round(kept * WORD).clip(1, WORD - 1)
        # Weights are inverse to the probabilities in the table, which are the given ones up to rounding.
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

    return Minibatch(size, draw, simple=True, prepare=prepare, wants_importance=probabilities is None)


def _lifted(importance: np.ndarray) -> np.ndarray:
    """The importance, raised for observations that would never be drawn but may matter elsewhere in the posterior."""
    mean = importance.mean()
    low = importance < NEVER * mean
    if low.any():
        warn_user(
            f"preferential(floor=0) would never draw {int(low.sum())} of {len(low)} observations, since their terms "
            f"vanish at the mode. Without them the posterior would be different, so they get {LIFTED} of the mean "
            "weight; a floor, such as the default of 0.1, ensures this for all."
        )
    return np.where(low, LIFTED * mean, importance)


def probabilities_of(constants: Tree) -> np.ndarray | None:
    """The probabilities of the observations, [N], from the constants of minibatches; None if all are equal."""
    inverse = constants.get("inverse")
    return None if inverse is None else 1 / inverse.numpy().astype(np.float64)


def alias_table(p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The alias table: the probability of a bin's own observation, and its alias, [N].

    Heavy observations fill the bins of light ones in turn. If the excess of a heavy one is used up, the next heavy one
    fills the rest of its bin. Which one fills which bin follows from the cumulative sums of the missing and of the
    excess probabilities (Hübschle-Schneider & Sanders 2022).
    """
    scaled = p * (len(p) / p.sum())
    kept, alias = np.minimum(scaled, 1.0), np.arange(len(p), dtype=np.int32)
    light, heavy = np.flatnonzero(scaled < 1), np.flatnonzero(scaled >= 1)
    if not len(light) or not len(heavy):  # all equally likely, up to rounding
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
