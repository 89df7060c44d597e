"""Averages of statistics over consecutive stretches of a chain of any length, in constant memory.

There are at most SLOTS stretches. When all are full, pairs of neighbours are merged,
and stretches are twice as long from then on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from sgmcmc.core.types import Tree

SLOTS = 64
FEWEST = 16  # stretches that are enough to estimate their spread


def begin(sizes: Mapping[str, int]) -> dict[str, Any]:
    """The empty averages, for statistics {name: how many numbers it has}."""
    sums = {name: tf.zeros([SLOTS, size], tf.float64) for name, size in sizes.items()}
    return {"count": tf.constant(0, tf.int64), "length": tf.constant(1, tf.int64), "sums": sums}


def extended(averages: dict[str, Any], row: Tree) -> dict[str, Any]:
    """The averages with one more row, {name: [C, size]}, averaged over the chains."""
    count, length = averages["count"], averages["length"]
    full = tf.equal(count, SLOTS * length)
    length = tf.where(full, 2 * length, length)
    here = tf.one_hot(count // length, SLOTS, dtype=tf.float64)[:, None]
    sums = {}
    for name, old in averages["sums"].items():
        pairs = tf.reduce_sum(tf.reshape(old, [SLOTS // 2, 2, -1]), axis=1)
        joined = tf.concat([pairs, tf.zeros_like(pairs)], axis=0)
        new = tf.reduce_mean(tf.cast(row[name], tf.float64), axis=0)
        sums[name] = tf.where(full, joined, old) + here * new
    return {"count": count + 1, "length": length, "sums": sums}


def of_second_half(averages: dict[str, Any]) -> dict[str, np.ndarray]:
    """The averages of the second half of the full stretches, {name: [stretches, size]}.

    Empty if there are fewer than FEWEST.
    """
    length = int(averages["length"])
    whole = int(averages["count"]) // length
    if whole - whole // 2 < FEWEST:
        return {}
    return {name: np.asarray(sums)[whole // 2 : whole] / length for name, sums in averages["sums"].items()}
