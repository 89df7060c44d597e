"""The packed data: what goes in comes out, from memory without a copy, and from elsewhere the same."""

from __future__ import annotations

from itertools import pairwise

import h5py
import numpy as np
import pytest
import tensorflow as tf
import zarr

from sgmcmc import dataset as data
from sgmcmc.dataset import ALIGNMENT, aligned_zeros, block_size, shared_tensor
from sgmcmc.dataset.arrays import is_on_disk
from sgmcmc.dataset.memory import InMemory
from sgmcmc.dataset.on_disk import Arrays, Entry, FetchedData

RNG = np.random.default_rng(0)
N = 41


def array(dtype, *shape):
    if np.issubdtype(dtype, np.integer):
        info = np.iinfo(dtype)
        return RNG.integers(info.min, info.max, (N, *shape), dtype, endpoint=True)
    return RNG.normal(size=(N, *shape)).astype(dtype)


CASES = {
    "float32 scalar": {"x": array(np.float32)},
    "float64 scalar": {"x": array(np.float64)},
    "int32 scalar": {"x": array(np.int32)},
    "int64 scalar": {"x": array(np.int64)},
    "float32 odd width": {"x": array(np.float32, 7)},
    "float32 even width": {"x": array(np.float32, 8)},
    "two odd widths share a word": {"x": array(np.float32, 3), "y": array(np.int32, 5)},
    "scalars that share a word": {"x": array(np.float32), "y": array(np.int32), "z": array(np.float32)},
    "rank 3": {"x": array(np.float32, 3, 5), "y": array(np.float64, 2, 3)},
    "width 1": {"x": array(np.float32, 1), "y": array(np.int64, 1, 1)},
    "all types": {
        "a": array(np.float32, 3),
        "b": array(np.int64),
        "c": array(np.float64, 2, 2),
        "d": array(np.int32),
        "e": array(np.float32, 1, 1, 1),
        "f": array(np.int32, 2),
        "g": array(np.float64),
    },
}


@pytest.fixture(params=CASES)
def case(request):
    return CASES[request.param]


def assert_same_bits(actual, expected):
    assert actual.dtype == expected.dtype and actual.shape == expected.shape
    assert np.ascontiguousarray(actual).tobytes() == np.ascontiguousarray(expected).tobytes()


def gathered(dataset: InMemory, indices: tf.Tensor) -> dict[str, tf.Tensor]:
    """As a program does that fetches by itself."""
    return dataset.layout.unpack(tf.gather(dataset.rows, indices))


def taken(dataset, indices: np.ndarray, jit_compile: bool = False) -> dict[str, tf.Tensor]:
    """As the host fetches for a program."""
    words = aligned_zeros(indices.size, dataset.layout.width)
    dataset.take(indices.reshape(-1), words)
    packed = shared_tensor(words.reshape(*indices.shape, dataset.layout.width))
    return tf.function(dataset.layout.unpack, jit_compile=jit_compile)(packed)


def test_arrays_give_back_what_was_packed(case):
    dataset = InMemory(case)
    assert dataset.size == N and set(dataset.arrays()) == set(case)
    for name, view in dataset.arrays().items():
        assert_same_bits(view, case[name])


def test_all_is_all(case):
    for name, entry in InMemory(case).all().items():
        assert_same_bits(entry.numpy(), case[name])


INDICES = pytest.mark.parametrize(
    "indices",
    [[3], [0, N - 1, 3, 3, 7], [[1, 2, 2], [N - 1, 0, 5]]],
    ids=["one", "with repeats", "two chains"],
)


@pytest.mark.parametrize("jit_compile", [False, True])
@INDICES
def test_gather_is_numpy_indexing(case, indices, jit_compile):
    dataset, indices = InMemory(case), np.array(indices, np.int32)
    rows = tf.function(lambda at: gathered(dataset, at), jit_compile=jit_compile)(tf.constant(indices))
    assert set(rows) == set(case)
    for name, entry in rows.items():
        assert_same_bits(entry.numpy(), case[name][indices])


