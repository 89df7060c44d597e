"""The package's needs of TensorFlow beyond its documented interface, and its ways around what XLA does.

A test that fails after an update of TensorFlow says which function of core/xla.py to look at. Each way around has a
control without it: if the control fails, the function can go.
"""

from __future__ import annotations

import gc
import re
import weakref
from collections.abc import Callable
from contextlib import nullcontext

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

from sgmcmc.core import compilation, xla
from sgmcmc.core.tracing import trace
from sgmcmc.laplace.posterior import _directed  # private: the second derivatives that need hidden values

U32 = 2**32


def optimized(function: Callable, *tensors: tf.Tensor) -> str:
    """The program that XLA makes of the function, as text."""
    return tf.function(function, jit_compile=True).experimental_get_compiler_ir(*tensors)(stage="optimized_hlo")


@pytest.mark.parametrize("jit_compile", [False, True])
def test_a_runtime_function_gives_the_results_of_the_traced_one(jit_compile: bool) -> None:
    traced = trace(lambda x, y: [x + y, x * y], tf.TensorSpec([3]), tf.TensorSpec([3]), jit_compile=jit_compile)
    x, y = tf.constant([1.0, 2.0, 3.0]), tf.constant([4.0, 5.0, 6.0])
    for function in (xla.runtime(traced), xla.without_graph(xla.runtime(traced))):
        for result, expected in zip(function.call_flat(x, y), (x + y, x * y), strict=True):
            np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("is_kept_alive", [True, False])
def test_a_runtime_function_keeps_its_graph_alive_and_one_without_graph_does_not(is_kept_alive: bool) -> None:
    traced = trace(lambda x: [tf.exp(x)], tf.TensorSpec([3]), jit_compile=True)
    function, graph = xla.runtime(traced), weakref.ref(traced.graph)
    if not is_kept_alive:
        function = xla.without_graph(function)
    del traced
    gc.collect()
    assert (graph() is not None) == is_kept_alive
    np.testing.assert_allclose(function.call_flat(tf.zeros([3]))[0], 1.0)


