"""Parameters as dicts of arrays: their order, their elements, and nested dicts as flat lists."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import tensorflow as tf

Tree = dict[str, Any]
"""One entry per parameter."""


def nothing(*_: Any, **__: Any) -> Tree:
    """An empty tree: the default of functions that make constants or memories."""
    return {}


def no_memory(*_: Any, **__: Any) -> tuple[()]:
    """The default of functions that make the memory of an estimator or a transition."""
    return ()


def with_paths(tree: Any, path: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], Any]]:
    """The leaves in order; an empty dict or tuple has none."""
    if not isinstance(tree, Mapping | tuple):
        return [(path, tree)]
    return [pair for key in dict(tree) for pair in with_paths(tree[key], (*path, key))]


def from_paths(leaves: Iterable[tuple[Iterable[str], Any]]) -> Tree:
    tree: Tree = {}
    for path, leaf in leaves:
        *above, last = path
        branch = tree
        for key in above:
            branch = branch.setdefault(key, {})
        branch[last] = leaf
    return tree


class Elements(NamedTuple):
    """The positions of one parameter's elements among those of all parameters."""

    start: int
    stop: int
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
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
