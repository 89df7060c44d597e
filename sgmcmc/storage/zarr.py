"""Rows kept on disk, in a Zarr store that xarray and ArviZ can read while the run goes on.

The store has ArviZ's layout: groups `posterior` and `sample_stats` (and `gradients`) of
arrays (chain, draw, ...). Readers use the consolidated metadata of the root. This one
file is replaced atomically, after everything that it describes has been written. So
readers always see a complete store, even if the writer is killed.
"""

from __future__ import annotations

import os
import shutil
import time
import uuid
import warnings
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from sgmcmc.core.errors import reason
from sgmcmc.core.layout import dimension_names
from sgmcmc.core.types import Tree
from sgmcmc.storage.lock import locked

CHUNK_BYTES = 2**24
CHUNK_ROWS = 2**16
COMMIT_SECONDS = 5.0

CHECKPOINT = ("state", "beginning", "name")

Encode = Callable[[int, int, list[tf.Tensor]], bytes]
"""(iteration, number of stored rows, leaves of the state) -> a checkpoint."""


class ZarrStore:
    """Rows that a thread appends to a store.

    At most the last two chunks of them are in memory.

    Parameters
    ----------
    path : Path
        The path of an existing store, see `create`.
    specs : {group: {name: tf.TensorSpec [C, ...]}}
        The arrays of one row.
    stored : int
        How many rows of the store to keep; later rows are cut off.
    leaves : list of tf.Tensor
        The leaves of the state after these rows.
    encode : callable
        The function that encodes a checkpoint.
    """

    def __init__(self, path: Path, specs: Tree, stored: int, leaves: list[tf.Tensor], encode: Encode) -> None:
        _hush()
        self._lock = _exclusive(path)
        try:
            self._begin(path, specs, stored)
        except BaseException:
            os.close(self._lock)
            raise
        self.path, self.stored, self.leaves, self._encode = path, stored, leaves, encode
        self._point: tuple[int, int] | None = None  # iteration and rows of `leaves`, once they have moved
        self._committed, self._at = stored, time.monotonic()
        self._writer, self._writing = ThreadPoolExecutor(1), Future[None]()
        self._writing.set_result(None)

    def _begin(self, path: Path, specs: Tree, stored: int) -> None:
        for leftover in path.rglob("*.partial"):  # files that Zarr was writing when a run was killed
            if leftover.is_file():
                leftover.unlink()
        self._specs = [
            (group, name, members[name]) for group, members in sorted(specs.items()) for name in sorted(members)
        ]  # in the order of the rows
        self._names = [
            (group, name) for group, members in specs.items() for name in members
        ]  # in the order of the user's names
        try:
            self._root, self._arrays = self._opened(path, stored)
            self._chunk = self._arrays[0].chunks[1] if self._arrays else _chunk_rows(specs)
            self._written = stored - stored % self._chunk  # rows in finished chunks
            self._buffers = self._new_buffers()
            self._read(path, stored)
        except Exception as error:
            raise ValueError(f"storage must be an intact store; got {str(path)!r} ({reason(error)}).") from error
        self._resize(stored)
        _consolidate(path)  # after a divergence, readers have seen rows that are cut off here

    def _opened(self, path: Path, stored: int) -> tuple[Any, list[Any]]:
        """The root and the arrays to write to, checked for missing parts."""
        import zarr

        from sgmcmc.core.store import require_chunks, require_format

        root = zarr.open_group(path, mode="r+", use_consolidated=False)
        require_format(root.attrs.asdict())
        for name in (
            *{group for group, *_ in self._specs},
            "checkpoint",
            *(f"checkpoint/{name}" for name in CHECKPOINT),
        ):
            root[name]  # raises if its metadata cannot be read
        arrays = []
        for group, name, spec in self._specs:
            # Chunks that have only the fill value are written too: a chunk without a file counts as missing.
            array = root[f"{group}/{name}"].with_config({"write_empty_chunks": True})
            shape, chunks = list(array.shape), list(array.chunks)
            n_rows, chunk = shape.pop(1), chunks.pop(1)
            if not shape == chunks == list(spec.shape) or array.dtype != spec.dtype.as_numpy_dtype:
                raise ValueError(f"{group}/{name} has arrays {array.dtype} {shape} in chunks of {chunks}")
            if n_rows < stored:
                raise ValueError(f"{group}/{name} has {n_rows} draws of {stored}")
            require_chunks(path, f"{group}/{name}", (shape[0], stored, *shape[1:]), array.chunks, spec.dtype.size)
            arrays.append(array)
            if chunk != arrays[0].chunks[1]:
                raise ValueError(f"{group}/{name} has chunks of {chunk} draws")
        return root, arrays

    def _read(self, path: Path, stored: int) -> None:
        """Read the rows of the last, incomplete chunk into the buffers."""
        if stored == self._written:
            return
        import zarr

        from sgmcmc.core.store import WholeStore

        root = zarr.open_group(WholeStore(path), mode="r", use_consolidated=False)
        for (group, name, _), buffer in zip(self._specs, self._buffers, strict=True):
            buffer[:, : stored - self._written] = root[f"{group}/{name}"][:, self._written : stored]

    def append(self, rows: list[np.ndarray], count: int) -> None:
        """Store the first `count` rows, [>= count, C, ...], by group and name."""
        taken = 0
        while taken < count:
            begin = self.stored - self._written
            n = min(self._chunk - begin, count - taken)
            for row, buffer in zip(rows, self._buffers, strict=True):
                buffer[:, begin : begin + n] = row[taken : taken + n].swapaxes(0, 1)
            taken, self.stored = taken + n, self.stored + n
            if self.stored - self._written == self._chunk:
                self._meanwhile(self._write, self._buffers, self._written, self.stored)
                self._written, self._buffers = self.stored, self._new_buffers()

    def reached(self, iteration: int, leaves: list[tf.Tensor]) -> None:
        """Commit if a chunk is complete, or COMMIT_SECONDS after the last commit."""
        self._point, self.leaves = (iteration, self.stored), leaves
        if self._written > self._committed or time.monotonic() - self._at > COMMIT_SECONDS:
            self._begin_commit()

    def commit(self) -> None:
        """Write all rows and a checkpoint of the last finite state.

        Then show them to readers.
        """
        self._begin_commit()
        self._writing.result()

    def close(self) -> None:
        """End the thread, and release the lock."""
        try:
            self._writer.shutdown()
        finally:
            os.close(self._lock)

    def _begin_commit(self) -> None:
        begun = [buffer[:, : self.stored - self._written].copy() for buffer in self._buffers]
        self._meanwhile(self._commit, begun, self._written, self.stored, self._point, self.leaves)
        self._committed, self._at = self.stored, time.monotonic()

    def _meanwhile(self, task: Callable[..., None], *arguments: Any) -> None:
        """Run the task in the thread after the previous one.

        Errors of that one are raised here.
        """
        self._writing.result()
        self._writing = self._writer.submit(task, *arguments)

    def _write(self, rows: list[np.ndarray], begin: int, end: int) -> None:
        self._resize(end)
        for array, values in zip(self._arrays, rows, strict=True):
            array[:, begin:end] = values[:, : end - begin]

    def _commit(
        self, rows: list[np.ndarray], begin: int, end: int, point: tuple[int, int] | None, leaves: list[tf.Tensor]
    ) -> None:
        if end > begin:
            self._write(rows, begin, end)
        if point is not None:
            self._root["checkpoint/state"][:] = np.frombuffer(self._encode(*point, leaves), np.uint8)
        _consolidate(self.path)

    def _new_buffers(self) -> list[np.ndarray]:
        return [np.empty(_chunk_shape(spec, self._chunk), spec.dtype.as_numpy_dtype) for *_, spec in self._specs]

    def result(self) -> Tree:
        """The rows that readers see, {group: {name: [C, stored, ...]}}, read on use."""
        from sgmcmc.core.store import open_draws

        tree = open_draws(self.path)
        result: Tree = {}
        for group, name in self._names:
            result.setdefault(group, {})[name] = tree[group][name]
        return result

    def _resize(self, n_rows: int) -> None:
        for array in self._arrays:
            if array.shape[1] != n_rows:
                array.resize((array.shape[0], n_rows, *array.shape[2:]))


