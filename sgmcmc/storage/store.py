"""Reading a store of draws on disk: its manifest, and which draws are complete.

The manifest is in the metadata of the root, the one file that shows draws to readers. A chunk contains a checksum too,
which shows that it is as it was written, but not where and when. For Zarr, a chunk without a file has the fill value
everywhere, so lost draws would appear as NaN, 0 or False: here they are errors. Importing this needs Zarr and xarray.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
import xarray as xr
from zarr.storage import LocalStore

CHECKSUM_BYTES = 4
STATE = "checkpoint/state"


def checksum(values: np.ndarray) -> bytes:
    """The CRC32C of an array, as Zarr's codec puts it at the end of a chunk."""
    contents = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
    return int(google_crc32c.value(contents)).to_bytes(CHECKSUM_BYTES, "little")


@dataclass
class Manifest:
    """How many draws a store has, and by array the checksums of its chunks, joined in their order.

    That of the last chunk, if it is incomplete, is of these draws only: the file may have more already, which are not
    shown yet.
    """

    n_draws: int
    checksums: dict[str, bytes]

    @classmethod
    def of(cls, attributes: Mapping[str, Any]) -> Manifest:
        checksums = {array: bytes.fromhex(each) for array, each in attributes["checksums"].items()}
        return cls(int(attributes["draws"]), checksums)

    def attributes(self) -> dict[str, Any]:
        return {"draws": self.n_draws, "checksums": {array: each.hex() for array, each in self.checksums.items()}}

    def checksum(self, array: str, number: int) -> bytes:
        """The checksum of a chunk; nothing if there is no such chunk."""
        return self.checksums.get(array, b"")[CHECKSUM_BYTES * number :][:CHECKSUM_BYTES]

    def end(self, array: str, values: np.ndarray, number: int) -> None:
        """End an array with the chunk that has these values, or before it if there are none."""
        last = checksum(values) if values.size else b""
        self.checksums[array] = self.checksums.get(array, b"")[: CHECKSUM_BYTES * number] + last

    def follow(self, state: np.ndarray) -> None:
        """Record this state, which is written after the draws: after a kill, the one before may still be there."""
        self.checksums[STATE] = self.checksums[STATE][-CHECKSUM_BYTES:] + checksum(state)


FORMAT = 2
NOT_DRAWS = {"checkpoint"}
ROOT = "zarr.json"
"""The metadata of all arrays, and the manifest: what readers see."""
NAME = "checkpoint/name/c/0"
"""A file with bytes that are unique to the store; the run that writes it holds a lock on it."""


class WholeStore(LocalStore):
    """A store on disk, with the draws that are shown when it is opened; chunks must be those of the manifest."""

    def __init__(self, root: Path | str, *, read_only: bool = True) -> None:
        super().__init__(root, read_only=read_only)
        self._name = self._read_name()
        try:
            self.metadata = json.loads((self.root / ROOT).read_bytes())
        except FileNotFoundError as error:
            raise _missing(self.root, self.root / ROOT) from error
        found = self.metadata.get("attributes", {}).get("format")
        if found != FORMAT:
            raise ValueError(f"it has format {found!r}; this version reads format {FORMAT}")
        self.manifest = Manifest.of(self.metadata["attributes"])
        if self._name[-CHECKSUM_BYTES:] != self.manifest.checksum("checkpoint/name", 0):
            raise _another(self.root / NAME)

    async def get(self, key: str, prototype: Any = None, byte_range: Any = None) -> Any:
        return self._checked(key, await super().get(key, prototype, byte_range))

    def get_sync(self, key: str, *, prototype: Any = None, byte_range: Any = None) -> Any:
        return self._checked(key, super().get_sync(key, prototype=prototype, byte_range=byte_range))

    def require_chunks(self, array: str, shape: Sequence[int], chunks: Sequence[int], itemsize: int) -> None:
        """Refuse an array if a chunk, which divides only the axis of the draws, is missing, incomplete or another one.

        Contents are not read, so they may be damaged; and the last chunk, if it is not full, may be another one.
        """
        size = math.prod(chunks) * itemsize + CHECKSUM_BYTES
        full = self.manifest.n_draws // chunks[1]
        for number in range(-(-shape[1] // chunks[1])):
            file = self.root.joinpath(array, "c", "0", str(number), *["0"] * (len(shape) - 2))
            if not file.is_file():
                raise _missing(self.root, file)
            if file.stat().st_size != size:
                raise OSError(f"{str(file)!r} is damaged: it has {file.stat().st_size} bytes, not {size}.")
            if number < full and last_bytes(file) != self.manifest.checksum(array, number):
                raise _another(file)

    def _checked(self, key: str, contents: Any) -> Any:
        if key == ROOT and contents is not None:  # the run may have replaced it since
            return type(contents).from_bytes(json.dumps(self.metadata).encode())
        if not key.rpartition("/")[2].isdigit():  # the names of chunk files are numbers
            return contents
        if self._read_name() != self._name:
            raise OSError(f"the draws that were in {str(self.root)!r} cannot be read: another run has replaced them.")
        if contents is None:
            raise _missing(self.root, self.root / key)
        data = contents.as_numpy_array()
        found = data[-CHECKSUM_BYTES:].tobytes()
        if checksum(data[:-CHECKSUM_BYTES]) != found:
            raise OSError(f"{str(self.root / key)!r} is damaged: its checksum is not that of its contents.")
        if not self._belongs(key, data[:-CHECKSUM_BYTES], found):
            raise _another(self.root / key)
        return contents

    def _belongs(self, key: str, contents: Any, found: bytes) -> bool:
        group, name, _, *place = key.split("/")
        array = f"{group}/{name}"
        if group in NOT_DRAWS:
            return found in (self.manifest.checksum(array, 0), self.manifest.checksum(array, 1))
        number = int(place[1])
        grid = self.metadata["consolidated_metadata"]["metadata"][array]["chunk_grid"]
        n_chains, rows = grid["configuration"]["chunk_shape"][:2]
        n_draws = self.manifest.n_draws - number * rows
        if n_draws < rows:
            if contents.size % (n_chains * rows):
                return False
            found = checksum(contents.reshape(n_chains, rows, -1)[:, :n_draws])
        return found == self.manifest.checksum(array, number)

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


def _another(file: Path) -> OSError:
    return OSError(
        f"{str(file)!r} is not the file that the run wrote there, or it is an older one: its checksum is not the one "
        f"in {ROOT!r}."
    )


def last_bytes(file: Path) -> bytes:
    with file.open("rb") as opened:
        opened.seek(-CHECKSUM_BYTES, os.SEEK_END)
        return opened.read()


def parts_of(path: Path) -> list[range] | None:
    """The chains of each part of a run that has parts, for `path_of_part`; None for a store that has the draws."""
    groups = WholeStore(path.absolute()).metadata["attributes"].get("parts")
    return groups and [range(*group) for group in groups]


def open_draws(path: Path) -> xr.DataTree:
    # An absolute path, so that a change of the working directory does not matter.
    store = WholeStore(path.absolute())
    tree = xr.open_datatree(store, engine="zarr", consolidated=True)
    for group in tree.children.keys() - NOT_DRAWS:
        for name, array in tree[group].data_vars.items():
            if array.shape[1] != store.manifest.n_draws:
                raise ValueError(f"{group}/{name} has {array.shape[1]} draws, not {store.manifest.n_draws}")
            store.require_chunks(f"{group}/{name}", array.shape, array.encoding["chunks"], array.dtype.itemsize)
    return tree
