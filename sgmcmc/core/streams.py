"""The keys of the streams of all chains, as constants of a kernel."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from sgmcmc.core.random import Purpose, Stream, keys
from sgmcmc.core.types import Tree

OF_CHAINS = (
    Purpose.MINIBATCH,
    Purpose.NOISE,
    Purpose.REFRESH,
    Purpose.INITIAL,
    Purpose.MONITOR,
    Purpose.GIBBS,
    Purpose.LATENT,
    Purpose.SECOND,
    Purpose.THIRD,
)


OF_MINIBATCHES = (Purpose.MINIBATCH, Purpose.MONITOR)


def keys_of_chains(seed: int, chains: range, shared_minibatch: bool = False) -> Tree:
    """The keys for all purposes, {"keys": [purposes, C, 2]}; `key_of` selects from them.

    A minibatch that all chains share is that of chain 0, whichever chains these are.
    """

    def numbers(purpose: Purpose) -> range:
        return range(len(chains)) if shared_minibatch and purpose in OF_MINIBATCHES else chains

    return {"keys": tf.constant(np.stack([keys(seed, purpose, numbers(purpose)) for purpose in OF_CHAINS]))}


def key_of(constants: Tree, purpose: Purpose) -> tf.Tensor:
    """The keys of all chains for a purpose, [C, 2]."""
    return constants["keys"][OF_CHAINS.index(purpose)]


def seeds(constants: Tree, purpose: Purpose, iterations: tf.Tensor) -> tf.Tensor:
    """The seeds of a user's function, two integers for each iteration and chain, int32 [K, C, 2]."""
    words = Stream(key_of(constants, purpose)).bits(iterations, tf.zeros([1], tf.int32))  # 2 of [K, C, 1]
    return tf.bitcast(tf.concat(words, axis=2), tf.int32)
