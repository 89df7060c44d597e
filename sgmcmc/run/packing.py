"""How the arrays of a recorded row are written together."""

from __future__ import annotations

import tensorflow as tf

from sgmcmc.core.types import Tree

SMALL_LEAF = 1024  # elements of all chains: writing an array takes 0.2 us, as long as copying so many


class Packing:
    """The small leaves [C, ...] of a row side by side, in one array for each type.

    XLA takes as long to write one of them as to write all.
    """

    def __init__(self, specs: list[tf.TensorSpec]) -> None:
        small: dict[tf.DType, list[int]] = {}
        self._leaves, self._groups = specs, []
        for k, spec in enumerate(specs):
            if spec.shape.num_elements() <= SMALL_LEAF:
                small.setdefault(spec.dtype, []).append(k)
            else:
                self._groups.append([k])
        self._groups += small.values()
        self._sizes = [[specs[k].shape[1:].num_elements() for k in group] for group in self._groups]
        self.specs = [
            tf.TensorSpec([specs[group[0]].shape[0], sum(sizes)], specs[group[0]].dtype)
            for group, sizes in zip(self._groups, self._sizes, strict=True)
        ]

    def packed(self, row: Tree) -> list[tf.Tensor]:
        """A row in arrays [C, width]."""
        flat = [tf.reshape(leaf, [leaf.shape[0], -1]) for leaf in tf.nest.flatten(row)]
        return [tf.concat([flat[k] for k in group], axis=1) for group in self._groups]

    def unpacked(self, rows: list[tf.Tensor]) -> list[tf.Tensor]:
        """The leaves [T, C, ...] of T rows in arrays [T, C, width]."""
        leaves: dict[int, tf.Tensor] = {}
        for packed, group, sizes in zip(rows, self._groups, self._sizes, strict=True):
            for k, part in zip(group, tf.split(packed, sizes, axis=2), strict=True):
                leaves[k] = tf.reshape(part, [packed.shape[0], *self._leaves[k].shape])
        return [leaves[k] for k in range(len(leaves))]
