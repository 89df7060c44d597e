"""Draws, stores and sessions of which something is missing, damaged or another's: an error that names it.

It uses the inside of the package: it damages stores and checkpoints at chosen places.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import sgmcmc
from sgmcmc.core.files import locked
from sgmcmc.run import checkpoint as checkpoint_module
from sgmcmc.run.checkpoint import Beginning
from sgmcmc.storage import zarr as storage
from sgmcmc.storage.store import NAME
from tests.contract.test_sessions import set_up
from tests.contract.test_storage import Tree, run

ROWS = 20
KEPT: Tree = {
    "nChains": 2,
    "collect": lambda params: params | {"never": params["theta"] > 1e9, "count": tf.zeros([], tf.int32)},
}


@pytest.fixture(scope="module")
def whole() -> sgmcmc.Draws:
    return run("sgld", 70, **KEPT)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("original") / "run.zarr"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(storage, "CHUNK_ROWS", ROWS)
        run("sgld", 50, storage=path, **KEPT)
    return path


@pytest.fixture
def path(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original, tmp_path / "run.zarr"))


def resumed(path: Path) -> sgmcmc.Draws:
    return run("sgld", 70, storage=path, resume=True, **KEPT)


def read_all(draws: sgmcmc.Draws) -> Tree:
    return {name: np.asarray(array) for name, array in (*draws.items(), *draws.sampleStats.items())}


def assert_equal(draws: sgmcmc.Draws, whole: sgmcmc.Draws) -> None:
    for name, array in read_all(draws).items():
        expected = read_all(whole)[name][:, : array.shape[1]]
        np.testing.assert_array_equal(array, expected, err_msg=name)


def contents_of(folder: Path) -> dict[Path, bytes]:
    return {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def delete(file: Path) -> None:
    file.unlink()


def truncate(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-5])


def flip(file: Path) -> None:
    contents = bytearray(file.read_bytes())
    contents[len(contents) // 2] ^= 1
    file.write_bytes(contents)


def garbage(file: Path) -> None:
    file.write_bytes(b'{"a": 1}')


def test_values_that_are_all_the_fill_value_are_no_missing_ones(path: Path, whole: sgmcmc.Draws) -> None:
    loaded = sgmcmc.Draws.load(path)
    assert not np.asarray(loaded["never"]).any() and not np.asarray(loaded["count"]).any()
    assert_equal(loaded, whole)
    assert_equal(resumed(path), whole)


@pytest.mark.parametrize("harm", [delete, truncate, flip])
@pytest.mark.parametrize("chunk", ["posterior/theta/c/0/1/0", "posterior/never/c/0/0/0", "posterior/count/c/0/2"])
def test_a_chunk_that_is_not_as_written_is_an_error(path: Path, chunk: str, harm: Callable[[Path], None]) -> None:
    """In draws that are at hand, in `load`, and in a run that goes on, which leaves the store as it was, and free."""
    name, file = chunk.split("/")[1], path / chunk
    at_hand, sound, before = sgmcmc.Draws.load(path), file.read_bytes(), contents_of(path)
    harm(file)
    with pytest.raises(OSError) as unread:
        np.asarray(at_hand[name])
    assert repr(str(file)) in str(unread.value)
    with pytest.raises((OSError, ValueError)) as unloaded:
        np.asarray(sgmcmc.Draws.load(path)[name])
    assert repr(str(file)) in str(unloaded.value)
    in_use = chunk.endswith("2")  # the last chunk is not full: a run that goes on reads it
    if harm is not flip or in_use:
        with pytest.raises(ValueError, match="storage must be an intact store; got ") as refused:
            resumed(path)
        assert repr(str(file)) in str(refused.value)
        os.close(locked(path / NAME))
        file.write_bytes(sound)
        assert contents_of(path) == before  # with which a run goes on
    else:
        with pytest.raises(OSError) as unread:
            np.asarray(resumed(path)[name])
        assert repr(str(file)) in str(unread.value)
        file.write_bytes(sound)
        assert len(resumed(path).iterations) == 70


def test_draws_whose_store_is_gone_or_replaced_are_an_error(
    tmp_path: Path, original: Path, whole: sgmcmc.Draws, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    out = run("sgld", 50, storage="run.zarr", **KEPT)
    monkeypatch.chdir(original.parent)  # where there is another run.zarr
    np.testing.assert_array_equal(out["theta"][:, 5], whole["theta"][:, 5])
    path, moved = tmp_path / "run.zarr", tmp_path / "moved.zarr"
    path.rename(moved)
    with pytest.raises(
        FileNotFoundError, match=rf"the draws that were in '{path}' cannot be read: the store does not exist"
    ):
        out.summary()
    assert_equal(sgmcmc.Draws.load(moved), whole)
    shutil.copytree(original, path)
    with pytest.raises(
        OSError, match=rf"the draws that were in '{path}' cannot be read: another run has replaced them"
    ):
        np.asarray(out["theta"])
    shutil.rmtree(path)
    moved.rename(path)
    assert_equal(out, whole)


def test_every_file_of_a_store_counts(original: Path, tmp_path: Path, whole: sgmcmc.Draws) -> None:
    """Each is deleted, cut short or replaced: the draws are the same ones, or there is one sentence with the path."""
    files = sorted(file.relative_to(original) for file in original.rglob("*") if file.is_file())
    assert len(files) > 20
    loads, resumes = 0, 0
    for number, file in enumerate(files):
        for harm in (delete, truncate, garbage):
            path = tmp_path / f"{number}{harm.__name__}.zarr"
            shutil.copytree(original, path)
            harm(path / file)
            try:
                assert_equal(sgmcmc.Draws.load(path), whole)
            except (ValueError, OSError) as error:
                loads += 1
                assert str(path) in str(error) and "\n" not in str(error), file
            if harm is (delete, truncate, garbage)[number % 3]:
                try:
                    assert_equal(resumed(path), whole)
                except ValueError as error:
                    resumes += 1
                    assert str(path) in str(error) and "\n" not in str(error), file
            shutil.rmtree(path)
    assert loads > len(files) and resumes > len(files) // 2


def test_the_lock_is_let_go_of_when_going_on_fails(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(storage, "replace_root", full)
        with pytest.raises(OSError, match="No space left"):
            resumed(path)
    assert len(resumed(path).iterations) == 70


def test_a_store_of_another_format_is_named(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sound = (path / "zarr.json").read_text()
    for other in (1, 99):
        metadata = json.loads(sound)
        metadata["attributes"] = {"format": other, "settings": metadata["attributes"]["settings"]}
        (path / "zarr.json").write_text(json.dumps(metadata))
        told = rf"got '{path}'.* format {other}; this version reads format 2"
        with pytest.raises(ValueError, match=rf"path of load must be .*; {told}"):
            sgmcmc.Draws.load(path)
        with pytest.raises(ValueError, match=rf"storage of sgld must be a store .* {told}"):
            resumed(path)
    (path / "zarr.json").write_text(sound)
    monkeypatch.setattr(checkpoint_module, "FORMAT", 99)
    with pytest.raises(ValueError, match=rf"storage of sgld must be a store .* got '{path}'.* format 1; this version"):
        resumed(path)


# --- files --------------------------------------------------------------------------------------------------------


def test_a_file_of_draws_is_not_unpacked_beyond_its_size(whole: sgmcmc.Draws, tmp_path: Path) -> None:
    path = tmp_path / "draws.npz"
    whole.save(path)
    with np.load(path) as archive:
        contents = dict(archive)
    np.savez_compressed(path, **contents | {"array_0": np.zeros((1, 10**7))})
    with pytest.raises(ValueError, match=rf"path of load must be .*; got '{path}' .*it unpacks to 8\d{{7}} bytes from"):
        sgmcmc.Draws.load(path)


def test_a_file_of_draws_of_another_format_is_named(whole: sgmcmc.Draws, tmp_path: Path) -> None:
    path = tmp_path / "draws.npz"
    whole.save(path)
    with np.load(path) as archive:
        contents = dict(archive)
    header = json.loads(str(contents.pop("header"))) | {"format": 2}
    np.savez(path, header=np.array(json.dumps(header)), **contents)
    with pytest.raises(ValueError, match=rf"got '{path}' \(ValueError: it has format 2; this version reads format 1\)"):
        sgmcmc.Draws.load(path)


def test_a_file_of_draws_that_is_damaged_is_named(whole: sgmcmc.Draws, tmp_path: Path) -> None:
    path, rng = tmp_path / "draws.npz", np.random.default_rng(0)
    whole.save(path)
    sound, refused = path.read_bytes(), 0
    for place in rng.integers(len(sound), size=200):
        path.write_bytes(sound[:place] + bytes([sound[place] ^ 16]) + sound[place + 1 :])
        try:
            assert_equal(sgmcmc.Draws.load(path), whole)
        except ValueError as error:
            refused += 1
            assert str(path) in str(error) and "\n" not in str(error)
    assert refused > 150


def signed(contents: bytes) -> bytes:
    return hashlib.sha256(contents).digest() + contents


def test_a_session_that_is_damaged_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, rng = tmp_path / "chain.sess", np.random.default_rng(0)
    sampler = set_up("sgld")
    sgmcmc.saveSess(sampler, sgmcmc.initSess(sampler), path)
    sound = path.read_bytes()
    flipped = [sound[:k] + bytes([sound[k] ^ 1]) + sound[k + 1 :] for k in rng.integers(len(sound), size=50)]
    cut = [sound[:k] for k in rng.integers(len(sound), size=50)]
    whole, size = sound[32:], int.from_bytes(sound[32:40], "little")
    state, beginning = whole[8 : 8 + size], Beginning.decode(whole[8 + size :])
    other = [whole[:8] + state, b"", whole[:8] + state + b"[]", whole.replace(b"format", b"farmot")]
    shapes = state.replace(b"'shape': (2,), ", b"'shape': (1,2)")
    assert shapes != state
    other += [whole[:8] + shapes + whole[8 + size :]]
    for contents in (*flipped, *cut, *map(signed, other)):
        path.write_bytes(contents)
        with pytest.raises(
            ValueError, match=rf"path of restoreSess must be a file that saveSess wrote; got '{path}' \("
        ):
            sgmcmc.restoreSess(sampler, path)
    monkeypatch.setattr(checkpoint_module, "FORMAT", 2)
    path.write_bytes(signed(whole[: 8 + size] + beginning.encode()))
    monkeypatch.undo()
    with pytest.raises(ValueError, match=rf"got '{path}' \(it has format 2; this version reads format 1\)"):
        sgmcmc.restoreSess(sampler, path)
    path.write_bytes(sound)
    sgmcmc.restoreSess(sampler, path)
