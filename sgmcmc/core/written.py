"""Tensors that are stored in memory, so that XLA does not compute them at each use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from sgmcmc.core.types import Tree


def written(made: Callable[[], Tree], never: tf.Tensor, specs: Mapping[str, Any]) -> Tree:
    """The result of made(), tensors {name: ...} with the shapes and types of `specs`.

    XLA does not fuse across a switch. It turns a switch between two branches into
    arithmetic, so there is a third. The two others are never taken: `never` is always
    false, but XLA cannot know that.
    """

    def filled(value: int) -> Callable[[], Tree]:
        return lambda: {name: tf.fill(s.shape, tf.cast(value, s.dtype)) for name, s in specs.items()}

    return tf.switch_case(tf.cast(never, tf.int32), [made, filled(0), filled(1)])
