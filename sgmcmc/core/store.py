"""Reading a store of draws on disk.

Missing or damaged files, or those of another run, are errors.

For Zarr, a chunk without a file has the fill value everywhere. So draws that were
deleted or moved would appear as NaN, 0 or False. Importing this module needs Zarr and
xarray.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import google_crc32c
import xarray as xr
from zarr.storage import LocalStore

FORMAT = 1
NAME = "checkpoint/name/c/0"
"""A file with bytes that are unique to the store.

The run that writes the store holds a lock on it.
"""

CHECKSUM_BYTES = 4
NOT_DRAWS = {"checkpoint"}


class WholeStore(LocalStore):
    """A store on disk.

    Every chunk that is read must exist and have the right checksum.
    """

    def __init__(self, root: Path | str, *, read_only: bool = True) -> None:
        super().__init__(root, read_only=read_only)
        self._name = self._read_name()

    async def get(self, key: str, prototype: Any = None, byte_range: Any = None) -> Any:
        """The bytes of a file; None if it does not exist and is not a chunk."""
        return self._checked(key, await super().get(key, prototype, byte_range))

    def get_sync(self, key: str, *, prototype: Any = None, byte_range: Any = None) -> Any:
        """See `get`."""
        return self._checked(key, super().get_sync(key, prototype=prototype, byte_range=byte_range))

    def _checked(self, key: str, contents: Any) -> Any:
        if not key.rpartition("/")[2].isdigit():  # the names of chunk files are numbers
            return contents
        if self._read_name() != self._name:
            raise OSError(f"the draws that were in {str(self.root)!r} cannot be read: another run has replaced them.")
        if contents is None:
            raise _missing(self.root, self.root / key)
        data = contents.as_numpy_array()
        found = int.from_bytes(data[-CHECKSUM_BYTES:].tobytes(), "little")
        if google_crc32c.value(data[:-CHECKSUM_BYTES]) != found:
            raise OSError(f"{str(self.root / key)!r} is damaged: its checksum is not that of its contents.")
        return contents

    def _read_name(self) -> bytes:
        try:
            return (self.root / NAME).read_bytes()
        except OSError as error:
            raise _missing(self.root, self.root / NAME) from error


def _missing(store: Path, file: Path) -> FileNotFoundError:
    if not store.exists():
        return FileNotFoundError(
            f"the draws that were in {str(store)!r} cannot be read: the store does not exist. Move it back, or read "
            "it with Draws.load from its new path."
        )
    return FileNotFoundError(f"the draws in {str(store)!r} cannot be read: {str(file)!r} is missing.")


def open_draws(path: Path) -> xr.DataTree:
    """The draws in a store, read from disk on use.

    Raises
    ------
    OSError
        If something is missing.
    ValueError
        If it has another format.
    """
    # An absolute path, so that a change of the working directory does not matter.
    tree = xr.open_datatree(WholeStore(path.absolute()), engine="zarr", consolidated=True)
    require_format(tree.attrs)
    lengths = set()
    for group in tree.children.keys() - NOT_DRAWS:
        for name, array in tree[group].data_vars.items():
            lengths.add(array.shape[1])
            require_chunks(path, f"{group}/{name}", array.shape, array.encoding["chunks"], array.dtype.itemsize)
    if len(lengths) > 1:
        raise ValueError(f"its arrays have different numbers of draws, {sorted(lengths)}")
    return tree


def require_format(attributes: Mapping[Any, Any]) -> None:
    """Refuse a store of another version, or without metadata."""
    if attributes.get("format") != FORMAT:
        raise ValueError(f"it has format {attributes.get('format')!r}; this version reads format {FORMAT}")


def require_chunks(path: Path, name: str, shape: Sequence[int], chunks: Sequence[int], itemsize: int) -> None:
    """Refuse an array if the file of a chunk is missing or has the wrong size.

    Parameters
    ----------
    path : Path
        The path of the store.
    name : str
        The name of the array, with its group.
    shape, chunks : sequence of int
        The shapes of the array and of a chunk; chunks divide only the axis of the
        draws.
    itemsize : int

    Raises
    ------
    OSError
        If a chunk is missing or damaged; the message names the file.
    """
    size = math.prod(chunks) * itemsize + CHECKSUM_BYTES
    for number in range(-(-shape[1] // chunks[1])):
        file = path.joinpath(name, "c", "0", str(number), *["0"] * (len(shape) - 2))
        if not file.is_file():
            raise _missing(path, file)
        if file.stat().st_size != size:
            raise OSError(f"{str(file)!r} is damaged: it has {file.stat().st_size} bytes, not {size}.")