@pytest.mark.parametrize("jit_compile", [False, True])
@INDICES
def test_take_is_numpy_indexing(case, indices, jit_compile):
    indices = np.array(indices, np.int32)
    rows = taken(InMemory(case), indices, jit_compile)
    assert set(rows) == set(case)
    for name, entry in rows.items():
        assert_same_bits(entry.numpy(), case[name][indices])


@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize(("start", "size"), [(0, 1), (0, N), (5, 16), (N - 3, 3)])
def test_what_is_read_is_a_slice(case, start, size, jit_compile):
    dataset = InMemory(case)
    words = aligned_zeros(size, dataset.layout.width)
    dataset.read(start, words)
    rows = tf.function(dataset.layout.unpack, jit_compile=jit_compile)(shared_tensor(words))
    for name, entry in rows.items():
        assert_same_bits(entry.numpy(), case[name][start : start + size])
    for name, view in dataset.layout.views(words).items():
        assert_same_bits(view, case[name][start : start + size])


def test_special_values_survive_untouched():
    """Signalling NaN patterns, subnormals, signed zeros and integers that would be NaNs if read as floats."""
    words = np.array([0x7F800001, 0xFFC00123, 0x00000001, 0x80000000, 0x7F800000, 0xFFFFFFFF], np.uint32)
    case = {"f": words.view(np.float32), "i": words.view(np.int32), "j": words.astype(np.int64) << 32 | 0x7FF00001}
    dataset, backwards = InMemory(case), np.array([5, 4, 3, 2, 1, 0])
    for jit_compile in (False, True):
        in_program = tf.function(lambda at: gathered(dataset, at), jit_compile=jit_compile)(tf.constant(backwards))
        for rows in (in_program, taken(dataset, backwards, jit_compile)):
            for name, entry in rows.items():
                assert_same_bits(entry.numpy(), case[name][::-1])


def test_specs_describe_what_is_unpacked(case):
    dataset = InMemory(case)
    rows = gathered(dataset, tf.constant([1, 0]))
    for name, spec in dataset.layout.specs([2]).items():
        assert spec.is_compatible_with(rows[name])


def test_an_entry_takes_its_bytes_and_a_row_whole_words(case):
    layout = InMemory(case).layout
    spans = sorted((c.start, c.stop) for c in layout.columns.values())
    assert spans[0][0] == 0 and all(stop == start for (_, stop), (start, _) in pairwise(spans))
    for name, c in layout.columns.items():
        assert c.stop - c.start == case[name][0].nbytes and c.start % case[name].dtype.itemsize == 0
    assert layout.row_bytes == 8 * layout.width and 0 <= layout.row_bytes - spans[-1][1] < 8


def test_memory_for_rows_is_aligned_as_tensorflow_asks():
    for shape in ((1, 1), (7, 3), (1000, 5)):
        assert aligned_zeros(*shape).ctypes.data % ALIGNMENT == 0 and not aligned_zeros(*shape).any()


def test_input_may_be_strided_or_of_foreign_order():
    base = RNG.normal(size=(N, 6)).astype(np.float32)
    case = {"strided": base[:, ::2], "fortran": np.asfortranarray(base), "reversed": base[::-1, 0]}
    for name, view in InMemory(case).arrays().items():
        assert_same_bits(view, case[name])


def test_entries_are_aligned_to_their_own_size(case):
    for name, view in InMemory(case).arrays().items():
        assert view.ctypes.data % case[name].dtype.itemsize == 0 and view.flags.aligned


def test_block_size_bounds_memory_and_never_exceeds_the_data(monkeypatch):
    monkeypatch.setattr(data, "BLOCK_BYTES", 8 * 1000)
    assert block_size(InMemory({"x": np.zeros(500)})) == 500
    assert block_size(InMemory({"x": np.zeros(5000)})) == 1000
    assert block_size(InMemory({"x": np.zeros((5000, 2))})) == 500
    assert block_size(InMemory({"x": np.zeros((5000, 100))})) == 256


