"""TensorFlow Probability, imported when it is first needed, since that takes longer than a short run."""

from __future__ import annotations

import warnings
from types import ModuleType


def tfp() -> ModuleType:
    """The package, without the warnings of its import."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        import tensorflow_probability
    return tensorflow_probability
