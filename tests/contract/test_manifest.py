"""Chunks that are as they were written, but in another place or at another time: an error that names the file.

It uses the inside of the package: it interrupts a run between two writes.
"""

from __future__ import annotations

import itertools
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import xarray as xr

import sgmcmc
from sgmcmc import run as plan
from sgmcmc.run.loop import Loop
from sgmcmc.storage import zarr as storage
from sgmcmc.storage.store import ROOT
from tests.contract.test_damage import assert_equal, contents_of, read_all
from tests.contract.test_storage import Tree, checkpoint, run

ROWS = 20
KEPT: Tree = {
    "nChains": 2,
    "collect": lambda params: params | {"last": params["theta"][..., 1], "twice": 2 * params["theta"]},
}
STATE = Path("checkpoint/state/c/0")
OTHER = r"its checksum is not the one in 'zarr\.json'"


@pytest.fixture(scope="module")
def whole() -> sgmcmc.Draws:
    return run("sgld", 90, **KEPT)


@pytest.fixture(autouse=True)
def few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small chunks, and a commit at the end alone."""
    monkeypatch.setattr(storage, "CHUNK_ROWS", ROWS)
    monkeypatch.setattr(storage, "COMMIT_SECONDS", 1e9)


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Of two seeds, with two full chunks and half a chunk."""
    paths = [tmp_path_factory.mktemp(f"seed{seed}") / "run.zarr" for seed in (11, 12)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(storage, "CHUNK_ROWS", ROWS)
        for path, seed in zip(paths, (11, 12), strict=True):
            run("sgld", 50, storage=path, seed=seed, **KEPT)
    return paths


@pytest.fixture
def path(stores: list[Path], tmp_path: Path) -> Path:
    return Path(shutil.copytree(stores[0], tmp_path / "run.zarr"))


def resumed(path: Path, n_iterations: int = 90) -> sgmcmc.Draws:
    return run("sgld", n_iterations, storage=path, resume=True, **KEPT)


def chunks(path: Path) -> list[Path]:
    """The files with draws, from `path`."""
    files = [file.relative_to(path) for group in ("posterior", "sample_stats") for file in (path / group).rglob("*")]
    return sorted(file for file in files if file.name.isdigit() and (path / file).is_file())


def assert_refused_when_read(path: Path, *files: Path) -> None:
    with pytest.raises((OSError, ValueError), match=OTHER) as unread:
        read_all(sgmcmc.Draws.load(path))
    assert any(repr(str(path / file)) in str(unread.value) for file in files)


def assert_refused(path: Path, *files: Path, n_iterations: int = 90) -> None:
    """By a run that goes on, which changes nothing."""
    before = contents_of(path)
    with pytest.raises(ValueError, match=OTHER) as refused:
        resumed(path, n_iterations)
    assert any(repr(str(path / file)) in str(refused.value) for file in files)
    assert contents_of(path) == before


def test_swapped_chunks_are_refused(path: Path) -> None:
    """Within an array and between arrays; in draws that are loaded, in those at hand, and in a run that goes on."""
    at_hand, sound = sgmcmc.Draws.load(path), {file: (path / file).read_bytes() for file in chunks(path)}
    pairs = [
        (one, other) for one, other in itertools.combinations(sound, 2)
        if sound[one] != sound[other] and len(sound[one]) == len(sound[other])
    ]  # fmt: skip
    within = sum(one.parts[:2] == other.parts[:2] for one, other in pairs)
    assert within > 10 and len(pairs) - within > 30
    for number, (one, other) in enumerate(pairs):
        (path / one).write_bytes(sound[other])
        (path / other).write_bytes(sound[one])
        assert_refused_when_read(path, one, other)
        with pytest.raises(OSError, match=OTHER):
            read_all(at_hand)
        if one.parts[:2] == other.parts[:2] or number % 4 == 0:
            assert_refused(path, one, other)
        (path / one).write_bytes(sound[one])
        (path / other).write_bytes(sound[other])
    read_all(at_hand)


def test_files_of_another_store_are_refused(stores: list[Path], path: Path, whole: sgmcmc.Draws) -> None:
    files = [file.relative_to(path) for file in path.rglob("*") if file.is_file()]
    differ = [file for file in files if (path / file).read_bytes() != (stores[1] / file).read_bytes()]
    of_draws = [file for file in chunks(path) if file in differ]
    others = [Path("checkpoint") / name / "c" / "0" for name in storage.CHECKPOINT] + [Path(ROOT)]
    assert len(of_draws) > 12 and set(differ) == {*of_draws, *others}
    for number, file in enumerate(differ):
        sound = (path / file).read_bytes()
        shutil.copy(stores[1] / file, path / file)
        named = file if file != Path(ROOT) else others[2]
        if file in of_draws or named == others[2]:
            assert_refused_when_read(path, named)
        if file not in of_draws or number % 4 == 0:
            assert_refused(path, named)
        (path / file).write_bytes(sound)
    assert_equal(resumed(path), whole)


def test_an_older_last_chunk_is_refused(stores: list[Path], path: Path) -> None:
    resumed(path, 55)
    (last,) = (file for file in chunks(path) if file.match("theta/c/0/2/0"))
    shutil.copy(stores[0] / last, path / last)
    assert_refused_when_read(path, last)
    assert_refused(path, last)


def test_chunks_of_another_history_are_refused(stores: list[Path], path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a copy of the same store that went on to other draws; its checkpoint is refused too."""
    copy = Path(shutil.copytree(path, path.with_name("copy.zarr")))
    advance = Loop.advance

    def otherwise(self: Loop, leaves: list[tf.Tensor], stretch: Any) -> Any:
        out = advance(self, leaves, stretch)
        return out._replace(
            rows=[row * 1.5 for row in out.rows],
            leaves=[leaf * 1.01 if leaf.dtype.is_floating else leaf for leaf in out.leaves],
        )

    with monkeypatch.context() as patch:
        patch.setattr(Loop, "advance", otherwise)
        resumed(copy, 70)
    read_all(sgmcmc.Draws.load(copy))
    resumed(path, 70)
    begin = [Path("posterior/theta/c/0/0/0"), Path("posterior/theta/c/0/1/0")]  # which both have
    assert all((path / file).read_bytes() == (copy / file).read_bytes() for file in begin)
    for file in (Path("posterior/theta/c/0/2/0"), Path("posterior/last/c/0/2"), Path("posterior/theta/c/0/3/0"), STATE):
        sound = (path / file).read_bytes()
        (path / file).write_bytes((copy / file).read_bytes())
        if file != STATE:
            assert_refused_when_read(path, file)
        assert_refused(path, file)
        (path / file).write_bytes(sound)
    read_all(sgmcmc.Draws.load(path))


def test_a_checkpoint_of_another_time_is_refused(stores: list[Path], path: Path, whole: sgmcmc.Draws) -> None:
    """An older one, and a newer one of draws that are not there."""
    older = (path / STATE).read_bytes()
    for n_iterations in (55, 70):
        resumed(path, n_iterations)
    newer = (path / STATE).read_bytes()
    (path / STATE).write_bytes(older)
    assert_refused(path, STATE)
    (path / STATE).write_bytes(newer)
    before = Path(shutil.copytree(stores[0], path.with_name("before.zarr")))
    (before / STATE).write_bytes(newer)
    assert_refused(before, STATE)
    for one in (path, before):
        assert_equal(sgmcmc.Draws.load(one), whole)
    assert_equal(resumed(path), whole)


# --- a run that is killed -----------------------------------------------------------------------------------------


@contextmanager
def before_each_write(path: Path, folder: Path) -> Iterator[list[Path]]:
    """Copies of a store, each as a run would leave it that is killed before it replaces or deletes its next file."""
    copies: list[Path] = []
    lock, originals = threading.Lock(), {name: getattr(Path, name) for name in ("replace", "unlink")}

    def copied(name: str) -> Any:
        def changed(self: Path, *args: Any, **kwargs: Any) -> Any:
            with lock:
                if path in self.parents:
                    copies.append(shutil.copytree(path, folder / f"{len(copies)}.zarr"))
                return originals[name](self, *args, **kwargs)

        return changed

    with pytest.MonkeyPatch.context() as patch:
        for name in originals:
            patch.setattr(Path, name, copied(name))
        patch.setattr(plan, "STRETCH_SECONDS", 1e-9)  # an iteration each
        patch.setattr(storage, "COMMIT_SECONDS", -1.0)
        patch.setattr(storage, "CHUNK_ROWS", 2)
        yield copies


def lengths(path: Path) -> tuple[int, int]:
    """How many draws are shown, and how many there were at the checkpoint."""
    return len(sgmcmc.Draws.load(path).iterations), checkpoint(path).stored


def assert_whole(path: Path, whole: sgmcmc.Draws) -> None:
    assert_equal(sgmcmc.Draws.load(path), whole)
    with xr.open_datatree(path, engine="zarr") as tree:
        np.testing.assert_array_equal(tree["posterior/theta"], whole["theta"][:, : tree["posterior"].sizes["draw"]])


def test_a_run_killed_before_any_write_leaves_a_whole_store(tmp_path: Path, whole: sgmcmc.Draws) -> None:
    """Also one that goes on, and cuts off draws that were shown."""

    def made(path: Path, n_iterations: int) -> sgmcmc.Draws:
        return run("sgld", n_iterations, storage=path, resume=True, nChains=2)

    path = tmp_path / "run.zarr"
    with before_each_write(path, tmp_path / "first") as copies:
        made(path, 5)
    found = [lengths(copy) for copy in copies]
    assert {0, 1} == {shown - stored for shown, stored in found} and found == sorted(found)

    ahead = copies[found.index((5, 4))]  # the fifth draw is in a chunk of its own
    with before_each_write(ahead, tmp_path / "second") as more:
        made(ahead, 5)
    assert lengths(more[0]) == (5, 4) and (4, 4) in {lengths(copy) for copy in more}
    assert len(copies) > 40 and len(more) > 15
    for copy in (*copies, *more):
        assert_whole(copy, whole)
    for copy in (*copies[:: len(copies) // 3], more[-1]):
        assert_equal(made(copy, 7), whole)


def test_a_chunk_may_be_newer_than_what_readers_are_shown(stores: list[Path], path: Path, whole: sgmcmc.Draws) -> None:
    """As a run leaves it that is killed before it replaces the metadata."""
    resumed(path, 55)
    newer = [file for file in chunks(path) if (path / file).read_bytes() != (stores[0] / file).read_bytes()]
    assert len(newer) > 4
    for file in (Path(ROOT), STATE):
        shutil.copy(stores[0] / file, path / file)
    loaded = sgmcmc.Draws.load(path)
    assert len(loaded.iterations) == 50
    assert_equal(loaded, whole)
    assert_equal(resumed(path), whole)
    assert_equal(loaded, whole)
