"""Rows that belong together, as packed observations."""

import numpy as np
import pandas as pd
import pytest
import tensorflow as tf

from sgmcmc import fromParquet, groups, sgldSetup, shards, windows

FLOAT = np.dtype("float32")


def opened(dataset, integers=()):
    return dataset.opened("sgld", integers, FLOAT)


def entries(data):
    return {name: x.numpy() for name, x in data.all().items()}


def series_of(sizes, seed=0):
    rng = np.random.default_rng(seed)
    return [{"y": rng.normal(size=n), "k": rng.integers(0, 9, size=n)} for n in sizes]


def by_loop(sizes, length, before):
    """The rows of each window and whether they count, by a loop over the steps of each series."""
    rows, first = [], 0
    for size in sizes:
        for start in range(0, size, length):
            begin = max(0, start - before)
            stop = min(start + length, size)
            rows.append((first + np.arange(begin, stop), np.arange(begin, stop) >= start, begin == 0))
        first += size
    return rows


SIZES = {"one": [23], "several": [7, 1, 12, 4, 5], "shorter than a window": [3], "of one step": [1, 1]}


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("length, before", [(4, 0), (4, 3), (4, 9), (1, 2), (30, 5)])
def test_windows_are_those_of_a_loop(sizes, length, before):
    series = series_of(sizes)
    data = opened(windows(series, length=length, before=before), ["k"])
    y, k = (np.concatenate([one[name] for one in series]) for name in ("y", "k"))
    got, expected = entries(data), by_loop(sizes, length, before)
    longest = max(len(rows) for rows, _, _ in expected)
    assert data.size == len(expected) and got["y"].shape == (data.size, longest)
    for i, (rows, counts, begins) in enumerate(expected):
        padded = np.append(rows, np.full(longest - len(rows), rows[-1]))
        assert (got["y"][i] == y[padded].astype(FLOAT)).all() and (got["k"][i] == k[padded]).all()
        assert (got["inside"][i] == np.append(counts, np.zeros(longest - len(rows)))).all()
        assert got["begins"][i] == begins
    assert got["inside"].sum() == sum(sizes)  # every step counts once


def several(sizes=(7, 3, 5), labels="cab"):
    """The series, and one table of them with a column of labels."""
    series = series_of(sizes)
    parts = [pd.DataFrame(one).assign(label=label) for one, label in zip(series, labels, strict=True)]
    return series, pd.concat(parts, ignore_index=True)


def assert_same(one, other):
    assert one.keys() == other.keys()
    for name, x in one.items():
        np.testing.assert_array_equal(x, other[name])


def test_several_series_are_those_of_a_column():
    series, table = several()
    got = opened(windows(table, length=3, before=2, by="label"))
    assert_same(entries(got), entries(opened(windows(series, length=3, before=2))))


def test_steps_of_mixed_series_keep_their_order_and_series_that_of_their_first_steps():
    _, table = several()
    mixed = table.iloc[np.argsort(np.random.default_rng(0).permutation(15) % 5, kind="stable")]
    series = [part.drop(columns="label") for _, part in mixed.groupby("label", sort=False)]
    got = opened(windows(mixed, length=3, before=2, by="label"))
    assert_same(entries(got), entries(opened(windows(series, length=3, before=2))))


def test_groups_are_padded_by_their_last_row():
    table = {"g": np.array([5, 5, 2, 9, 9, 9]), "x": np.arange(6.0), "X": np.arange(12.0).reshape(6, 2)}
    got = entries(opened(groups(table, by="g")))
    assert got["x"].tolist() == [[0, 1, 1], [2, 2, 2], [3, 4, 5]]
    assert got["inside"].tolist() == [[1, 1, 0], [1, 0, 0], [1, 1, 1]]
    assert got["X"].shape == (3, 3, 2) and (got["X"][..., 1] == 2 * got["x"] + 1).all()
    assert got.keys() == {"x", "X", "inside"}


def test_groups_in_memory_need_no_order():
    table = pd.DataFrame({"g": list("abacbb"), "x": np.arange(6.0), "z": pd.Categorical(list("uvuwvv"))})
    data = opened(groups(table, by="g", constant=["z"]))
    got = entries(data)
    assert got["x"].tolist() == [[0, 2, 2], [1, 4, 5], [3, 3, 3]]
    assert got["z"].tolist() == [0, 1, 2] and got["z"].dtype == np.int32
    assert data.levels == {"z": ["u", "v", "w"]}


class Rows:
    """A user's object."""

    def __init__(self, arrays):
        self.arrays = arrays

    def __len__(self):
        return len(self.arrays["g"])

    def take(self, indices):
        return {name: x[indices] for name, x in self.arrays.items()}


def on_disk(form, arrays, folder):
    if form == "object":
        return Rows(arrays)
    if form == "parquet":
        pd.DataFrame(arrays).to_parquet(folder / "rows.parquet")
        return fromParquet(folder / "rows.parquet", verbose=False)
    for name, x in arrays.items():
        np.save(folder / f"{name}.npy", x)
    return {name: np.load(folder / f"{name}.npy", mmap_mode="r") for name in arrays}


