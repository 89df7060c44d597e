"""Programs are told apart by their graph: what computes the same shares one, what does not has another.

That different graphs have different fingerprints matters most, since a wrong program would give wrong draws without a
word; so the pairs below are attacks, and random programs are compared with one another.
"""

from __future__ import annotations

import gc
import weakref
from collections import defaultdict
from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf

from sgmcmc.core import compilation
from sgmcmc.core.compilation import Compiled
from sgmcmc.core.tracing import fingerprint
from sgmcmc.dataset.memory import InMemory
from sgmcmc.dynamics.sghmc import sghmc
from sgmcmc.gradients.plain import plain
from sgmcmc.kernel.iterations import Iterations, constants
from sgmcmc.kernel.product import Product, build
from sgmcmc.minibatch.uniform import without_replacement
from sgmcmc.model import Model, Returns
from sgmcmc.run import Plan, Prepared
from sgmcmc.run.loop import Loop
from sgmcmc.run.recorder import NOTHING

VECTOR, PAIR, MATRIX, LONG = ([3],), ([3], [3]), ([3, 3],), ([200],)
RNG = np.random.default_rng(0)
FIRST, SECOND = (tf.constant(RNG.normal(size=200), tf.float32) for _ in range(2))  # more than 128 elements: captured
DOUBLES, INTEGERS, COLUMN = tf.cast(FIRST, tf.float64), tf.range(200), tf.reshape(FIRST, [200, 1])


@pytest.fixture
def programs(monkeypatch):
    """Those compiled in this test."""
    monkeypatch.setattr(compilation, "_programs", {})
    return compilation._programs


def traced(function: Callable, *shapes: list[int], dtype: tf.DType = tf.float32) -> str:
    """The fingerprint of a trace of its own."""
    specs = [tf.TensorSpec(shape, dtype) for shape in shapes]
    anew = tf.function(lambda *x: function(*x), autograph=False, jit_compile=True)
    return fingerprint(anew.get_concrete_function(*specs).graph)


def in_graph(function: Callable) -> Callable:
    return tf.function(function, autograph=False)