def steps_of_regression(cut_apart: bool) -> str:
    """The program of a loop that takes its data from a block, one slice for each step."""

    def run(block: tf.Tensor, n: tf.Tensor, w: tf.Tensor) -> tf.Tensor:
        def step(k: tf.Tensor, w: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            def cut() -> dict[str, tf.Tensor]:
                return {"x": tf.reshape(tf.slice(block, [k, 0, 0], [1, 50, 20]), [50, 20])}

            x = (xla.written(cut, k < 0, {"x": tf.TensorSpec([50, 20])}) if cut_apart else cut())["x"]
            return k + 1, w + tf.linalg.matvec(x, tf.nn.sigmoid(tf.linalg.matvec(x, w)), transpose_a=True)

        return tf.while_loop(lambda k, _: k < n, step, (0, w))[1]

    return optimized(run, tf.zeros([64, 50, 20]), tf.constant(64), tf.zeros([20]))


@pytest.mark.parametrize("cut_apart", [True, False])
def test_a_product_is_a_kernel_of_its_own_only_if_its_slice_is_written(cut_apart: bool) -> None:
    """A product in a fusion with its slice is a slow scalar loop."""
    computations = re.split(r"\n(?=%|ENTRY)", steps_of_regression(cut_apart))
    of_products = [text for text in computations if " dot(" in text]
    assert of_products
    assert any("dynamic-slice(" in text for text in of_products) != cut_apart


@pytest.mark.parametrize("is_ordered", [True, False])
def test_a_table_is_written_in_place_only_after_its_rows_are_read(is_ordered: bool) -> None:
    """Otherwise XLA copies the table in each step."""

    def run(table: tf.Tensor, places: tf.Tensor, n: tf.Tensor) -> tf.Tensor:
        def step(k: tf.Tensor, table: tf.Tensor, total: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
            at = places[k]
            specs = {"rows": tf.TensorSpec([5, 7])}
            before = xla.written(lambda: {"rows": tf.gather(table, at)}, k < 0, specs)["rows"]
            rows = tf.fill([5, 7], tf.cast(k, tf.float32))
            rows = xla.after(before, rows) if is_ordered else rows
            return k + 1, tf.tensor_scatter_nd_update(table, at[:, None], rows), total + tf.reduce_sum(before)

        return tf.while_loop(lambda k, *_: k < n, step, (0, table, 0.0))[1:]

    program = optimized(run, tf.zeros([1000, 7]), tf.zeros([4, 5], tf.int32), tf.constant(4))
    loop, _ = program.split("\nENTRY")
    assert "f32[1000,7]" in loop
    assert bool(re.search(r"f32\[1000,7\]\S* copy\(", loop)) != is_ordered


@pytest.mark.parametrize("is_carried", [True, False])
def test_what_a_loop_carries_along_is_no_constant(is_carried: bool) -> None:
    """A constant would be part of the program, which would be compiled again for each value."""

    def run(x: tf.Tensor, n: tf.Tensor) -> tf.Tensor:
        def step(k: tf.Tensor, x: tf.Tensor, total: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
            return k + 1, xla.carried(x) if is_carried else x, total + tf.reduce_sum(tf.zeros(x))

        return tf.while_loop(lambda k, *_: k < n, step, (0, x, 0.0))[2]

    if is_carried:
        with pytest.raises(ValueError, match="must be a compile-time constant"):
            optimized(run, tf.constant([3]), tf.constant(2))
    else:
        _, arguments = optimized(run, tf.constant([3]), tf.constant(2)).split("entry_computation_layout={(", 1)
        assert arguments.startswith("s32[])->f32[]")  # n alone, without x


@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize("width", [1, 8, 9, 17, 25])
def test_the_high_word_of_a_product_leaves_its_neighbours_alone(width: int, jit_compile: bool) -> None:
    """The obvious way, in uint64, once wrote beyond the end of rows of 8k + 1."""
    rng = np.random.default_rng(width)
    x, factor = rng.integers(0, U32, (4, width), dtype=np.uint32), int(rng.integers(1, U32))

    def rows(x: tf.Tensor) -> tf.Tensor:
        table = tf.fill([5, width], tf.constant(7, tf.uint32))
        for k in range(3, -1, -1):
            row = xla.multiply_high(x[k], tf.constant(factor, tf.uint32))
            table = tf.tensor_scatter_nd_update(table, [[k]], row[None])
        return table

    found = tf.function(rows, jit_compile=jit_compile)(tf.constant(x)).numpy()
    exact = [[int(value) * factor >> 32 for value in row] for row in x]
    np.testing.assert_array_equal(found, [*exact, [7] * width])


@pytest.mark.parametrize("convolves", [True, False])
def test_a_convolution_is_found_in_a_loop(convolves: bool) -> None:
    """The times themselves are compared in benchmarks/keras_step.py."""

    def smoothed(image: tf.Tensor, filters: tf.Tensor) -> tf.Tensor:
        if convolves:
            return tf.nn.conv2d(image, filters, 1, "SAME")
        return tf.einsum("bijk,xykl->bijl", image, filters)

    def loop(image: tf.Tensor, filters: tf.Tensor) -> list[tf.Tensor]:
        return tf.while_loop(lambda k, x: k < 3, lambda k, x: (k + 1, smoothed(x, filters)), (0, image))

    traced = trace(loop, tf.TensorSpec([2, 5, 5, 3]), tf.TensorSpec([3, 3, 3, 3]), jit_compile=True)
    assert xla.is_unsuited(traced.graph) == convolves


SUMS = {
    "a plain sum": (tf.reduce_sum, True),
    "a loop": (lambda x: tf.foldl(tf.add, x), False),
    "a branch": (lambda x: tf.cond(x[0] > 0, lambda: tf.reduce_sum(x), lambda: -x[0]), False),
    "a mask": (lambda x: tf.reduce_sum(tf.boolean_mask(x, x > 0)), False),
    "distinct numbers": (lambda x: tf.reduce_sum(tf.unique(x)[0]), False),
    "padding by zeros": (lambda x: tf.reduce_sum(tf.pad(x, [[0, 1]])), True),
    "padding by another number": (lambda x: tf.reduce_sum(tf.pad(x, [[0, 1]], constant_values=5.0)) - 5.0, False),
}


@pytest.mark.parametrize("is_called", [False, True])
@pytest.mark.parametrize("name", SUMS)
def test_what_vectorized_map_cannot_map_is_found_also_in_a_function_that_is_called(name: str, is_called: bool) -> None:
    summed, vectorizable = SUMS[name]

    def looked_at(x: tf.Tensor) -> tf.Tensor:
        before = tf.foldl(tf.add, x)  # not in the block
        with xla.not_vectorizable() as found:
            result = tf.function(summed)(x) if is_called else summed(x)
        assert found() == (not vectorizable)
        return before + result

    assert tf.function(looked_at, autograph=False)(tf.constant([1.0, 2.0])).numpy() == 6.0


def test_vectorized_map_still_makes_a_wrong_sum_of_a_mask() -> None:
    def masked(rows: tf.Tensor) -> tf.Tensor:
        return tf.vectorized_map(lambda row: tf.reduce_sum(tf.boolean_mask(row, row > 0)), rows, warn=False)

    rows = tf.constant([[1.0, 2.0, -3.0], [1.0, -2.0, -3.0]])
    assert tf.function(masked, jit_compile=True)(rows).numpy().tolist() != [3.0, 1.0]


def test_vectorized_map_still_pads_by_zeros() -> None:
    padded = tf.vectorized_map(lambda row: tf.pad(row, [[0, 1]], constant_values=5.0), tf.ones([2, 3]), warn=False)
    assert padded.numpy()[:, -1].tolist() == [0.0, 0.0]


def test_second_derivatives_through_two_concatenations_are_computed_without_xla_which_is_still_wrong() -> None:
    """As in a log likelihood of ordered categories, with data that are no constants of the graph."""
    y, far = tf.constant(np.random.default_rng(1).integers(0, 4, 20)), tf.constant([30.0])

    def categories(cuts: tf.Tensor) -> tf.Tensor:
        lower, upper = (tf.gather(tf.concat(parts, axis=0), y) for parts in ([-far, cuts], [cuts, far]))
        return tf.reduce_sum(tf.math.log(tf.sigmoid(upper) - tf.sigmoid(lower)))

    def second(cuts: tf.Tensor) -> tf.Tensor:
        return tf.convert_to_tensor(_directed(categories, cuts, tf.constant([1.0, 0.0, 0.0]))[0])

    cuts = tf.constant([-1.0, 0.2, 1.5])
    exact = second(cuts)
    np.testing.assert_allclose(compilation.Compiled(lambda cuts: [second(cuts)])(cuts)[0], exact, atol=1e-4)
    assert xla.is_unsuited(trace(second, tf.TensorSpec([3]), jit_compile=True).graph)
    assert not xla.is_unsuited(trace(categories, tf.TensorSpec([3]), jit_compile=True).graph)
    compiled = tf.function(second, jit_compile=True, autograph=False)(cuts)
    assert np.abs(compiled - exact).max() > 0.1


@pytest.mark.parametrize("forgets", [False, True])
def test_bijectors_still_keep_graphs_alive_unless_they_forget(forgets: bool) -> None:
    """Also those of log determinants that logLik computes, as by a distribution of TensorFlow Probability."""
    exp, before = tfp.bijectors.Exp(), tf.constant([1.0])
    kept = exp.forward(before)

    def log_det(x: tf.Tensor) -> tf.Tensor:
        return exp.forward_log_det_jacobian(x) + exp.inverse(exp.forward(x))

    with xla.forgotten_by_bijectors() if forgets else nullcontext():
        concrete = tf.function(log_det).get_concrete_function(tf.TensorSpec([1]))
    graph = weakref.ref(concrete.graph)
    del concrete
    gc.collect()
    assert (graph() is None) == forgets
    assert exp.inverse(kept) is before  # what was cached earlier is found


def _growth(theta: tf.Tensor) -> tf.Tensor:
    return tf.foldl(lambda total, x: total * tf.sin(x), theta)


def _second(theta: tf.Tensor) -> tf.Tensor:
    return _directed(_growth, theta, tf.ones_like(theta))[0]


@pytest.mark.parametrize("hides", [True, False])
def test_a_loop_is_compiled_once_for_all_values_if_they_are_hidden(hides: bool) -> None:
    """What XLA takes for a constant is no parameter of its program."""

    def called(theta: tf.Tensor) -> tf.Tensor:
        return _second(xla.hidden([theta])[0] if hides else theta)

    theta = tf.constant([0.5, 1.0, 1.5])
    program = tf.function(called, jit_compile=True, autograph=False)
    np.testing.assert_allclose(program(theta), tf.function(_second)(theta), rtol=1e-5)
    (entry,) = re.findall(r"ENTRY [^{]*", program.experimental_get_compiler_ir(theta)(stage="hlo"))
    assert ("f32[3]) ->" in entry) == hides, entry


@pytest.mark.parametrize(
    "function, loops",
    [
        (tf.reduce_prod, False),
        (_growth, True),
        (lambda x: tf.cond(x[0] > 0, lambda: _growth(x), lambda: -x[0]), True),
    ],
    ids=["none", "a loop", "a loop in a branch"],
)
@pytest.mark.parametrize("hides", [True, False])
def test_only_the_arguments_of_loops_are_hidden(
    function: Callable, loops: bool, hides: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []
    monkeypatch.setattr(compilation, "hidden", lambda tensors: calls.append(len(tensors)) or tensors)
    program = compilation.Compiled(lambda x: [function(x)], hides)
    np.testing.assert_allclose(program(tf.constant([0.5]))[0], 0.5)
    assert calls == ([1] if loops and hides else [])
