"""Coordinates phi for a preconditioner M = A A^T: theta = centre + A phi.

The gradient with respect to phi is A^T times that with respect to theta. A dynamics
makes its step from the origin of these coordinates, and theta moves by A times the
step. theta itself is never transformed, so that it does not lose precision.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from sgmcmc.core.parameters import Elements, joined, split
from sgmcmc.core.types import Tree

DENSE, DIAGONAL = "dense", "diagonal"


def root_of(A: np.ndarray, elements: Mapping[str, Elements], dtype: tf.DType) -> Tree:  # noqa: N803
    """A as constants of a transition, from [D, D] or its diagonal [D]."""
    tensor = tf.constant(A, dtype)
    return {DENSE: tensor} if A.ndim == 2 else {DIAGONAL: split(tensor, elements)}


def of_gradient(gradient: Tree, root: Tree, elements: Mapping[str, Elements]) -> Tree:
    """The gradient by phi, from that by theta, {name: [C, *shape]}."""
    if DENSE in root:
        return split(tf.matmul(joined(gradient), root[DENSE]), elements)
    return {name: gradient[name] * root[DIAGONAL][name] for name in elements}


def to_theta(step: Tree, root: Tree, elements: Mapping[str, Elements]) -> Tree:
    """The move of theta, from a step of phi, {name: [C, *shape]}."""
    if DENSE in root:
        return split(tf.matmul(joined(step), root[DENSE], transpose_b=True), elements)
    return {name: step[name] * root[DIAGONAL][name] for name in elements}


def widths(root: Tree, elements: Mapping[str, Elements]) -> dict[str, np.ndarray]:
    """The square roots of the diagonal of M, {name: [*shape]}; none without a preconditioner."""
    if DENSE in root:
        return {name: x.numpy() for name, x in split(tf.norm(root[DENSE], axis=1), elements).items()}
    return {name: x.numpy() for name, x in root.get(DIAGONAL, {}).items()}
