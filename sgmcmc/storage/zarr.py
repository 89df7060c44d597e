"""Rows kept on disk, in a Zarr store that xarray and ArviZ can read while the run goes on.

The store has ArviZ's layout: groups of arrays (chain, draw, ...). Readers use the consolidated metadata of the root, a
file that also holds the manifest. It is replaced atomically, after all draws that it describes have been written, so
readers see a complete store even if the writer is killed. The state of the checkpoint is written last, so it never
belongs to draws that are not shown.
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
    """Rows that a thread appends to an existing store, with at most the last two chunks of them in memory."""

    def __init__(self, path: Path, specs: Tree, stored: int, leaves: list[tf.Tensor], encode: Encode) -> None:
        """Cut off the rows after the first `stored`; `leaves` are those of the state after them.

        The specs are those of a row, {group: {name: [C, ...]}}.
        """
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
        self._all_specs = specs  # in the order of the user's names
        # In the order of the rows, by group and name.
        self._specs = {
            f"{group}/{name}": specs[group][name] for group in sorted(specs) for name in sorted(specs[group])
        }
        try:
            shown = self._opened(path, stored)
            chunks: tuple[int, ...] = self._arrays[0].chunks if self._arrays else (1, _chunk_rows(specs))
            self._n_chains, self._chunk = chunks[:2]
            self._written = stored - stored % self._chunk  # rows in finished chunks
            self._buffers = self._new_buffers()
            self._read(shown, stored)
            self._metadata, self._manifest = shown.metadata, self._begun(shown, stored)
        except Exception as error:
            raise _not_intact(path, reason(error)) from error
        self._show(stored)  # after a divergence or a kill, readers may have seen rows that are cut off here
        self._resize(stored)  # deletes their chunks, which readers no longer see

    def _opened(self, path: Path, stored: int) -> WholeStore:
        """Open the root and the arrays, checked for missing and swapped parts."""
        import zarr

        from sgmcmc.storage.store import WholeStore

        shown = WholeStore(path)
        self._root = zarr.open_group(path, mode="r+", use_consolidated=False)
        for part in (*self._all_specs, "checkpoint", *(f"checkpoint/{name}" for name in CHECKPOINT)):
            self._root[part]  # raises if its metadata cannot be read
        self._arrays: list[Any] = []
        for name, spec in self._specs.items():
            # Chunks that have only the fill value are written too: a chunk without a file counts as missing.
            array = self._root[name].with_config({"write_empty_chunks": True})
            (n_chains, n_rows, *shape), (room, chunk, *rest) = array.shape, array.chunks
            same_shape = [n_chains, *shape] == list(spec.shape) and shape == rest and n_chains <= room
            if not same_shape or array.dtype != spec.dtype.as_numpy_dtype:
                raise ValueError(f"{name} has arrays {array.dtype} {[n_chains, *shape]} in chunks of {[room, *rest]}")
            if (n_draws := min(n_rows, shown.manifest.n_draws)) < stored:
                raise ValueError(f"{name} has {n_draws} draws of {stored}")
            shown.require_chunks(name, (n_chains, stored, *shape), array.chunks, spec.dtype.size)
            self._arrays.append(array)
            if (room, chunk) != self._arrays[0].chunks[:2]:
                raise ValueError(f"{name} has chunks of {room} chains and {chunk} draws")
        return shown

    def _read(self, shown: WholeStore, stored: int) -> None:
        if stored == self._written:
            return
        import zarr

        root = zarr.open_group(shown, mode="r", use_consolidated=False)
        for (name, spec), buffer in zip(self._specs.items(), self._buffers, strict=True):
            buffer[: spec.shape[0], : stored - self._written] = root[name][:, self._written : stored]

    def _begun(self, shown: WholeStore, stored: int) -> Manifest:
        """The manifest of the first `stored` rows, and of the state after them."""
        from sgmcmc.storage.store import STATE, Manifest, last_bytes

        manifest = Manifest(stored, shown.manifest.checksums | {STATE: last_bytes(shown.root / STATE / "c" / "0")})
        for name, buffer in zip(self._specs, self._buffers, strict=True):
            manifest.end(name, buffer[:, : stored - self._written], self._written // self._chunk)
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
        """Write all rows and a checkpoint of the last finite state, and show them to readers."""
        self._begin_commit()
        self._writing.result()

    def close(self) -> None:
        try:
            self._writer.shutdown()
        finally:
            os.close(self._lock)

    def _begin_commit(self) -> None:
        begun = [buffer[:, : self.stored - self._written].copy() for buffer in self._buffers]
        self._meanwhile(self._commit, begun, self._written, self.stored, self._point, self.leaves)
        self._committed, self._at = self.stored, time.monotonic()

    def _meanwhile(self, task: Callable[..., None], *arguments: Any) -> None:
        """Run the task in the thread after the previous one, whose errors are raised here."""
        self._writing.result()
        self._writing = self._writer.submit(task, *arguments)

    def _write(self, rows: list[np.ndarray], begin: int, end: int) -> None:
        self._resize(end)
        for name, array, values in zip(self._specs, self._arrays, rows, strict=True):
            array[:, begin:end] = values[: array.shape[0], : end - begin]
            self._manifest.end(name, values[:, : end - begin], begin // self._chunk)

    def _commit(
        self, rows: list[np.ndarray], begin: int, end: int, point: tuple[int, int] | None, leaves: list[tf.Tensor]
    ) -> None:
        if end > begin:
            self._write(rows, begin, end)
        if point is None:
            return self._show(end)
        state = np.frombuffer(self._encode(*point, leaves), np.uint8)
        self._manifest.follow(state)
        self._show(end)
        self._root["checkpoint/state"][:] = state

    def _show(self, n_rows: int) -> None:
        """Show this many rows to readers, all of which have been written."""
        self._manifest.n_draws = n_rows
        for name in self._specs:
            self._metadata["consolidated_metadata"]["metadata"][name]["shape"][1] = n_rows
        self._metadata["attributes"].update(self._manifest.attributes())
        replace_root(self.path, self._metadata)

    def _new_buffers(self) -> list[np.ndarray]:
        """Buffers for the rows of a chunk, which may have room for more chains, filled as by Zarr."""
        room = (self._n_chains, self._chunk)
        return [np.full((*room, *s.shape[1:]), _fill(s), s.dtype.as_numpy_dtype) for s in self._specs.values()]

    def result(self) -> Tree:
        return read_rows(self.path, self._all_specs)

    def _resize(self, n_rows: int) -> None:
        for array in self._arrays:
            if array.shape[1] != n_rows:
                array.resize((array.shape[0], n_rows, *array.shape[2:]))


def _exclusive(path: Path) -> int:
    from sgmcmc.storage.store import NAME

    try:
        return locked(path / NAME)
    except FileNotFoundError as error:
        raise _not_intact(path, error) from error
    except BlockingIOError as error:
        raise ValueError(
            f"storage must be a store that no other run is writing; got {str(path)!r}, which another run is writing."
        ) from error


def _not_intact(path: Path, because: Any) -> ValueError:
    return ValueError(f"storage must be an intact store; got {str(path)!r} ({because}).")


def create(
    path: Path,
    specs: Tree,
    checkpoint: Mapping[str, bytes],
    settings: dict[str, Any],
    n_chains: int | None = None,
    attributes: Mapping[str, Any] | None = None,
    finish: Callable[[Path], None] | None = None,
) -> None:
    """Create a store without rows, of these specs of a row; it appears when it is complete.

    The checkpoint has the beginning and, if this store is to have rows, the first state. A chunk has room for
    `n_chains`, by default as many as the specs. `finish` is called with the path of the store before it appears.
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
        like = {"shape": values.shape, "chunks": values.shape, "dtype": values.dtype}
        dimensions = (f"byte_of_{name.rpartition('/')[2]}",)
        root.create_array(name, **like, compressors=Crc32cCodec(), dimension_names=dimensions)[:] = values
    zarr.consolidate_metadata(path)


def read_checkpoint(path: Path, *names: str) -> list[bytes]:
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
    all_specs = [spec for members in specs.values() for spec in members.values()]
    sizes = [s.shape.num_elements() // s.shape[0] * (n_chains or s.shape[0]) * s.dtype.size for s in all_specs]
    return int(np.clip(CHUNK_BYTES // max(sizes, default=1), 1, CHUNK_ROWS))


def _fill(spec: tf.TensorSpec) -> float:
    return np.nan if spec.dtype.is_floating else 0


def replace_root(path: Path, metadata: dict[str, Any]) -> None:
    from sgmcmc.storage.store import ROOT

    written = path / f"{ROOT}.partial"
    written.write_text(json.dumps(metadata), encoding="utf-8")
    written.replace(path / ROOT)


def _hush() -> None:
    """Silence a warning of Zarr in the whole process, since threads share warning filters."""
    warnings.filterwarnings("ignore", message="Consolidated metadata is currently not part")
