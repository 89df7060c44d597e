"""What a store has: how many draws, and the checksum of every chunk.

The manifest is in the metadata of the root, the one file that shows draws to readers,
and is replaced with it. A chunk has a checksum of its own, but that tells only that it
is as it was written, not where and when. If it was moved, or put back from a backup,
its checksum is not the one in the manifest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import google_crc32c
import numpy as np

CHECKSUM_BYTES = 4
STATE = "checkpoint/state"


def checksum(values: np.ndarray) -> bytes:
    """The CRC32C of an array, as Zarr's codec puts it at the end of a chunk."""
    contents = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
    return int(google_crc32c.value(contents)).to_bytes(CHECKSUM_BYTES, "little")


@dataclass
class Manifest:
    """How many draws a store has, and the checksums.

    Parameters
    ----------
    n_draws : int
    checksums : {path of an array: bytes}
        The checksums of its chunks, joined in their order. That of the last chunk, if
        it is incomplete, is of these draws only: the file may have more already, which
        are not shown yet.
    """

    n_draws: int
    checksums: dict[str, bytes]

    @classmethod
    def of(cls, attributes: Mapping[str, Any]) -> Manifest:
        """The manifest in the attributes of the root."""
        checksums = {array: bytes.fromhex(each) for array, each in attributes["checksums"].items()}
        return cls(int(attributes["draws"]), checksums)

    def attributes(self) -> dict[str, Any]:
        """The inverse of `of`."""
        return {"draws": self.n_draws, "checksums": {array: each.hex() for array, each in self.checksums.items()}}

    def checksum(self, array: str, number: int) -> bytes:
        """The checksum of a chunk; nothing if there is no such chunk."""
        return self.checksums.get(array, b"")[CHECKSUM_BYTES * number :][:CHECKSUM_BYTES]

    def end(self, array: str, values: np.ndarray, number: int) -> None:
        """End an array with the chunk that has these values, or before it if there are none."""
        last = checksum(values) if values.size else b""
        self.checksums[array] = self.checksums.get(array, b"")[: CHECKSUM_BYTES * number] + last

    def follow(self, state: np.ndarray) -> None:
        """Let the last state be followed by this one.

        It is written after the draws before it have been shown. So the state is the last
        one of the manifest or, after a kill, the one before.
        """
        self.checksums[STATE] = self.checksums[STATE][-CHECKSUM_BYTES:] + checksum(state)