@pytest.mark.skipif(bool(tf.config.list_physical_devices("GPU")), reason="on a GPU the tensor is a copy")
def test_tensor_and_numpy_views_are_one_memory(case):
    dataset = InMemory(case)
    name, view = next(iter(dataset.arrays().items()))
    assert np.shares_memory(view, dataset.arrays()[name])
    assert np.shares_memory(view, np.asarray(memoryview(dataset.rows)))
    view[3] = 1  # what is written through NumPy ...
    row = gathered(dataset, tf.constant([3]))[name].numpy()
    np.testing.assert_array_equal(row, np.ones_like(row))  # ... TensorFlow reads
    assert not np.shares_memory(view, case[name])  # the user's own arrays are left alone
    np.testing.assert_array_equal(taken(dataset, np.array([3]))[name].numpy(), row)


# --- data that stay where they are ------------------------------------------------------------------------------------


def memmaps(case, folder):
    arrays = {}
    for name, array in case.items():
        np.save(folder / f"{name}.npy", array)
        arrays[name] = np.load(folder / f"{name}.npy", mmap_mode="r")
        assert isinstance(arrays[name], np.memmap)
    return arrays


def zarrs(case, folder):
    group = zarr.open_group(folder / "store", mode="w")
    for name, array in case.items():  # 41 observations in chunks of 6: the last is not full
        group.create_array(name, shape=array.shape, dtype=array.dtype, chunks=(6, *array.shape[1:]))[...] = array
    return {name: group[name] for name in case}


def hdf5s(case, folder):
    with h5py.File(folder / "file.h5", "w") as file:
        for name, array in case.items():
            file[name] = array
    file = h5py.File(folder / "file.h5", "r")
    return {name: file[name] for name in case}


def mixed(case, folder):
    """Every second entry on disk."""
    on_disk = memmaps(case, folder)
    return {name: on_disk[name] if k % 2 else array for k, (name, array) in enumerate(case.items())}


PLACES = {"memory maps": memmaps, "zarr": zarrs, "hdf5": hdf5s, "some on disk": mixed}


@pytest.fixture(params=PLACES)
def place(request):
    return PLACES[request.param]


def entries(case) -> dict[str, Entry]:
    return {name: Entry(array.dtype, array.shape[1:]) for name, array in case.items()}


def words_of(dataset, indices: np.ndarray) -> np.ndarray:
    words = aligned_zeros(len(indices), dataset.layout.width)
    dataset.take(indices, words)
    return words


def test_data_elsewhere_give_the_words_of_data_in_memory(case, place, tmp_path):
    elsewhere, in_memory = FetchedData(Arrays(place(case, tmp_path)), entries(case)), InMemory(case)
    assert elsewhere.size == N and elsewhere.layout.columns == in_memory.layout.columns
    rng = np.random.default_rng(0)
    for indices in (
        rng.integers(0, N, 25),  # in no order, some more than once
        rng.permutation(N),
        np.array([N - 1]),
        np.array([7, 7, 7]),
        np.arange(5, 30),
        np.arange(30, 5, -1),
        np.array([N - 1, 0], np.int32),
        np.array([], np.int32),
    ):
        np.testing.assert_array_equal(words_of(elsewhere, indices), words_of(in_memory, indices))
    for start, size in ((0, N), (0, 1), (5, 16), (N - 3, 3)):
        words = [aligned_zeros(size, in_memory.layout.width) for _ in range(2)]
        elsewhere.read(start, words[0])
        in_memory.read(start, words[1])
        np.testing.assert_array_equal(*words)


