"""Rows kept on disk, in a Zarr store that xarray and ArviZ can read while the run goes on.

The store has ArviZ's layout: groups `posterior` and `sample_stats` (and `gradients`) of
arrays (chain, draw, ...). Readers use the consolidated metadata of the root. This one
file is replaced atomically, after all draws that it describes have been written. So
readers always see a complete store, even if the writer is killed. It also holds the
manifest. The state of the checkpoint is written last, so it never belongs to draws that
are not shown.
"""

from __future__ import annotations

import json
import os
import shutil
import time
import uuid
import warnings
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from sgmcmc.core.errors import reason
from sgmcmc.core.files import locked
from sgmcmc.core.trees import Tree
from sgmcmc.storage import dimension_names

if TYPE_CHECKING:
    from sgmcmc.storage.store import Manifest, WholeStore


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
        self.path, self._lock = path, _exclusive(path)
        try:
            self._begin(path, specs, stored)
        except BaseException:
            os.close(self._lock)
            raise
        self.stored, self.leaves, self._encode = stored, leaves, encode
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
        self._all_specs = specs  # in the order of the user's names
        try:
            shown = self._opened(path, stored)
            chunks: tuple[int, ...] = self._arrays[0].chunks if self._arrays else (1, _chunk_rows(specs))
            self._n_chains, self._chunk = chunks[:2]
            self._written = stored - stored % self._chunk  # rows in finished chunks
            self._buffers = self._new_buffers()
            self._read(shown, stored)
            self._metadata, self._manifest = shown.metadata, self._begun(shown, stored)
        except Exception as error:
            raise ValueError(f"storage must be an intact store; got {str(path)!r} ({reason(error)}).") from error
        self._show(stored)  # after a divergence or a kill, readers may have seen rows that are cut off here
        self._resize(stored)  # deletes their chunks, which readers no longer see

    def _opened(self, path: Path, stored: int) -> WholeStore:
        """Open the root and the arrays, checked for missing and swapped parts."""
        import zarr

        from sgmcmc.storage.store import WholeStore

        shown = WholeStore(path)
        self._root = zarr.open_group(path, mode="r+", use_consolidated=False)
        for name in (
            *{group for group, *_ in self._specs},
            "checkpoint",
            *(f"checkpoint/{name}" for name in CHECKPOINT),
        ):
            self._root[name]  # raises if its metadata cannot be read
        self._arrays: list[Any] = []
        for group, name, spec in self._specs:
            # Chunks that have only the fill value are written too: a chunk without a file counts as missing.
            array = self._root[f"{group}/{name}"].with_config({"write_empty_chunks": True})
            shape, chunks = list(array.shape), list(array.chunks)
            n_rows, chunk = shape.pop(1), chunks.pop(1)
            if (
                not (shape == list(spec.shape) and shape[1:] == chunks[1:] and shape[0] <= chunks[0])
                or array.dtype != spec.dtype.as_numpy_dtype
            ):
                raise ValueError(f"{group}/{name} has arrays {array.dtype} {shape} in chunks of {chunks}")
            if min(n_rows, shown.manifest.n_draws) < stored:
                raise ValueError(f"{group}/{name} has {min(n_rows, shown.manifest.n_draws)} draws of {stored}")
            shown.require_chunks(f"{group}/{name}", (shape[0], stored, *shape[1:]), array.chunks, spec.dtype.size)
            self._arrays.append(array)
            if (chunks[0], chunk) != self._arrays[0].chunks[:2]:
                raise ValueError(f"{group}/{name} has chunks of {chunks[0]} chains and {chunk} draws")
        return shown

    def _read(self, shown: WholeStore, stored: int) -> None:
        """Read the rows of the last, incomplete chunk into the buffers."""
        if stored == self._written:
            return
        import zarr

        root = zarr.open_group(shown, mode="r", use_consolidated=False)
        for (group, name, spec), buffer in zip(self._specs, self._buffers, strict=True):
            buffer[: spec.shape[0], : stored - self._written] = root[f"{group}/{name}"][:, self._written : stored]

    def _begun(self, shown: WholeStore, stored: int) -> Manifest:
        """The manifest of the first `stored` rows, and of the state after them."""
        from sgmcmc.storage.store import STATE, Manifest, last_bytes

        manifest = Manifest(stored, shown.manifest.checksums | {STATE: last_bytes(shown.root / STATE / "c" / "0")})
        for (group, name, _), buffer in zip(self._specs, self._buffers, strict=True):
            manifest.end(f"{group}/{name}", buffer[:, : stored - self._written], self._written // self._chunk)
        return manifest

    def append(self, rows: list[np.ndarray], count: int) -> None:
        """Store the first `count` rows, [>= count, C, ...], by group and name."""
        taken = 0
        while taken < count:
            begin = self.stored - self._written
            n = min(self._chunk - begin, count - taken)
            for row, buffer in zip(rows, self._buffers, strict=True):
                buffer[: row.shape[1], begin : begin + n] = row[taken : taken + n].swapaxes(0, 1)
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
        for (group, name, _), array, values in zip(self._specs, self._arrays, rows, strict=True):
            array[:, begin:end] = values[: array.shape[0], : end - begin]
            self._manifest.end(f"{group}/{name}", values[:, : end - begin], begin // self._chunk)

    def _commit(
        self, rows: list[np.ndarray], begin: int, end: int, point: tuple[int, int] | None, leaves: list[tf.Tensor]
    ) -> None:
        if end > begin:
            self._write(rows, begin, end)
        state = None if point is None else np.frombuffer(self._encode(*point, leaves), np.uint8)
        if state is not None:
            self._manifest.follow(state)
        self._show(end)
        if state is not None:
            self._root["checkpoint/state"][:] = state

    def _show(self, n_rows: int) -> None:
        """Show this many rows to readers, all of which have been written."""
        self._manifest.n_draws = n_rows
        for group, name, _ in self._specs:
            self._metadata["consolidated_metadata"]["metadata"][f"{group}/{name}"]["shape"][1] = n_rows
        self._metadata["attributes"].update(self._manifest.attributes())
        replace_root(self.path, self._metadata)

    def _new_buffers(self) -> list[np.ndarray]:
        """Buffers for the rows of a chunk, which may have room for more chains, filled as by Zarr."""
        return [
            np.full((self._n_chains, self._chunk, *spec.shape[1:]), _fill(spec), spec.dtype.as_numpy_dtype)
            for *_, spec in self._specs
        ]

    def result(self) -> Tree:
        """The rows that readers see, {group: {name: [C, stored, ...]}}, read on use."""
        return read_rows(self.path, self._all_specs)

    def _resize(self, n_rows: int) -> None:
        for array in self._arrays:
            if array.shape[1] != n_rows:
                array.resize((array.shape[0], n_rows, *array.shape[2:]))


def _exclusive(path: Path) -> int:
    """The lock on a store."""
    from sgmcmc.storage.store import NAME

    try:
        return locked(path / NAME)
    except FileNotFoundError as error:
        raise ValueError(f"storage must be an intact store; got {str(path)!r} ({error}).") from error
    except BlockingIOError as error:
        raise ValueError(
            f"storage must be a store that no other run is writing; got {str(path)!r}, which another run is writing."
        ) from error


def create(
    path: Path,
    specs: Tree,
    checkpoint: Mapping[str, bytes],
    settings: dict[str, Any],
    n_chains: int | None = None,
    attributes: Mapping[str, Any] | None = None,
    finish: Callable[[Path], None] | None = None,
) -> None:
    """Create a store without rows; it appears when it is complete.

    Parameters
    ----------
    path : Path
    specs : {group: {name: tf.TensorSpec [C, ...]}}
        The arrays of one row.
    checkpoint : mapping of str to bytes
        The first state, if this store is to have rows, and the beginning.
    settings : dict
        The settings of the run.
    n_chains : int, optional
        The number of chains in a chunk, C or more; by default C.
    attributes : mapping, optional
        Further attributes of the root.
    finish : callable, optional
        Called with the path of the store before it appears.
    """
    _hush()
    building = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        _create(building, specs, {**checkpoint, "name": uuid.uuid4().bytes}, settings, n_chains, attributes or {})
        if finish is not None:
            finish(building)
        building.rename(path)
    except BaseException:
        shutil.rmtree(building, ignore_errors=True)
        raise


def _create(
    path: Path,
    specs: Tree,
    checkpoint: Mapping[str, bytes],
    settings: dict[str, Any],
    n_chains: int | None,
    others: Mapping[str, Any],
) -> None:
    import zarr
    from zarr.codecs import Crc32cCodec

    from sgmcmc.storage.store import FORMAT, Manifest, checksum

    arrays = {f"checkpoint/{name}": np.frombuffer(contents, np.uint8) for name, contents in checkpoint.items()}
    manifest = Manifest(0, {name: checksum(values) for name, values in arrays.items()})
    attributes = {"format": FORMAT, "settings": settings} | manifest.attributes() | dict(others)
    root = zarr.create_group(path, overwrite=True, attributes=attributes)
    rows = _chunk_rows(specs, n_chains)
    for group, members in specs.items():
        parent = root.create_group(group)
        for name, spec in members.items():
            parent.create_array(
                name,
                shape=(spec.shape[0], 0, *spec.shape[1:]),
                chunks=(n_chains or spec.shape[0], rows, *spec.shape[1:]),
                dtype=spec.dtype.as_numpy_dtype,
                compressors=Crc32cCodec(),  # a checksum; noise does not compress
                fill_value=_fill(spec),
                dimension_names=dimension_names(group, name, spec.shape.rank + 1, members),
            )
    root.create_group("checkpoint")
    for name, values in arrays.items():
        array = root.create_array(
            name,
            shape=values.shape,
            chunks=values.shape,
            dtype=values.dtype,
            compressors=Crc32cCodec(),
            dimension_names=(f"byte_of_{name.rpartition('/')[2]}",),
        )
        array[:] = values
    zarr.consolidate_metadata(path)


def read_checkpoint(path: Path, *names: str) -> list[bytes]:
    """The state of the last commit, or the beginning, as bytes."""
    import zarr

    from sgmcmc.storage.store import WholeStore

    group = zarr.open_group(WholeStore(path), path="checkpoint", mode="r", use_consolidated=False)
    return [np.asarray(group[name][:]).tobytes() for name in names]


def read_rows(path: Path, specs: Tree) -> Tree:
    """The rows that readers see, {group: {name: [C, stored, ...]}}, in the order of these specs, read on use."""
    from sgmcmc.storage.store import open_draws

    tree = open_draws(path)
    return {group: {name: tree[group][name] for name in members} for group, members in specs.items()}


def _chunk_rows(specs: Tree, n_chains: int | None = None) -> int:
    """The number of rows of a chunk of `n_chains` chains, by default those of `specs`."""
    sizes = [
        s.shape.num_elements() // s.shape[0] * (n_chains or s.shape[0]) * s.dtype.size
        for members in specs.values()
        for s in members.values()
    ]
    row_bytes = max(sizes, default=1)
    return int(np.clip(CHUNK_BYTES // row_bytes, 1, CHUNK_ROWS))


def _fill(spec: tf.TensorSpec) -> float:
    return np.nan if spec.dtype.is_floating else 0


def replace_root(path: Path, metadata: dict[str, Any]) -> None:
    """Replace the metadata of the root, at once."""
    from sgmcmc.storage.store import ROOT

    written = path / f"{ROOT}.partial"
    written.write_text(json.dumps(metadata), encoding="utf-8")
    written.replace(path / ROOT)


def _hush() -> None:
    """Silence the warning that consolidated metadata are not in Zarr's specification.

    This applies to the whole process, since threads share warning filters.
    """
    warnings.filterwarnings("ignore", message="Consolidated metadata is currently not part")
