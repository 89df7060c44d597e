"""The order of the parameters, by name, and of their elements, in C order."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import tensorflow as tf

from sgmcmc.core.types import Tree


class Elements(NamedTuple):
    """The positions of one parameter's elements among those of all parameters."""

    start: int
    stop: int
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """The number of elements."""
        return self.stop - self.start


def numbered(shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Elements]:
    """The elements of each parameter, in the order that the whole package uses."""
    elements, start = {}, 0
    for name in sorted(shapes):
        shape = tuple(shapes[name])
        elements[name] = Elements(start, start + math.prod(shape), shape)
        start = elements[name].stop
    return elements


def split(flat: tf.Tensor, elements: Mapping[str, Elements]) -> Tree:
    """The parameters side by side in the last axis of `flat`, [..., D]: {name: [..., *shape]}."""
    lead = flat.shape[:-1]
    parts = tf.split(flat, [e.size for e in elements.values()], axis=-1)
    return {name: tf.reshape(part, [*lead, *e.shape]) for (name, e), part in zip(elements.items(), parts, strict=True)}


def joined(tree: Tree) -> tf.Tensor:
    """The parameters {name: [m, *shape]} side by side, [m, D]: the inverse of `split`."""
    return tf.concat([tf.reshape(tree[name], [tree[name].shape[0], -1]) for name in sorted(tree)], axis=1)