def test_what_comes_is_converted_to_the_type_that_is_wanted(place, tmp_path):
    rng = np.random.default_rng(0)
    stored = {"x": rng.normal(size=(N, 3)), "g": rng.integers(-99, 99, N).astype(np.int16), "b": rng.random(N) < 0.5}
    wanted = {"x": np.float32, "g": np.int32, "b": np.float32}
    as_wanted = {name: array.astype(wanted[name]) for name, array in stored.items()}
    elsewhere = FetchedData(Arrays(place(stored, tmp_path)), entries(as_wanted))
    indices = rng.integers(0, N, 25)
    np.testing.assert_array_equal(words_of(elsewhere, indices), words_of(InMemory(as_wanted), indices))


def test_subnormals_and_signed_zeros_from_elsewhere_survive(place, tmp_path):
    words = np.array([0x00000001, 0x80000000, 0x007FFFFF, 0x80000001], np.uint32)
    case = {"f": words.view(np.float32), "i": np.array([-1, -(2**31), 2**31 - 1, 0], np.int32)}
    elsewhere = FetchedData(Arrays(place(case, tmp_path)), entries(case))
    for name, entry in taken(elsewhere, np.array([3, 1, 0, 2])).items():
        assert_same_bits(entry.numpy(), case[name][[3, 1, 0, 2]])


class Source:
    """A dataset of the user's own, that remembers what it was asked for."""

    def __init__(self, arrays, change=lambda entries: entries):
        self.arrays, self.change, self.asked = arrays, change, []

    def __len__(self):
        return len(next(iter(self.arrays.values())))

    def take(self, indices):
        self.asked.append(indices)
        return self.change({name: array[indices] for name, array in self.arrays.items()})


def test_a_source_of_the_users_own_is_asked_for_int64_indices_in_their_order(case):
    source = Source(case)
    elsewhere = FetchedData(source, entries(case))
    for indices in (np.array([5, 0, 5], np.int32), np.array([2])):
        np.testing.assert_array_equal(words_of(elsewhere, indices), words_of(InMemory(case), indices))
        assert source.asked[-1].dtype == np.int64 and source.asked[-1].tolist() == indices.tolist()


def test_a_source_may_return_lists():
    case = {"x": array(np.float32, 2), "i": array(np.int64), "y": array(np.float64)}
    lists = FetchedData(Source(case, lambda fetched: {k: x.tolist() for k, x in fetched.items()}), entries(case))
    indices = np.array([5, 0, 5])
    np.testing.assert_array_equal(words_of(lists, indices), words_of(InMemory(case), indices))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e39])
def test_rows_that_are_not_finite_name_the_entry_and_the_observation(bad, place, tmp_path):
    case = {"y": np.zeros(N), "x": np.zeros((N, 2, 3)), "n": np.zeros(N, np.int64)}
    case["x"][17, 1, 2] = bad
    wanted = {"x": Entry(np.dtype(np.float32), (2, 3)), "y": Entry(np.dtype(np.float32), ()), "n": entries(case)["n"]}
    elsewhere = FetchedData(Arrays(place(case, tmp_path)), wanted)
    words_of(elsewhere, np.array([3, 16, 18]))  # others are good
    shown = np.float32(bad) if abs(bad) != 1e39 else np.inf  # too large for float32
    message = rf"dataset\['x'\] must be finite in float32; got {shown} at index \(17, 1, 2\)\."
    for indices in (np.array([4, 17, 3]), np.array([17, 17]), np.arange(10, 20)):
        with pytest.raises(ValueError, match=message):
            words_of(elsewhere, indices)
    with pytest.raises(ValueError, match=message):
        elsewhere.read(12, aligned_zeros(9, elsewhere.layout.width))


def test_a_number_for_each_observation_that_is_not_finite_is_named_too():
    y = np.zeros(N)
    y[[20, 30]] = np.nan
    with pytest.raises(ValueError, match=r"dataset\['y'\] must be finite in float64; got nan at index \(30,\)\."):
        words_of(FetchedData(Source({"y": y}), entries({"y": y})), np.array([1, 30, 20]))


