"""Constrained parameters: theta = f(u), with u any real numbers.

A density p of theta is the density p(f(u)) |det df/du| of u. Users see theta, chains move u.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import tensorflow as tf

from sgmcmc.core.types import Tree

CLOSE = 1e-3  # the relative error of what a transform and its inverse return


class Transform(NamedTuple):
    """The functions of one parameter, each of one chain."""

    forward: Callable[[tf.Tensor], tf.Tensor]  # u -> theta
    inverse: Callable[[tf.Tensor], tf.Tensor]  # theta -> u
    log_det: Callable[[tf.Tensor], tf.Tensor]  # u -> log |det df/du|, a scalar
    support: str  # which theta there are, as a message says it
    identity: Any = None  # what identifies it, as JSON

    def holds(self, theta: tf.Tensor) -> tf.Tensor:
        """Whether theta is in the support and not on its boundary, but for rounding; a scalar."""
        u = self.inverse(theta)
        close = tf.abs(self.forward(u) - theta) <= CLOSE * (1 + tf.abs(theta))
        return tf.reduce_all(tf.math.is_finite(u)) & tf.reduce_all(close)


@dataclass(frozen=True)
class Transforms:
    """Those of all parameters that have one; the others are as they are."""

    each: Mapping[str, Transform] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.each)

    def forward(self, params: Tree) -> Tree:
        """The parameters that users see."""
        return {name: self.each[name].forward(u) if name in self.each else u for name, u in params.items()}

    def inverse(self, params: Tree) -> Tree:
        """Where a chain stands at these parameters."""
        return {name: self.each[name].inverse(x) if name in self.each else x for name, x in params.items()}

    def log_det(self, params: Tree) -> tf.Tensor:
        """log |det df/du| of all, a scalar."""
        return tf.add_n([transform.log_det(params[name]) for name, transform in self.each.items()])