def gradient_of(function: Callable) -> Callable:
    def gradient(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            value = tf.reduce_sum(function(x))
        return [tape.gradient(value, x)]

    return gradient


def everything(scale: float = 2.0, trips: int = 3) -> Callable:
    """Loops in loops, branches, functions, maps and their gradients."""

    def inner(i, z):
        branch = tf.cond(z[0] > 0, lambda: tf.sin(z) * scale, lambda: in_graph(tf.cos)(z) + tf.cast(i, z.dtype))
        body = lambda k, y: (k + 1, tf.tanh(y) + FIRST[:3])  # noqa: E731
        trip = tf.while_loop(lambda k, _: k < trips, body, (0, branch), maximum_iterations=9)
        return i + 1, trip[1]

    def function(x):
        looped = tf.while_loop(lambda i, _: i < 2, inner, (tf.constant(0), x), maximum_iterations=5)[1]
        return looped + tf.vectorized_map(lambda z: z**2, x) + tf.switch_case(tf.constant(0), [lambda: x, lambda: -x])

    return gradient_of(function)


def test_traces_of_the_same_function_have_the_same_fingerprint():
    function = everything()
    assert len({traced(function, *VECTOR) for _ in range(3)}) == 1
    assert traced(function, *VECTOR) == traced(everything(), *VECTOR)  # another function with the same text


def test_names_do_not_count():
    def other(renamed):
        with tf.name_scope("somewhere"):
            return [tf.add(renamed * 2.0, 1.0, name="elsewhere")]

    assert traced(other, *VECTOR) == traced(lambda x: [x * 2.0 + 1.0], *VECTOR)
    for _ in range(3):  # functions are numbered through, so they have other names now
        in_graph(lambda x: x + 1).get_concrete_function(tf.TensorSpec([3]))
    assert traced(lambda x: [in_graph(tf.sin)(x)], *VECTOR) == traced(lambda x: [in_graph(tf.sin)(x)], *VECTOR)


def test_shapes_and_types_count():
    def function(x):
        return [tf.reduce_sum(x)]

    prints = [traced(function, shape) for shape in ([3], [4], [3, 1], [])]
    assert len({*prints, traced(function, [3], dtype=tf.float64)}) == 5
    assert traced(function, *VECTOR) == prints[0]


def loop(trips, factor, **settings):
    def function(x):
        return [tf.while_loop(lambda i, _: i < trips, lambda i, z: (i + 1, z * factor), (0, x), **settings)[1]]

    return function


def branches(first, second):
    return lambda x: [tf.cond(x[0] > 0, lambda: first(x), lambda: second(x))]


def chosen(*factors):
    return lambda x: [tf.switch_case(tf.cast(x[0], tf.int32), [lambda c=c: x * c for c in factors])]


def with_gradient(factor):
    @tf.custom_gradient
    def function(x):
        return 2.0 * x, lambda upstream: upstream * factor

    return function


def in_loop(function):
    return lambda x: tf.while_loop(lambda i, _: i < 3, lambda i, z: (i + 1, function(z)), (0, x), maximum_iterations=4)[
        1
    ]


def bound(value, function):
    """`function` of x and of a value that it closes over."""
    return lambda x: [function(x, value)]


def swapped(function):
    return lambda *x: function(*x)[::-1]


def sum_and_product(x, y):
    return [x + y, x * y]


@in_graph
def difference_and_product(x, y):
    return x - y, x * y


@in_graph
def product_and_difference(x, y):
    difference = x - y
    return x * y, difference


TWICE, THRICE = in_graph(lambda x: x * 2.0), in_graph(lambda x: x * 3.0)
BOTH = tf.compat.v1.wrap_function(lambda x: (tf.sin(x), tf.cos(tf.sin(x))), [tf.TensorSpec([3])])


def fetched(*order):
    """A sine and what is made of it, returned in this order; the nodes of the function are the same."""
    outputs = [BOTH.outputs[1].op.inputs[0], BOTH.outputs[1]]
    outputs = [outputs[k] for k in order]
    return lambda x: tf.nest.flatten(BOTH.prune(BOTH.inputs[0], outputs)(x))


DIFFERENT = {
    "a constant": (lambda x: [x * 2.0], lambda x: [x * 2.0000002], VECTOR),
    "the sign of a zero": (lambda x: [x * 0.0], lambda x: [x * -0.0], VECTOR),
    "the type of a constant": (
        bound(tf.constant(2), lambda x, c: x * tf.cast(c, x.dtype)),
        lambda x: [x * 2.0],
        VECTOR,
    ),
    "a large constant": (
        lambda x: [x + np.arange(200, dtype=np.float32)],
        lambda x: [x + np.arange(200, dtype=np.float32)[::-1]],
        LONG,
    ),
    "a closure": (bound(2.0, lambda x, c: x * c), bound(3.0, lambda x, c: x * c), VECTOR),
    "a small tensor in a closure": (
        bound(tf.constant([1.0, 2, 3]), tf.add),
        bound(tf.constant([1.0, 2, 4]), tf.add),
        VECTOR,
    ),
    "the order of operations": (lambda x: [tf.sin(tf.exp(x))], lambda x: [tf.exp(tf.sin(x))], VECTOR),
    "the order of operands": (lambda x, y: [x - y], lambda x, y: [y - x], PAIR),
    "the order of outputs": (sum_and_product, swapped(sum_and_product), PAIR),
    "arguments as outputs": (lambda x, y: [x, y], lambda x, y: [y, x], PAIR),
    "an argument twice": (lambda x, y: [x, x], lambda x, y: [x, y], PAIR),
    "the number of outputs": (lambda x: [x + 1.0], lambda x: [x + 1.0] * 2, VECTOR),
    "an unused argument": (lambda x, y: [x + x], lambda x, y: [y + y], PAIR),
    "a static attribute": (lambda x: [tf.matmul(x, x)], lambda x: [tf.matmul(x, x, transpose_b=True)], MATRIX),
    "another": (lambda x: [tf.cumsum(x)], lambda x: [tf.cumsum(x, exclusive=True)], MATRIX),
    "an axis": (lambda x: [tf.reduce_sum(x, 0)], lambda x: [tf.reduce_sum(x, 1)], MATRIX),
    "a slice": (lambda x: [x[:1]], lambda x: [x[1:2]], VECTOR),
    "a seed": (
        lambda x: [x + tf.random.stateless_normal([3], [1, 2])],
        lambda x: [x + tf.random.stateless_normal([3], [1, 3])],
        VECTOR,
    ),
    "the seed of an operation with a state": (
        lambda x: [x + tf.random.normal([3], seed=1)],
        lambda x: [x + tf.random.normal([3], seed=2)],
        VECTOR,
    ),
    "trips of a loop": (loop(3, 2.0), loop(4, 2.0), VECTOR),
    "the body of a loop": (loop(3, 2.0), loop(3, 2.5), VECTOR),
    "the longest that a loop may run": (loop(3, 2.0, maximum_iterations=2), loop(3, 2.0, maximum_iterations=1), VECTOR),
    "branches": (branches(tf.sin, tf.cos), branches(tf.cos, tf.sin), VECTOR),
    "branches that are functions": (branches(TWICE, THRICE), branches(THRICE, TWICE), VECTOR),
    "the order of many branches": (chosen(1.0, 2.0, 3.0), chosen(1.0, 3.0, 2.0), VECTOR),
    "the function that is called": (lambda x: [TWICE(x)], lambda x: [THRICE(x)], VECTOR),
    "the order of calls": (
        lambda x: [TWICE(THRICE(x)) + TWICE(x)],
        lambda x: [THRICE(TWICE(x)) + THRICE(x)],
        VECTOR,
    ),
    "one function or two": (lambda x: [TWICE(x) + TWICE(x)], lambda x: [TWICE(x) + THRICE(x)], VECTOR),
    "which of two functions again": (
        lambda x: [TWICE(x) + THRICE(x) - TWICE(x)],
        lambda x: [TWICE(x) + THRICE(x) - THRICE(x)],
        VECTOR,
    ),
    "the order in which a function returns": (
        lambda x: [fetched(0, 1)(x)[0]],
        lambda x: [fetched(1, 0)(x)[0]],
        VECTOR,
    ),
    "the output of a call": (
        lambda x, y: [difference_and_product(x, y)[0]],
        lambda x, y: [difference_and_product(x, y)[1]],
        PAIR,
    ),
    "the order of a function's outputs": (
        lambda x, y: [difference_and_product(x, y)[0]],
        lambda x, y: [product_and_difference(x, y)[0]],
        PAIR,
    ),
    "the order of a function's arguments": (
        lambda x, y: [difference_and_product(x, y)[0]],
        lambda x, y: [difference_and_product(y, x)[0]],
        PAIR,
    ),
    "what is mapped": (
        lambda x: [tf.vectorized_map(tf.sin, x)],
        lambda x: [tf.vectorized_map(tf.cos, x)],
        VECTOR,
    ),
    "a gradient": (gradient_of(tf.sin), gradient_of(tf.cos), VECTOR),
    "a gradient of one's own": (gradient_of(with_gradient(3.0)), gradient_of(with_gradient(4.0)), VECTOR),
    "such a one in a function": (
        gradient_of(in_graph(with_gradient(3.0))),
        gradient_of(in_graph(with_gradient(4.0))),
        VECTOR,
    ),
    "such a one in a loop": (
        gradient_of(in_loop(with_gradient(3.0))),
        gradient_of(in_loop(with_gradient(4.0))),
        VECTOR,
    ),
    "a gradient that is stopped": (
        gradient_of(lambda x: x * tf.stop_gradient(x)),
        gradient_of(lambda x: x * x),
        VECTOR,
    ),
    "a constant deep inside": (everything(2.0), everything(2.5), VECTOR),
    "a loop deep inside": (everything(2.0, 3), everything(2.0, 4), VECTOR),
    "the type of a captured tensor": (
        bound(DOUBLES, lambda x, c: x + tf.cast(c, x.dtype)),
        bound(INTEGERS, lambda x, c: x + tf.cast(c, x.dtype)),
        LONG,
    ),
    "the shape of a captured tensor": (
        bound(FIRST, lambda x, c: x + tf.reduce_sum(c)),
        bound(COLUMN, lambda x, c: x + tf.reduce_sum(c)),
        LONG,
    ),
    "which of two captured tensors": (
        lambda x: [x + FIRST - SECOND + FIRST],
        lambda x: [x + FIRST - SECOND + SECOND],
        LONG,
    ),
    "one captured tensor or two": (lambda x: [x + FIRST - FIRST], lambda x: [x + FIRST - SECOND], LONG),
}


@pytest.mark.parametrize("what", DIFFERENT)
def test_what_computes_something_else_has_another_fingerprint(what):
    first, second, shapes = DIFFERENT[what]
    assert traced(first, *shapes) != traced(second, *shapes)
    assert traced(first, *shapes) == traced(first, *shapes) and traced(second, *shapes) == traced(second, *shapes)


# --- random programs --------------------------------------------------------------------------------------------------

UNARY = {
    "sin": tf.sin,
    "neg": tf.negative,
    "twice": TWICE,
    "thrice": THRICE,
    "flip": lambda x: x[::-1],
    "sum": lambda x: tf.cumsum(x),
    "loop": in_loop(tf.sin),
    "loop of calls": in_loop(TWICE),
    "gradient": lambda x: gradient_of(lambda z: tf.sin(z) * tf.stop_gradient(x))(x)[0],
}
BINARY = {
    "add": tf.add,
    "sub": tf.subtract,
    "cond": lambda x, y: tf.cond(x[0] > 0, lambda: x, lambda: y),
    "call": lambda x, y: difference_and_product(x, y)[0],
    "llac": lambda x, y: product_and_difference(x, y)[1],
    "while": lambda x, y: tf.while_loop(lambda i, *_: i < 3, lambda i, a, b: (i + 1, b, a - b), (0, x, y))[1],
}
LEAVES = ("x", "y", 1.0, 2.0, "first", "second")


def random_tree(rng: np.random.Generator, depth: int):
    if depth == 0 or rng.random() < 0.2:
        return rng.choice(np.array(LEAVES, object))
    if rng.random() < 0.4:
        return (rng.choice(list(UNARY)), random_tree(rng, depth - 1))
    return (rng.choice(list(BINARY)), random_tree(rng, depth - 1), random_tree(rng, depth - 1))


def neighbour(rng: np.random.Generator, tree):
    """The same but for one place."""
    if not isinstance(tree, tuple):
        return rng.choice(np.array(LEAVES, object))
    operation, *operands = tree
    place = rng.integers(len(tree) + 1)
    if place == 0:
        return (rng.choice(list(UNARY if len(operands) == 1 else BINARY)), *operands)
    if place == len(tree):
        return (operation, *operands[::-1])
    operands[place - 1] = neighbour(rng, operands[place - 1])
    return (operation, *operands)


def program_of(trees):
    def value(tree, x, y):
        if isinstance(tree, tuple):
            operation, *operands = tree
            return (UNARY | BINARY)[operation](*(value(operand, x, y) for operand in operands))
        captured = {"x": x, "y": y, "first": FIRST[:3], "second": SECOND[:3]}
        return captured[tree] if isinstance(tree, str) else tf.fill([3], tree)

    return lambda x, y: [value(tree, x, y) for tree in trees]


def test_random_programs_with_equal_fingerprints_compute_the_same():
    """Of 100 small ones and two neighbours of each, those that share a fingerprint agree to the last bit.

    Captured tensors are not part of a program, so `first` and `second` are told apart by what they are given.
    """
    rng, alike = np.random.default_rng(0), defaultdict(list)
    for _ in range(100):
        trees = [random_tree(rng, 2), random_tree(rng, 1)]
        for near in (trees, [neighbour(rng, trees[0]), trees[1]], trees[::-1]):
            alike[traced(program_of(near), *PAIR)].append(near)
    assert len(alike) > 150 and max(map(len, alike.values())) > 1
    specs = [tf.TensorSpec([3])] * 2
    points = [[tf.constant(RNG.normal(size=3), tf.float32) for _ in range(2)] for _ in range(2)]
    for group in alike.values():
        graphs = [in_graph(program_of(trees)).get_concrete_function(*specs) for trees in group[:10]]
        for point in points:  # each graph is given what the first one captured
            given = [*point, *graphs[0].captured_inputs]
            results = [[x.numpy().tobytes() for x in graph.inference_fn.call_flat(*given)] for graph in graphs]
            assert all(result == results[0] for result in results), group


# --- programs that are shared -----------------------------------------------------------------------------------------


def numbers(*values: float) -> tf.Tensor:
    return tf.constant(values, tf.float32)


def test_equal_functions_have_one_program_and_others_their_own(programs):
    x = numbers(0.5, -1, 2)
    for k in range(3):
        np.testing.assert_allclose(Compiled(lambda x: [x * 2.0 + 1.0])(x)[0], x * 2 + 1)
        assert len(programs) == 1, k
    np.testing.assert_allclose(Compiled(lambda x: [x * 2.0 + 1.5])(x)[0], x * 2 + 1.5)
    assert len(programs) == 2
    np.testing.assert_allclose(Compiled(lambda x: [x * 2.0 + 1.0])(numbers(1, 2))[0], [3, 5])  # another shape
    assert len(programs) == 3
    np.testing.assert_allclose(Compiled(everything())(x)[0], everything()(x)[0], rtol=1e-5)
    np.testing.assert_allclose(Compiled(everything())(-x)[0], everything()(-x)[0], rtol=1e-5)
    assert len(programs) == 4


def test_a_function_that_has_come_to_mean_something_else_has_another_program(programs):
    factor = 2.0

    def function(x):
        return [x * factor]

    x = numbers(1, 2, 3)
    np.testing.assert_array_equal(Compiled(function)(x)[0], 2 * x)
    factor = 3.0
    np.testing.assert_array_equal(Compiled(function)(x)[0], 3 * x)
    assert len(programs) == 2


def test_programs_with_large_captured_tensors_are_given_their_own(programs):
    """Of either order, in functions, loops and branches; and more than once, since a program remembers nothing."""
    x = tf.ones([200])

    def difference(a, b):
        def function(x):
            looped = tf.while_loop(lambda i, _: i < 2, lambda i, z: (i + 1, z + a), (0, x))[1]
            return [looped - in_graph(lambda z: z * b)(x), tf.cond(x[0] > 0, lambda: a, lambda: b)]

        return function

    pairs = [(FIRST, SECOND), (SECOND, FIRST), (FIRST + 1, SECOND - 1)]
    callables = [Compiled(difference(a, b)) for a, b in pairs]
    for _ in range(2):
        for call, (a, b) in zip(callables, pairs, strict=True):
            results = call(x)
            np.testing.assert_allclose(results[0], x + 2 * a - b, rtol=1e-6, atol=1e-6)
            np.testing.assert_array_equal(results[1], a)
    assert len(programs) == 1


def test_the_order_in_which_tensors_are_captured_is_that_of_the_program(programs):
    x = tf.zeros([200])
    np.testing.assert_array_equal(Compiled(lambda x: [x + FIRST - SECOND])(x)[0], FIRST - SECOND)
    np.testing.assert_array_equal(Compiled(lambda x: [x + SECOND - FIRST])(x)[0], SECOND - FIRST)
    np.testing.assert_array_equal(Compiled(lambda x: [x + FIRST - FIRST])(x)[0], x)
    assert len(programs) == 2


def test_an_argument_and_a_captured_tensor_may_share_a_program(programs):
    x = tf.ones([200])
    np.testing.assert_array_equal(Compiled(lambda x, y: [x - y])(x, FIRST)[0], x - FIRST)
    np.testing.assert_array_equal(Compiled(lambda x: [x - SECOND])(x)[0], x - SECOND)
    np.testing.assert_array_equal(Compiled(lambda x, y: [x - y])(FIRST, x)[0], FIRST - x)
    assert len(programs) == 1


def test_small_tensors_are_part_of_the_program(programs):
    x = numbers(1, 2, 3)
    for k, small in enumerate((numbers(1, 1, 1), numbers(1, 1, 2))):
        np.testing.assert_array_equal(Compiled(bound(small, tf.add))(x)[0], x + small)
        assert len(programs) == k + 1


def test_variables_are_read_when_a_program_runs(programs):
    x, first, second = numbers(1, 2, 3), tf.Variable([1.0, 2, 3]), tf.Variable([4.0, 5, 6])
    plus_first, plus_second = Compiled(lambda x: [x + first]), Compiled(lambda x: [x + second])
    np.testing.assert_array_equal(plus_first(x)[0], [2, 4, 6])
    np.testing.assert_array_equal(plus_second(x)[0], [5, 7, 9])
    second.assign([7, 8, 9])
    np.testing.assert_array_equal(plus_second(x)[0], [8, 10, 12])
    np.testing.assert_array_equal(plus_first(x)[0], [2, 4, 6])
    assert len(programs) == 1


def test_variables_of_other_shapes_and_types_give_their_own_results(programs):
    """The shape of a variable is not in the graph, unless something depends on it; XLA goes by the variable itself."""
    x = numbers(1, 2, 3)
    for shape in ([3], [2, 3], [4, 3], [1], []):
        variable = tf.Variable(tf.fill(shape, 2.0))
        for function in (
            tf.add,
            lambda x, v: tf.reduce_sum(tf.reshape(v, [-1])) * x,
            lambda x, v: tf.reduce_mean(v) + x,
        ):
            np.testing.assert_allclose(Compiled(bound(variable, function))(x)[0], function(x, variable))
            slope = gradient_of(lambda x, v=variable, f=function: f(x, v) ** 2)
            np.testing.assert_allclose(Compiled(slope)(x)[0], slope(x)[0])
    integers = tf.Variable([1, 2, 3])
    np.testing.assert_array_equal(Compiled(lambda x: [x + tf.cast(integers, x.dtype)])(x)[0], [2, 4, 6])


@pytest.mark.parametrize("what", [what for what in DIFFERENT if "with a state" not in what])  # that draws anew
def test_programs_of_different_functions_give_their_own_results(what, programs):
    """One after the other, and the first again; as when TensorFlow compiles each by itself."""
    first, second, shapes = DIFFERENT[what]
    point = [tf.constant(np.random.default_rng(1).uniform(0.1, 1, shape), tf.float32) for shape in shapes]
    for function in (first, second, first):
        expected = tf.function(lambda *x, f=function: f(*x), jit_compile=True, autograph=False)(*point)
        assert [x.numpy().tobytes() for x in Compiled(function)(*point)] == [x.numpy().tobytes() for x in expected]
    assert len(programs) == 2


def test_a_second_chain_with_other_data_and_another_seed_is_not_compiled(programs):
    """Seed, stepsize and data are passed in; the draws are those of a program of the chain's own."""

    def log_lik(params, dataset):
        return -0.5 * tf.reduce_sum((dataset["x"] - params["theta"]) ** 2)

    def end_of(seed, shift, stepsize):
        data = InMemory({"x": np.linspace(0, 1, 40) + shift})
        model = Model(log_lik, None, data, Returns.SUM, tf.float64)
        dynamics, iterations = {"theta": sghmc(0.1, 3)}, Iterations({"theta": ()}, tf.float64)
        kernel = build(Product(model, without_replacement(40, 5), plain(model), dynamics, iterations))
        given = constants(seed, {"theta": stepsize}, {}, tf.float64, range(1))
        state = kernel.init(given, {"theta": tf.zeros([1], tf.float64)})
        chain = Loop(Prepared(kernel, given, state, data), NOTHING, block_length=4)
        leaves = chain.advance(chain.flatten(state), Plan(4, thin=None).stretch(0, 4, chain.capacity)).leaves
        chain.feed.close()
        return chain.params_of_chains(leaves)["theta"].tolist()

    settings = [(1, 0.0, 1e-3), (2, 0.0, 1e-3), (1, 5.0, 1e-3), (1, 0.0, 1e-4)]
    shared = [end_of(*chain) for chain in settings]
    assert len(programs) == 2  # one draws, one moves
    for chain, end in zip(settings, shared, strict=True):
        programs.clear()
        assert end_of(*chain) == end and len(programs) == 2
    assert len({end[0] for end in shared}) == 4


def test_a_program_keeps_no_tensor_alive_that_it_was_traced_with(programs):
    def captures() -> tuple[Callable, weakref.ref]:
        large = tf.constant(np.arange(200), tf.float32)
        compiled_once = Compiled(lambda x: [x + in_loop(lambda z: z + large)(x)])
        np.testing.assert_array_equal(compiled_once(tf.zeros([200]))[0], 3 * large)
        return compiled_once, weakref.ref(large)

    compiled_once, large = captures()
    gc.collect()
    assert large() is not None  # its function still has it
    del compiled_once
    gc.collect()
    assert large() is None and len(programs) == 1
    other = tf.fill([200], 2.0)  # and the program still runs
    np.testing.assert_array_equal(Compiled(lambda x: [x + in_loop(lambda z: z + other)(x)])(other)[0], 5 * other)
    assert len(programs) == 1
