"""Serialization for other processes: functions by value, large arrays as files that workers map."""

from __future__ import annotations

import functools
import inspect
import io
import mmap
import os
import pickle
import platform
import types
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import cloudpickle
import numpy as np
import tensorflow as tf

from sgmcmc.core.errors import reason


def place(array: np.memmap) -> int | None:
    """The byte of its file at which the array begins; None with private changes or without a file that still exists."""
    if array.filename is None or array.mode == "c" or (base := map_of(array)) is None:
        return None
    begin = np.frombuffer(base, np.uint8).ctypes.data
    if not _is_file_at(Path(str(array.filename)), begin):
        return None
    owner: Any = array
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    return array.ctypes.data - begin + owner.offset - owner.offset % mmap.ALLOCATIONGRANULARITY


def map_of(array: np.ndarray) -> mmap.mmap | None:
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    return base if isinstance(base, mmap.mmap) else None


def extent(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> tuple[int, int]:
    """The bytes of an array, counted from its first element: the lowest, and the one after the highest."""
    steps = [(n - 1) * step for n, step in zip(shape, strides, strict=True)]
    return sum(min(0, step) for step in steps), sum(max(0, step) for step in steps) + itemsize


def opened(file: str, dtype: str, at: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> np.ndarray:
    low, high = extent(shape, strides, np.dtype(dtype).itemsize)
    words = np.memmap(file, np.uint8, "r", at + low, (high - low,))
    return np.ndarray(shape, dtype, words, -low, strides).view(np.memmap)


def _is_file_at(path: Path, address: int) -> bool:
    """Whether the system says that this address of memory is mapped to the file that is at the path now."""
    try:
        status, lines = path.stat(), Path("/proc/self/maps").read_text().splitlines()
    except OSError:
        return False
    for line in lines:
        span, _, _, device, inode = line.split(maxsplit=5)[:5]
        first, last = (int(number, 16) for number in span.split("-"))
        if first <= address < last:
            major, minor = (int(number, 16) for number in device.split(":"))
            return int(inode) == status.st_ino and os.makedev(major, minor) == status.st_dev
    return False


BufferCallback = Callable[[pickle.PickleBuffer], bool]
"""Takes an array, and returns False if it is to travel outside the pickle."""


class _Pickler(cloudpickle.Pickler):
    """Pickles functions by value, and arrays on disk and compiled functions by how they were made."""

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, tf.types.experimental.PolymorphicFunction):
            options = {name: getattr(obj, f"_{name}") for name in ("autograph", "jit_compile", "reduce_retracing")}
            return _compiled, (obj.python_function, obj.input_signature, options)
        if isinstance(obj, functools._lru_cache_wrapper) and "<locals>" in obj.__qualname__:
            return _cached, (obj.__wrapped__, obj.cache_parameters())
        if isinstance(obj, np.memmap) and (at := place(obj)) is not None:
            obj.flush()
            return opened, (str(obj.filename), obj.dtype.str, at, obj.shape, obj.strides)
        if type(obj).__module__.partition(".")[0] == "h5py" and hasattr(obj, "file"):
            return _opened_hdf5, (str(Path(obj.file.filename).absolute()), obj.name)
        return super().reducer_override(obj)


def pickled(thing: Any, buffer_callback: BufferCallback | None) -> bytes:
    buffer = io.BytesIO()
    _Pickler(buffer, protocol=5, buffer_callback=buffer_callback).dump(thing)
    return buffer.getvalue()


def by_value(thing: Any, attributes: Mapping[str, Any]) -> tuple:
    """What `__reduce__` returns for an object that holds a user's functions, such as lambdas."""
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
    """The names that lead to the object that cannot be pickled, from the outside in."""
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
    """Refuse an object that a parcel cannot hold, with the name of what cannot be pickled, and why."""
    try:
        pickled(thing, lambda buffer: False)
    except Exception as error:
        raise unpicklable(thing, error) from error


def unpicklable(thing: Any, error: Exception) -> TypeError:
    return TypeError(f"{' of '.join(reversed(_culprit(thing)[-2:])) or type(thing).__name__} ({reason(error)})")


SMALL = 2**20  # bytes up to which an array travels in the pickle

Written = dict[tuple[int, int], tuple[memoryview, str]]
"""Arrays by address and size, held so that their memory is not reused, and the files that hold them."""


class Parcel(NamedTuple):
    """An object as a pickle, and the files with its large arrays."""

    contents: bytes
    files: list[str]
    made_with: dict[str, str]

    @classmethod
    def of(cls, thing: Any, folder: Path | None, written: Written | None = None) -> Parcel:
        """Pack an object, with files in `folder`, if given, which workers must be able to read.

        `written` holds the arrays that are already in the folder, and is extended.
        """
        files: list[str] = []
        known: Written = {} if written is None else written

        def is_small(buffer: pickle.PickleBuffer) -> bool:
            view = buffer.raw()
            if folder is None or view.nbytes <= SMALL:
                return True
            place = (np.frombuffer(view, np.uint8).ctypes.data, view.nbytes)
            if place not in known:
                file = folder / f"array-{len(known)}"
                file.write_bytes(view)
                known[place] = view, str(file)
            files.append(known[place][1])
            return False

        try:
            return cls(pickled(thing, is_small), files, _versions())
        except OSError:
            raise
        except Exception as error:  # of any type: it comes from the library whose object cannot be pickled
            raise unpicklable(thing, error) from error

    def opened(self) -> Any:
        """The object; its large arrays are read from the files when they are used."""
        differing = [
            f"{x} {here}, not {there}" for x, here in _versions().items() if (there := self.made_with[x]) != here
        ]
        if differing:
            raise RuntimeError(
                f"a worker of executor must have the versions of the process that uses it; got {'; '.join(differing)}."
            )
        return cloudpickle.loads(self.contents, buffers=[_mapped(Path(file)) for file in self.files])


def _mapped(file: Path) -> mmap.mmap:
    try:
        with file.open("rb") as opened:
            return mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_COPY)  # writable, but never written
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"data in memory reach a worker of executor as files in {str(file.parent)!r}, which {platform.node()!r} "
            "does not see: set TMPDIR to a folder that all machines share, or give a dataset on disk."
        ) from error


def _versions() -> dict[str, str]:
    python = ".".join(platform.python_version_tuple()[:2])  # functions travel as its bytecode
    return {"Python": python} | {name: version(name) for name in ("sgmcmc", "tensorflow", "numpy")}