@pytest.mark.parametrize(
    ("change", "shape"),
    [
        (lambda x: x[:-1], r"\(2, 4\)"),
        (lambda x: x[..., :2], r"\(3, 2\)"),
        (lambda x: x[..., None], r"\(3, 4, 1\)"),
        (lambda x: x[:, 0], r"\(3,\)"),
        (lambda x: x[:1], r"\(1, 4\)"),  # NumPy would repeat it
        (lambda x: 0.0, r"\(\)"),
    ],
)
def test_a_wrong_shape_from_take_is_refused(change, shape):
    case = {"x": array(np.float64, 4), "y": array(np.float64)}
    source = Source(case, lambda fetched: fetched | {"x": change(fetched["x"])})
    message = rf"take of dataset must return 'x' with shape \(3, 4\) for 3 indices; got {shape}\."
    with pytest.raises(ValueError, match=message):
        words_of(FetchedData(source, entries(case)), np.array([1, 2, 9]))


@pytest.mark.parametrize(
    ("comes", "wanted"),
    [
        (np.array([0, 2**31, 2], np.int64), np.int32),
        (np.array([0.0, 1.0, 2.0]), np.int32),
        (np.array([0.0, 1.5, 2.0], np.float32), np.int64),
        (np.array([0, 2**24 + 1, 2], np.int64), np.float32),
        (np.array([0, -(2**53) - 1, 2], np.int64), np.float64),
    ],
)
def test_integers_that_would_change_are_refused(comes, wanted):
    """And neighbours of them, that do not change, are not."""
    elsewhere = FetchedData(Source({"i": comes}), {"i": Entry(np.dtype(wanted), ())})
    with pytest.raises(ValueError, match=r"dataset\['i'\] must (be integers|hold integers|fit into int32)"):
        words_of(elsewhere, np.array([2, 1]))
    largest = {np.float32: 2**24, np.float64: -(2**53), np.int32: -(2**31), np.int64: 2**63 - 1}[wanted]
    exact = {"i": np.array([0, 1, largest], np.int32 if wanted == np.int32 else np.int64)}
    elsewhere = FetchedData(Source(exact), {"i": Entry(np.dtype(wanted), ())})
    np.testing.assert_array_equal(elsewhere.layout.views(words_of(elsewhere, np.array([2, 1])))["i"], [largest, 1])


def test_checksums_tell_data_elsewhere_apart(case, place, tmp_path):
    """All 41 observations are in the sample; of many, the sample has the first and the last."""
    here = FetchedData(Source(case), entries(case))
    assert FetchedData(Arrays(place(case, tmp_path)), entries(case)).checksum() == here.checksum()
    for at in (0, 20, N - 1):
        other = {name: array.copy() for name, array in case.items()}
        next(iter(other.values()))[at] = 1
        assert FetchedData(Source(other), entries(case)).checksum() != here.checksum()
    renamed = {name + "_": array for name, array in case.items()}
    assert FetchedData(Source(renamed), entries(renamed)).checksum() != here.checksum()
    fewer = {name: array[: N - 1] for name, array in case.items()}
    assert FetchedData(Source(fewer), entries(fewer)).checksum() != here.checksum()
    many = np.zeros(5000)
    sums = {
        FetchedData(Source({"x": many + (np.arange(5000) == k)}), entries({"x": many})).checksum() for k in (0, 4999)
    }
    assert len(sums | {FetchedData(Source({"x": many}), entries({"x": many})).checksum()}) == 3


def test_arrays_that_stay_on_disk_are_known(tmp_path):
    case = CASES["all types"]
    for place in (memmaps, zarrs, hdf5s):
        assert all(is_on_disk(entry) for entry in place(case, tmp_path).values())
    assert not any(is_on_disk(entry) for entry in (*case.values(), [1.0], tf.zeros([2])))
