"""Pickles of users' functions and data, for other processes."""

from __future__ import annotations

import functools
import inspect
import io
import pickle
import types
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import tensorflow as tf

from sgmcmc.core import memmaps
from sgmcmc.core.errors import reason

BufferCallback = Callable[[pickle.PickleBuffer], bool]
"""Takes an array, and returns False if it is to travel beside the pickle."""


class _Pickler(cloudpickle.Pickler):
    """Pickles functions by value, and arrays on disk and compiled functions by what they were made of."""

    def reducer_override(self, obj: Any) -> Any:
        """How an object is pickled; NotImplemented leaves it to pickle."""
        if isinstance(obj, tf.types.experimental.PolymorphicFunction):
            options = {name: getattr(obj, f"_{name}") for name in ("autograph", "jit_compile", "reduce_retracing")}
            return _compiled, (obj.python_function, obj.input_signature, options)
        if isinstance(obj, functools._lru_cache_wrapper) and "<locals>" in obj.__qualname__:
            return _cached, (obj.__wrapped__, obj.cache_parameters())
        if isinstance(obj, np.memmap) and (at := memmaps.place(obj)) is not None:
            obj.flush()
            return memmaps.opened, (str(obj.filename), obj.dtype.str, at, obj.shape, obj.strides)
        if type(obj).__module__.partition(".")[0] == "h5py" and hasattr(obj, "file"):
            return _opened_hdf5, (str(Path(obj.file.filename).absolute()), obj.name)
        return super().reducer_override(obj)


def pickled(thing: Any, buffer_callback: BufferCallback | None) -> bytes:
    """The pickle of an object."""
    buffer = io.BytesIO()
    _Pickler(buffer, protocol=5, buffer_callback=buffer_callback).dump(thing)
    return buffer.getvalue()


def by_value(thing: Any, attributes: Mapping[str, Any]) -> tuple:
    """What `__reduce__` returns for an object that holds functions of the user's, such as lambdas."""
    items = dict(thing) if isinstance(thing, dict) else {}
    return _from_value, (type(thing), pickled((items, dict(attributes)), None))


def _from_value(kind: Any, data: bytes) -> Any:
    thing = kind.__new__(kind)
    items, attributes = pickle.loads(data)
    if items:
        dict.update(thing, items)
    vars(thing).update(attributes)
    return thing


def _compiled(function: Callable, input_signature: Any, options: dict[str, Any]) -> Any:
    return tf.function(function, input_signature, **options)


def _cached(function: Callable, parameters: dict[str, Any]) -> Any:
    return functools.lru_cache(**parameters)(function)


def _opened_hdf5(file: str, name: str) -> Any:
    import h5py

    return h5py.File(file, "r")[name]


def _culprit(thing: Any) -> list[str]:
    """The names that lead to what cannot be pickled, from the outside to the inside."""
    for name, part in _parts(thing):
        try:
            pickled(part, lambda buffer: False)
        except Exception:
            return [part.__name__ if isinstance(part, types.FunctionType) else name, *_culprit(part)]
    return []


def _parts(thing: Any) -> Iterable[tuple[str, Any]]:
    """What an object holds, by name, if it is a function, a container or an object of this package."""
    if isinstance(thing, types.FunctionType):
        held = inspect.getclosurevars(thing)
        return {**held.nonlocals, **held.globals}.items()
    if isinstance(thing, types.MethodType):
        return [(type(thing.__self__).__name__, thing.__self__)]
    if isinstance(thing, Mapping):
        return [(repr(key), value) for key, value in thing.items()]
    if isinstance(thing, tuple) and hasattr(thing, "_asdict"):
        return thing._asdict().items()
    if isinstance(thing, list | tuple):
        return [(f"[{k}]", value) for k, value in enumerate(thing)]
    if type(thing).__module__.startswith("sgmcmc."):
        return vars(thing).items()
    return []


def require_picklable(thing: Any) -> None:
    """Refuse an object that a parcel cannot hold.

    Raises
    ------
    TypeError
        The message is the name of what cannot be pickled, and why.
    """
    try:
        pickled(thing, lambda buffer: False)
    except Exception as error:
        raise unpicklable(thing, error) from error


def unpicklable(thing: Any, error: Exception) -> TypeError:
    """The error of `pickled`, with the name of what cannot be pickled."""
    return TypeError(f"{' of '.join(reversed(_culprit(thing)[-2:])) or type(thing).__name__} ({reason(error)})")
