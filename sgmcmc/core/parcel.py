"""Objects on their way to other processes: users' functions by value, large arrays as files that processes map."""

from __future__ import annotations

import mmap
import pickle
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import cloudpickle
import numpy as np

from sgmcmc.core.pickling import pickled, unpicklable

SMALL = 2**20  # bytes up to which an array travels in the pickle

Written = dict[tuple[int, int], tuple[memoryview, str]]
"""Arrays by their addresses and sizes, held so that no other comes to their place, and the files that have them."""


class Parcel(NamedTuple):
    """An object as a pickle, and the files with its large arrays."""

    contents: bytes
    files: list[str]
    made_with: dict[str, str]

    @classmethod
    def of(cls, thing: Any, folder: Path | None, written: Written | None = None) -> Parcel:
        """Pack an object; files are written to `folder`, which others must be able to read, if there is one.

        `written` has the arrays that are in the folder already; it is added to.

        Raises
        ------
        TypeError
            If something that it holds cannot be pickled.
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
        except Exception as error:  # of any type: it is that of a library whose object cannot be pickled
            raise unpicklable(thing, error) from error

    def opened(self) -> Any:
        """The object; its large arrays are read from the files when they are used.

        Raises
        ------
        RuntimeError
            If another Python or another version of a library packed it.
        FileNotFoundError
            If a file cannot be seen from this machine.
        """
        if self.made_with != (here := _versions()):
            differing = [
                f"{name} {here[name]}, not {self.made_with[name]}"
                for name in here
                if here[name] != self.made_with[name]
            ]
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
