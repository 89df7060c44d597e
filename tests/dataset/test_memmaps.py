"""Rows of memory maps of any form are those of NumPy, at random and in order, fast or slow."""

from __future__ import annotations

import mmap
import pickle
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from sgmcmc.dataset import memmaps, on_disk
from sgmcmc.dataset.memmaps import FileRows
from sgmcmc.dataset.on_disk import Arrays
from sgmcmc.parallel.serialization import map_of, place

N = 200
X = np.arange(N * 6, dtype=np.float32).reshape(N, 6)
RECORD = np.dtype([("x", np.float32, (3,)), ("y", np.int32), ("z", np.float64)])


def saved(array: np.ndarray, path: Path, mode: str = "r") -> np.memmap:
    np.save(path / "x.npy", array)
    return np.load(path / "x.npy", mmap_mode=mode)


def records(path: Path) -> np.memmap:
    table = np.zeros(N, RECORD)
    table["x"], table["y"], table["z"] = X[:, :3], np.arange(N), -np.arange(N)
    return saved(table, path)


def raw(path: Path) -> np.memmap:
    """Without a header, from a byte on that is not aligned."""
    (path / "raw").write_bytes(b"123" + X.tobytes())
    return np.memmap(path / "raw", np.float32, "r", 3, X.shape)


IN_ROWS: dict[str, Callable[[Path], dict[str, np.ndarray]]] = {
    "an array": lambda path: {"x": saved(X, path)},
    "a vector": lambda path: {"x": saved(X[:, 0].copy(), path)},
    "a tensor": lambda path: {"x": saved(X.reshape(N, 2, 3), path)},
    "another byte order": lambda path: {"x": saved(X.astype(">f8"), path)},
    "for writing": lambda path: {"x": saved(X, path, "r+")},
    "columns": lambda path: {"x": (m := saved(X, path))[:, :5], "y": m[:, 5]},
    "the last column": lambda path: {"y": saved(X, path)[:, 5]},
    "columns backwards": lambda path: {"x": saved(X, path)[:, ::2]},
    "records": lambda path: {name: records(path)[name] for name in RECORD.names},
    "every third": lambda path: {"x": saved(X, path)[1::3]},
    "some": lambda path: {"x": saved(X, path)[17:]},
    "one": lambda path: {"x": saved(X, path)[5:6]},
    "without a header": lambda path: {"x": raw(path)},
    "the end without a header": lambda path: {"x": raw(path)[:, 1:]},
}
OTHERWISE: dict[str, Callable[[Path], dict[str, np.ndarray]]] = {
    "columns first": lambda path: {"x": saved(np.asfortranarray(X), path)},
    "from the end": lambda path: {"x": saved(X, path)[::-1]},
    "changes of its own": lambda path: {"x": changed(path)},
    "in memory": lambda path: {"x": X},
    "repeated": lambda path: {"x": np.broadcast_to(saved(X, path)[0], X.shape)},
}


def changed(path: Path) -> np.memmap:
    rows = saved(X, path, "c")
    rows[7] = -1.0
    return rows


def check(source: Arrays, arrays: dict[str, np.ndarray]) -> None:
    n = len(next(iter(arrays.values())))
    indices = np.random.default_rng(0).integers(0, n, 3 * n)
    for at, found in [
        (indices, source.take(indices)),
        (slice(n // 2, n), source.part(n // 2, n)),
        (slice(0, n), source.part(0, n)),
    ]:
        assert found.keys() == arrays.keys()
        for name, array in arrays.items():
            assert found[name].shape == array[at].shape and np.array_equal(found[name], array[at])


@pytest.mark.parametrize("what", [*IN_ROWS, *OTHERWISE])
def test_rows_are_those_of_numpy(what: str, tmp_path: Path) -> None:
    arrays = (IN_ROWS | OTHERWISE)[what](tmp_path)
    source = Arrays(arrays)
    assert [type(reader) for reader in source._readers] == [FileRows if what in IN_ROWS else on_disk.OtherArrays]
    check(source, arrays)


def test_they_are_the_same_by_many_threads_and_from_a_file_that_does_not_fit_into_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = []
    monkeypatch.setattr(memmaps, "WORTH", 1)
    monkeypatch.setattr(memmaps.psutil, "virtual_memory", lambda: SimpleNamespace(available=1000))
    monkeypatch.setattr(memmaps, "map_of", lambda array: SimpleNamespace(madvise=told.append))
    arrays = IN_ROWS["records"](tmp_path)
    source = Arrays(arrays)
    for is_slow in (True, False):
        (rows,) = source._readers
        assert isinstance(rows, FileRows)
        rows._is_slow = is_slow
        check(source, arrays)
    assert told == [mmap.MADV_RANDOM]


def test_a_slow_disk_is_noticed_and_memory_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (rows,) = Arrays(IN_ROWS["an array"](tmp_path))._readers
    assert isinstance(rows, FileRows) and rows._is_slow
    clock = iter([0.0, 1e-9, 0.0, 1.0])
    monkeypatch.setattr(memmaps.time, "perf_counter", lambda: next(clock))
    rows.take(np.arange(10))
    assert not rows._is_slow
    rows.take(np.arange(10))
    assert rows._is_slow


def test_a_row_that_holds_several_entries_is_read_once(tmp_path: Path) -> None:
    assert len(Arrays(IN_ROWS["records"](tmp_path))._readers) == 1
    np.save(tmp_path / "other.npy", X)
    other = np.load(tmp_path / "other.npy", mmap_mode="r")
    assert len(Arrays(IN_ROWS["columns"](tmp_path) | {"other": other, "in memory": X})._readers) == 3


def test_what_is_written_later_is_seen(tmp_path: Path) -> None:
    rows = saved(X, tmp_path, "r+")
    source = Arrays({"x": rows})
    rows[3] = -5.0
    assert (source.take(np.array([3]))["x"] == -5).all() and (source.part(3, 4)["x"] == -5).all()


@pytest.mark.parametrize("what", ["replaced", "deleted"])
def test_a_file_that_is_not_there_any_more_is_not_read_again(what: str, tmp_path: Path) -> None:
    rows = saved(X, tmp_path)
    assert place(rows) is not None
    if what == "replaced":
        np.save(tmp_path / "other.npy", X + 1)
        (tmp_path / "other.npy").replace(tmp_path / "x.npy")
    else:
        (tmp_path / "x.npy").unlink()
    assert place(rows) is None
    check(Arrays({"x": rows}), {"x": X})


def test_a_file_that_becomes_shorter_is_named(tmp_path: Path) -> None:
    source = Arrays(IN_ROWS["an array"](tmp_path))
    with (tmp_path / "x.npy").open("r+b") as file:
        file.truncate(1000)
    with pytest.raises(OSError, match=r"x.npy' has become shorter: it ends before observation 199"):
        source.part(0, N)


def test_it_travels_by_its_place(tmp_path: Path) -> None:
    arrays = IN_ROWS["columns"](tmp_path)
    contents = pickle.dumps(Arrays(arrays))
    assert len(contents) < 1000
    check(pickle.loads(contents), arrays)


def test_only_maps_are_maps(tmp_path: Path) -> None:
    assert isinstance(map_of(saved(X, tmp_path)), mmap.mmap) and map_of(X) is None