@pytest.mark.parametrize("form", ["memmap", "object", "parquet"])
def test_rows_on_disk_are_those_in_memory(form, tmp_path):
    rng = np.random.default_rng(0)
    sizes = rng.integers(1, 6, size=40)
    arrays = {
        "g": np.repeat(np.arange(40), sizes),
        "x": rng.normal(size=sizes.sum()),
        "z": np.repeat(rng.normal(size=40), sizes),
    }
    given = on_disk(form, arrays, tmp_path)
    asked = {
        "groups": lambda data: groups(data, by="g", constant=["z"]),
        "windows": lambda data: windows(data, length=2, before=1, by="g"),
    }
    for of in asked.values():
        here, there = opened(of(arrays)), opened(of(given))
        assert here.in_memory and not there.in_memory
        at = rng.integers(0, here.size, size=17)
        words, others = (np.zeros((17, data.layout.width), np.int64) for data in (here, there))
        here.take(at, words)
        there.take(at, others)
        assert (words == others).all()
        here.read(5, words)
        there.read(5, others)
        assert (words == others).all()
        np.testing.assert_array_equal(here.all()["x"].numpy()[5:22], here.layout.views(words)["x"])


def test_an_own_checksum():
    table = {"g": np.array([0, 0, 1, 1]), "x": np.arange(4.0)}
    one = opened(groups(table, by="g"))
    again = opened(groups(table, by="g"))
    other = opened(groups({**table, "g": np.array([0, 1, 1, 1])}, by="g"))
    assert one.checksum() == again.checksum() != other.checksum()
    series = {"x": np.arange(9.0)}
    sums = {opened(windows(series, length=s, before=b)).checksum() for s, b in [(3, 0), (3, 1), (2, 1), (4, 1)]}
    assert len(sums) == 4


TABLE = {"g": np.array([0, 0, 1]), "x": np.zeros(3), "z": np.array([1.0, 2.0, 3.0])}
NOT_SORTED = {"g": np.array([0, 1, 0]), "x": np.zeros(3)}
BAD = {
    "no such column": (
        groups(TABLE, by="h"),
        r"by of groups, in dataset of sgld must be one of the columns .*; got 'h'",
    ),
    "constant not a column": (groups(TABLE, by="g", constant=["w"]), "constant of groups, in dataset of sgld must be"),
    "constant a string": (groups(TABLE, by="g", constant="z"), "constant of groups, in dataset of sgld must be a list"),
    "not constant": (groups(TABLE, by="g", constant=["z"]), "same in all rows of a group.*in row 1 than in row 0"),
    "no rows": (groups({"g": TABLE["g"]}, by="g"), "must have columns besides 'g'"),
    "missing labels": (groups(pd.DataFrame({"g": ["a", None], "x": [1.0, 2.0]}), by="g"), "no missing labels; got 1"),
    "a taken name": (groups({**TABLE, "inside": TABLE["x"]}, by="g"), "no entry named 'inside'"),
    "other lengths": (groups({"g": np.zeros(2), "x": np.zeros(3)}, by="g"), "entries of the same length"),
    "two labels": (groups({"g": np.zeros((3, 2)), "x": np.zeros(3)}, by="g"), "one label for each row; got shape"),
    "length 0": (windows({"y": np.zeros(3)}, length=0, before=1), "length of windows of sgld must be"),
    "before -1": (windows({"y": np.zeros(3)}, length=2, before=-1), "before of windows of sgld must be"),
    "no series": (windows([], length=2, before=1), "at least one series"),
    "list and by": (
        windows([{"y": np.zeros(3)}], length=2, before=1, by="y"),
        "by of windows, in dataset of sgld must",
    ),
    "by not a column": (windows({"y": np.zeros(3)}, length=2, before=1, by="x"), "by of windows, in dataset of sgld"),
    "other entries": (
        windows([{"y": np.zeros(3)}, {"x": np.zeros(3)}], length=2, before=1),
        "data of windows, in dataset of sgld, must have the same entries",
    ),
    "begins taken": (windows({"begins": np.zeros(3)}, length=2, before=1), "no entry named 'begins'"),
    "groups of shards": (groups(shards([TABLE]), by="g"), "dataset of sgld must be a dict"),
}


@pytest.mark.parametrize("dataset, message", BAD.values(), ids=BAD)
def test_bad_arguments_are_named(dataset, message):
    with pytest.raises(ValueError, match=message):
        sgldSetup(lambda params, dataset: params["a"], dataset, {"a": 0.0}, 1e-3)


def test_data_on_disk_must_be_sorted(tmp_path):
    with pytest.raises(ValueError, match=r"must be sorted by 'g'.*; got 2 groups in 3 parts"):
        opened(groups(on_disk("memmap", NOT_SORTED, tmp_path), by="g"))


def test_a_layout_reads_tensors_as_arrays():
    data = opened(windows(series_of([9, 4]), length=3, before=2), ["k"])
    words = np.zeros((2, 3, data.layout.width), np.int64)
    data.take(np.arange(6) % data.size, words.reshape(6, -1))
    views, tensors = data.layout.views(words), data.layout.unpack(tf.constant(words))
    specs = data.layout.specs([2, 3])
    assert views.keys() == tensors.keys() == specs.keys()
    for name, x in tensors.items():
        np.testing.assert_array_equal(x.numpy(), views[name])
        assert (x.shape, x.dtype) == (specs[name].shape, specs[name].dtype)
