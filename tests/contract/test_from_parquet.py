"""Parquet and Arrow files as a dataset on disk: the draws of one in memory, converted once, or not at all.

It uses the inside of the package: it needs the size of the batches that are read.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
import tensorflow as tf

from sgmcmc import fromParquet, sgldcv
from sgmcmc.bridges import arrow

RNG = np.random.default_rng(0)
N = 3000
TABLE = pd.DataFrame({"a": RNG.normal(size=N), "b": RNG.normal(size=N), "k": RNG.integers(0, 5, N).astype(np.int16)})
TABLE["late"] = RNG.random(N) < 0.4
TABLE["carrier"] = np.array(["UA", "AA", "DL"])[RNG.integers(0, 3, N)]
TABLE["size"] = pd.Categorical(RNG.choice(["small", "large"], N), categories=["small", "middle", "large"])
TABLE["y"] = TABLE.a - 0.5 * TABLE.b + 0.1 * RNG.normal(size=N)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file with small row groups, so that batches begin anywhere."""
    TABLE.to_parquet(tmp_path / "table.parquet", row_group_size=700)
    return tmp_path / "table.parquet"


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(arrow, "BATCH", 256)
    yield


def read(path: Any, *arguments: Any, **named: Any) -> dict[str, Any]:
    return fromParquet(path, *arguments, verbose=False, **named)


def test_columns_are_those_of_the_table(path: Path) -> None:
    dataset = read(path)
    assert list(dataset) == list(TABLE.columns)
    for name in ("a", "b", "y"):
        assert isinstance(dataset[name], np.memmap) and dataset[name].dtype == np.float32
        np.testing.assert_array_equal(dataset[name], TABLE[name].astype(np.float32))
    assert dataset["k"].dtype == np.int16 and np.array_equal(dataset["k"], TABLE.k)
    assert np.array_equal(dataset["late"], TABLE.late)
    for name, levels in {"carrier": ["AA", "DL", "UA"], "size": ["small", "middle", "large"]}.items():
        assert dataset[name].levels == levels
        assert np.array_equal(np.array(levels)[dataset[name].array], TABLE[name].astype(str))


def test_columns_become_a_matrix(path: Path) -> None:
    dataset = read(path, {"X": ["a", "b", "k"], "y": "y"}, dtype="float64")
    assert np.array_equal(dataset["X"], TABLE[["a", "b", "k"]]) and np.array_equal(dataset["y"], TABLE.y)


def log_lik(params: dict, dataset: dict) -> tf.Tensor:
    effect = tf.gather(params["effect"], dataset["carrier"])
    return -50.0 * (dataset["y"] - tf.linalg.matvec(dataset["X"], params["beta"]) - effect) ** 2


def test_draws_are_those_from_memory(path: Path) -> None:
    settings: dict[str, Any] = {"minibatchSize": 50, "nIters": 50, "verbose": False, "seed": 1}
    params = {"beta": np.zeros(2), "effect": np.zeros(3)}
    on_disk = sgldcv(log_lik, read(path, {"X": ["a", "b"], "y": "y", "carrier": "carrier"}), params, **settings)
    dataset = {"X": TABLE[["a", "b"]].to_numpy(), "y": TABLE.y.to_numpy(), "carrier": pd.Categorical(TABLE.carrier)}
    in_memory = sgldcv(log_lik, dataset, params, **settings)
    for name in params:
        assert np.array_equal(on_disk[name], in_memory[name])
    labels = on_disk.labelled({"effect": "carrier"}).summary().index
    assert "effect[UA]" in list(labels)


