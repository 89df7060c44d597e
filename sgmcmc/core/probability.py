"""TensorFlow Probability, imported when it is first needed, since that takes longer than a short run."""

from __future__ import annotations

import functools
import warnings
from types import ModuleType
from typing import Any


@functools.cache
def tfp() -> ModuleType:
    """The package, without the warnings of its import."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        import tensorflow_probability
    return tensorflow_probability


def may_be_of_tfp(value: Any) -> bool:
    """Whether a base of its class has such a module, which needs no import to know."""
    return any(base.__module__.startswith("tensorflow_probability") for base in type(value).__mro__)