def _exclusive(path: Path) -> int:
    """The lock on a store."""
    from sgmcmc.core.store import NAME

    try:
        return locked(path / NAME)
    except FileNotFoundError as error:
        raise ValueError(f"storage must be an intact store; got {str(path)!r} ({error}).") from error
    except BlockingIOError as error:
        raise ValueError(
            f"storage must be a store that no other run is writing; got {str(path)!r}, which another run is writing."
        ) from error


def create(path: Path, specs: Tree, state: bytes, beginning: bytes, settings: dict[str, Any]) -> None:
    """Create a store without rows, with a first checkpoint and the beginning.

    It appears when it is complete.
    """
    _hush()
    building = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        _create(building, specs, dict(zip(CHECKPOINT, (state, beginning, uuid.uuid4().bytes), strict=True)), settings)
        building.rename(path)
    except BaseException:
        shutil.rmtree(building, ignore_errors=True)
        raise


def _create(path: Path, specs: Tree, checkpoint: dict[str, bytes], settings: dict[str, Any]) -> None:
    import zarr
    from zarr.codecs import Crc32cCodec

    from sgmcmc.core.store import FORMAT

    root = zarr.create_group(path, overwrite=True, attributes={"format": FORMAT, "settings": settings})
    rows = _chunk_rows(specs)
    for group, members in specs.items():
        parent = root.create_group(group)
        for name, spec in members.items():
            parent.create_array(
                name,
                shape=(spec.shape[0], 0, *spec.shape[1:]),
                chunks=_chunk_shape(spec, rows),
                dtype=spec.dtype.as_numpy_dtype,
                compressors=Crc32cCodec(),  # a checksum; noise does not compress
                fill_value=np.nan if spec.dtype.is_floating else 0,
                dimension_names=dimension_names(group, name, spec.shape.rank + 1, members),
            )
    parent = root.create_group("checkpoint")
    for name, contents in checkpoint.items():
        values = np.frombuffer(contents, np.uint8)
        array = parent.create_array(
            name,
            shape=values.shape,
            chunks=values.shape,
            dtype=values.dtype,
            compressors=Crc32cCodec(),
            dimension_names=(f"byte_of_{name}",),
        )
        array[:] = values
    _consolidate(path)


def read_checkpoint(path: Path) -> tuple[bytes, bytes]:
    """The state of the last commit, and the beginning, as bytes."""
    import zarr

    from sgmcmc.core.store import WholeStore

    group = zarr.open_group(WholeStore(path), path="checkpoint", mode="r", use_consolidated=False)
    state, beginning = (np.asarray(group[name][:]).tobytes() for name in ("state", "beginning"))
    return state, beginning


def _chunk_rows(specs: Tree) -> int:
    sizes = [s.shape.num_elements() * s.dtype.size for members in specs.values() for s in members.values()]
    row_bytes = max(sizes, default=1)
    return int(np.clip(CHUNK_BYTES // row_bytes, 1, CHUNK_ROWS))


def _chunk_shape(spec: tf.TensorSpec, rows: int) -> tuple[int, ...]:
    return (spec.shape[0], rows, *spec.shape[1:])


def _consolidate(path: Path) -> None:
    import zarr

    zarr.consolidate_metadata(path)


def _hush() -> None:
    """Silence the warning that consolidated metadata are not in Zarr's specification.

    This is for the whole process, since threads share the filters of warnings.
    """
    warnings.filterwarnings("ignore", message="Consolidated metadata is currently not part")