def test_it_is_converted_once_unless_something_changes(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made, convert = [], arrow._convert
    monkeypatch.setattr(arrow, "_convert", lambda *given: made.append(given[4].name) or convert(*given))
    read(path, ["a"])
    np.testing.assert_array_equal(read(path, ["a"])["a"], TABLE.a.astype(np.float32))
    assert len(made) == 1
    read(path, ["b"])
    read(path, ["a"], dtype="float64")
    read(path, {"b": "a"})
    changed = TABLE.assign(a=TABLE.a + 1)
    changed.to_parquet(path, row_group_size=700)
    os.utime(path, ns=(1, 1))
    np.testing.assert_array_equal(read(path, ["a"])["a"], changed.a.astype(np.float32))
    assert len(made) == len(set(made)) == 5
    assert {file.parent for file in path.parent.rglob("*.npy")} == {path.with_name("table.parquet.rows")}


def test_folders_and_lists_are_read_in_order(tmp_path: Path) -> None:
    folder = tmp_path / "years"
    (folder / "2024").mkdir(parents=True)
    TABLE[:1000].to_parquet(folder / "2024" / "1.parquet")
    TABLE[1000:].to_parquet(folder / "2024" / "2.parquet")
    for given in (folder, [folder / "2024" / "1.parquet", str(folder / "2024" / "2.parquet")]):
        assert np.array_equal(read(given, ["k"], folder=tmp_path / "kept")["k"], TABLE.k)
    assert len(list((tmp_path / "kept").glob("*.npy"))) == 1  # of the same files
    backwards = read([folder / "2024" / "2.parquet", folder / "2024" / "1.parquet"], ["k"], folder=tmp_path / "kept")
    assert np.array_equal(backwards["k"][-1000:], TABLE.k[:1000])


def test_arrow_files(tmp_path: Path) -> None:
    pa.feather.write_feather(pa.Table.from_pandas(TABLE), str(tmp_path / "table.feather"), chunksize=500)
    dataset = read(tmp_path / "table.feather", ["a", "size"])
    np.testing.assert_array_equal(dataset["a"], TABLE.a.astype(np.float32))
    assert dataset["size"].levels == ["small", "middle", "large"]


def test_categories_of_several_files_are_one_list(tmp_path: Path) -> None:
    for k, words in enumerate((["b", "a"], ["c", "a"])):
        frame = pd.DataFrame({"w": pd.Categorical(words, categories=words), "s": words})
        frame.to_parquet(tmp_path / f"{k}.parquet")
    dataset = read(tmp_path)
    for name, levels in {"w": ["b", "a", "c"], "s": ["a", "b", "c"]}.items():
        assert dataset[name].levels == levels
        assert [levels[code] for code in dataset[name].array] == ["b", "a", "c", "a"]


def test_it_is_converted_completely_or_not_at_all(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arrays = arrow.Source.arrays

    def interrupted(self: arrow.Source, batch: Any, start: int, columns: Any) -> Any:
        if start > 1000:
            raise KeyboardInterrupt
        return arrays(self, batch, start, columns)

    monkeypatch.setattr(arrow.Source, "arrays", interrupted)
    with pytest.raises(KeyboardInterrupt):
        read(path, ["a"])
    assert not list(path.parent.rglob("*.npy"))
    monkeypatch.setattr(arrow.Source, "arrays", arrays)
    np.testing.assert_array_equal(read(path, ["a"])["a"], TABLE.a.astype(np.float32))


def test_too_little_space_is_said_before(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow.shutil, "disk_usage", lambda folder: SimpleNamespace(free=1000))
    with pytest.raises(OSError, match=r"fromParquet needs 0\.0 GB in .*table\.parquet\.rows', where 0\.0 GB are free"):
        read(path)
    assert not list(path.parent.rglob("*.npy"))


def test_progress_is_shown(path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    fromParquet(path, ["a", "carrier"])
    said = capfd.readouterr().err
    assert "Reading categories" in said and "Converting" in said
    fromParquet(path, ["a", "carrier"])
    assert "Converting" not in capfd.readouterr().err


def test_a_column_that_loses_its_differences_gives_a_warning_each_time(tmp_path: Path) -> None:
    times = 1.7e9 + np.arange(1000.0)
    pd.DataFrame({"seconds": times, "x": times - times.mean(), "n": 1e9}).to_parquet(tmp_path / "t.parquet")
    for _ in range(2):
        with pytest.warns(UserWarning, match="column 'seconds' of fromParquet loses the differences") as said:
            read(tmp_path / "t.parquet")
        assert len(said) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read(tmp_path / "t.parquet", dtype="float64")


BAD_TABLES = {
    "missing": ({"a": [1.0, None, 3.0]}, r"no missing values; got some in 'a', the first in row 1"),
    "missing word": ({"a": ["x", "y", None]}, r"no missing values; got some in 'a', the first in row 2"),
    "nan": ({"a": pa.array([1.0, 2.0, np.nan])}, r"must be finite in float32; got nan in row 2 of 'a'"),
    "too large": ({"a": [1.0, 1e300]}, r"must be finite in float32; got 1e\+300 in row 1 of 'a'"),
    "times": (
        {"a": pd.to_datetime(["2024-01-01"])},
        r"must hold numbers, strings or categories; got 'a' of type time",
    ),
    "empty": ({"a": pa.array([], pa.float64())}, r"must name files with at least one row"),
}


@pytest.mark.parametrize("what", BAD_TABLES)
def test_bad_columns_are_named(what: str, tmp_path: Path) -> None:
    columns, message = BAD_TABLES[what]
    pq.write_table(pa.table({name: pa.array(x) for name, x in columns.items()}), tmp_path / "bad.parquet")
    with pytest.raises(ValueError, match=message):
        read(tmp_path / "bad.parquet")
    assert not list(tmp_path.rglob("*.npy"))


BAD_ARGUMENTS = [
    ({"path": "none.parquet"}, r"path of fromParquet must be a Parquet or Arrow file.*; got 'none.parquet'"),
    ({"path": 3}, r"path of fromParquet must be .*; got 3"),
    ({"path": []}, r"path of fromParquet must be .*; got \[\]"),
    ({"columns": "a"}, r"columns of fromParquet must be a list of columns, .*; got 'a'"),
    ({"columns": ["a", "none"]}, r"columns of fromParquet must be .* that the files have, .*; got \['none'\]"),
    ({"columns": {"X": []}}, r"columns of fromParquet must be a list of columns"),
    ({"columns": {"X": ["a", "carrier"]}}, r"columns\['X'\] of fromParquet must be columns of numbers"),
    ({"dtype": "int32"}, r"dtype of fromParquet"),
    ({"verbose": 1}, r"verbose of fromParquet"),
]


@pytest.mark.parametrize(("given", "message"), BAD_ARGUMENTS)
def test_bad_arguments_are_refused(given: dict[str, Any], message: str, path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        fromParquet(**({"path": path, "verbose": False} | given))


def test_a_file_that_is_not_parquet_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.parquet").write_text("x,y")
    with pytest.raises(ValueError, match=r"path of fromParquet must name files of one table that pyarrow can read"):
        read(tmp_path)
