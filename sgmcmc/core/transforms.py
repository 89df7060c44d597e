"""Constrained parameters: theta = f(u), with u any real numbers.

A density p of theta is the density p(f(u)) |det df/du| of u. Users see theta, chains move u.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import tensorflow as tf

from sgmcmc.core.types import Tree

CLOSE = 1e-3  # the relative error of what a transform and its inverse return


class Transform(NamedTuple):
    """The functions of one parameter, each of one chain.

    Bijectors remember their results, and a remembered one has no gradient in a second
    tape. So each call is made with a tensor of its own.
    """

    forward: Callable[[tf.Tensor], tf.Tensor]  # u -> theta
    inverse: Callable[[tf.Tensor], tf.Tensor]  # theta -> u
    log_det: Callable[[tf.Tensor], tf.Tensor]  # u -> log |det df/du|, a scalar
    support: str  # which theta there are, as a message says it


@dataclass(frozen=True)
class Transforms:
    """Those of all parameters that have one; the others are as they are."""

    each: Mapping[str, Transform] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.each)

    def forward(self, params: Tree) -> Tree:
        """The parameters that users see."""
        return {name: self.each[name].forward(tf.identity(u)) if name in self.each else u for name, u in params.items()}

    def inverse(self, params: Tree) -> Tree:
        """Where a chain stands at these parameters."""
        return {name: self.each[name].inverse(tf.identity(x)) if name in self.each else x for name, x in params.items()}

    def supported(self, params: Tree) -> dict[str, tf.Tensor]:
        """Whether each parameter that has a transform is a value of it, but for rounding; one chain."""
        returned = self.forward(self.inverse(params))
        return {
            name: tf.reduce_all(tf.abs(returned[name] - params[name]) <= CLOSE * (1 + tf.abs(params[name])))
            for name in self.each
            if name in params
        }

    def log_det(self, params: Tree) -> tf.Tensor:
        """log |det df/du| of all, a scalar."""
        return tf.add_n([transform.log_det(tf.identity(params[name])) for name, transform in self.each.items()])
