"""The packed data: what goes in comes out, and nothing is copied."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import sgmcmc.dataset
from sgmcmc.dataset import Dataset

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


def test_arrays_give_back_what_was_packed(case):
    dataset = Dataset(case)
    assert dataset.size == N and set(dataset.arrays()) == set(case)
    for name, view in dataset.arrays().items():
        assert_same_bits(view, case[name])


@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize(
    "indices",
    [[3], [0, N - 1, 3, 3, 7], [[1, 2, 2], [N - 1, 0, 5]]],
    ids=["one", "with repeats", "two chains"],
)
def test_gather_is_numpy_indexing(case, indices, jit_compile):
    dataset, indices = Dataset(case), np.array(indices, np.int32)
    rows = tf.function(dataset.gather, jit_compile=jit_compile)(tf.constant(indices))
    assert set(rows) == set(case)
    for name, entry in rows.items():
        assert_same_bits(entry.numpy(), case[name][indices])


@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize(("start", "size"), [(0, 1), (0, N), (5, 16), (N - 3, 3)])
def test_blocks_are_slices(case, start, size, jit_compile):
    dataset = Dataset(case)
    rows = tf.function(lambda start: dataset.block(start, size), jit_compile=jit_compile)(tf.constant(start))
    for name, entry in rows.items():
        assert_same_bits(entry.numpy(), case[name][start : start + size])


def test_special_values_survive_untouched():
    """Signalling NaN patterns, subnormals, signed zeros and integers that would be NaNs if read as floats."""
    words = np.array([0x7F800001, 0xFFC00123, 0x00000001, 0x80000000, 0x7F800000, 0xFFFFFFFF], np.uint32)
    case = {"f": words.view(np.float32), "i": words.view(np.int32), "j": words.astype(np.int64) << 32 | 0x7FF00001}
    dataset = Dataset(case)
    for jit_compile in (False, True):
        rows = tf.function(dataset.gather, jit_compile=jit_compile)(tf.constant([5, 4, 3, 2, 1, 0]))
        for name, entry in rows.items():
            assert_same_bits(entry.numpy(), case[name][::-1])


def test_specs_describe_what_gather_gives(case):
    dataset = Dataset(case)
    rows = dataset.gather(tf.constant([1, 0]))
    for name, spec in dataset.specs(2).items():
        assert spec.is_compatible_with(rows[name])


def test_input_may_be_strided_or_of_foreign_order():
    base = RNG.normal(size=(N, 6)).astype(np.float32)
    case = {"strided": base[:, ::2], "fortran": np.asfortranarray(base), "reversed": base[::-1, 0]}
    for name, view in Dataset(case).arrays().items():
        assert_same_bits(view, case[name])


def test_entries_are_aligned_to_their_own_size(case):
    for name, view in Dataset(case).arrays().items():
        assert view.ctypes.data % case[name].dtype.itemsize == 0 and view.flags.aligned


def test_block_size_bounds_memory_and_never_exceeds_the_data(monkeypatch):
    monkeypatch.setattr(sgmcmc.dataset, "BLOCK_BYTES", 8 * 1000)
    assert Dataset({"x": np.zeros(500)}).block_size == 500
    assert Dataset({"x": np.zeros(5000)}).block_size == 1000
    assert Dataset({"x": np.zeros((5000, 2))}).block_size == 500
    assert Dataset({"x": np.zeros((5000, 100))}).block_size == 256


@pytest.mark.skipif(bool(tf.config.list_physical_devices("GPU")), reason="on a GPU the tensor is a copy")
def test_tensor_and_numpy_views_are_one_memory(case):
    dataset = Dataset(case)
    name, view = next(iter(dataset.arrays().items()))
    assert np.shares_memory(view, dataset.arrays()[name])
    assert np.shares_memory(view, np.asarray(memoryview(dataset._rows)))
    view[3] = 1  # what is written through NumPy ...
    row = dataset.gather(tf.constant([3]))[name].numpy()
    np.testing.assert_array_equal(row, np.ones_like(row))  # ... TensorFlow reads
    assert not np.shares_memory(view, case[name])  # the user's own arrays are left alone
