"""Changes of variables: constrained parameters, and the coordinates of a preconditioner.

A density p of theta is the density p(f(u)) |det df/du| of u. Users see theta, chains move u.

The gradient with respect to the coordinates phi of a preconditioner is A^T times that with respect to theta. A dynamics
makes its step from the origin of these coordinates, and theta moves by A times the step. theta itself is never
transformed, so it does not lose precision. The noise of a step is white, unless the root contains a matrix for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from sgmcmc.core.trees import Elements, Tree, joined, split

CLOSE = 1e-3  # the relative error allowed in forward(inverse(theta))


class Transform(NamedTuple):
    """The functions of one parameter, each for one chain."""

    forward: Callable[[tf.Tensor], tf.Tensor]  # u -> theta
    inverse: Callable[[tf.Tensor], tf.Tensor]  # theta -> u
    log_det: Callable[[tf.Tensor], tf.Tensor]  # u -> log |det df/du|, a scalar
    support: str  # the allowed theta, in words, for messages
    identity: Any = None  # identifies the transform, as JSON

    def holds(self, theta: tf.Tensor) -> tf.Tensor:
        """Whether theta is in the support and not on its boundary, up to rounding; a scalar."""
        u = self.inverse(theta)
        close = tf.abs(self.forward(u) - theta) <= CLOSE * (1 + tf.abs(theta))
        return tf.reduce_all(tf.math.is_finite(u)) & tf.reduce_all(close)


@dataclass(frozen=True)
class Transforms:
    """The transforms of all parameters that have one; the others are unchanged."""

    each: Mapping[str, Transform] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.each)

    def forward(self, params: Tree) -> Tree:
        """The parameters that users see."""
        return {name: self.each[name].forward(u) if name in self.each else u for name, u in params.items()}

    def inverse(self, params: Tree) -> Tree:
        return {name: self.each[name].inverse(x) if name in self.each else x for name, x in params.items()}

    def log_det(self, params: Tree) -> tf.Tensor:
        """log |det df/du| of all, a scalar."""
        return tf.add_n([transform.log_det(params[name]) for name, transform in self.each.items()])


DENSE, DIAGONAL, LOW_RANK = "dense", "diagonal", "lowRank"
NOISE = "noise"  # the key of the matrix B of the noise B z, with standard normals z


class Coordinates(NamedTuple):
    """The coordinates of the root A from `root_of`; without a root they are theta itself."""

    root: Tree
    elements: Mapping[str, Elements]

    def origin(self, theta: Tree) -> Tree:
        return {name: tf.zeros_like(x) for name, x in theta.items()} if self.root else theta

    def of_gradient(self, gradient: Tree) -> Tree:
        """The gradient with respect to phi, from that with respect to theta, {name: [C, *shape]}."""
        if not self.root:
            return gradient
        if DENSE in self.root:
            return split(tf.matmul(joined(gradient), self.root[DENSE]), self.elements)
        return self._stretched({name: gradient[name] * self.root[DIAGONAL][name] for name in self.elements})

    def of_noise(self, z: Tree) -> Tree:
        """The noise of a step, from standard normals, {name: [C, *shape]}."""
        if NOISE not in self.root:
            return z
        return split(tf.matmul(joined(z), self.root[NOISE], transpose_b=True), self.elements)

    def moved(self, theta: Tree, reached: Tree) -> Tree:
        """Theta after a step that begins at the origin and ends at `reached`, {name: [C, *shape]}."""
        if not self.root:
            return reached
        if DENSE in self.root:
            step = split(tf.matmul(joined(reached), self.root[DENSE], transpose_b=True), self.elements)
        else:
            stretched = self._stretched(reached)
            step = {name: stretched[name] * self.root[DIAGONAL][name] for name in self.elements}
        return {name: theta[name] + step[name] for name in self.elements}

    def _stretched(self, x: Tree) -> Tree:
        """(I + U f U^T) x, if the root has low-rank directions."""
        if LOW_RANK not in self.root:
            return x
        vectors, stretch = self.root[LOW_RANK]["vectors"], self.root[LOW_RANK]["stretch"]
        flat = joined(x)
        return split(flat + tf.matmul(tf.matmul(flat, vectors) * stretch, vectors, transpose_b=True), self.elements)

    def widths(self) -> dict[str, np.ndarray]:
        """The square roots of the diagonal of M, {name: [*shape]}; none without a preconditioner."""
        if DENSE in self.root:
            of_root = split(tf.norm(self.root[DENSE], axis=1), self.elements)
        else:
            of_root = self.root.get(DIAGONAL, {})
        return {name: x.numpy() for name, x in of_root.items()}


def root_of(A: np.ndarray, elements: Mapping[str, Elements], dtype: tf.DType) -> Tree:  # noqa: N803
    """A as constants of a kernel, from [D, D] or its diagonal [D]."""
    tensor = tf.constant(A, dtype)
    return {DENSE: tensor} if A.ndim == 2 else {DIAGONAL: split(tensor, elements)}


def low_rank(
    scale: np.ndarray, vectors: np.ndarray, stretch: np.ndarray, elements: Mapping[str, Elements], dtype: tf.DType
) -> Tree:
    """A = S (I + U f U^T) as constants of a kernel, from the diagonal of S, [D], U, [D, K], and f, [K]."""
    if not stretch.size:
        return root_of(scale, elements, dtype)
    directions = {"vectors": tf.constant(vectors, dtype), "stretch": tf.constant(stretch, dtype)}
    return root_of(scale, elements, dtype) | {LOW_RANK: directions}
