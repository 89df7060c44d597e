"""Tensors that are written to memory of their own, where XLA would compute them anew wherever they are used."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from sgmcmc.core.types import Tree


def written(made: Callable[[], Tree], never: tf.Tensor, specs: Mapping[str, Any]) -> Tree:
    """The result of made(), tensors {name: ...} with the shapes and types of `specs`.

    XLA never fuses over a choice; but of one between two branches it makes arithmetic, hence the third. The others are
    never taken: `never` is false, which XLA does not know.
    """

    def filled(value: int) -> Callable[[], Tree]:
        return lambda: {name: tf.fill(s.shape, tf.cast(value, s.dtype)) for name, s in specs.items()}

    return tf.switch_case(tf.cast(never, tf.int32), [made, filled(0), filled(1)])
