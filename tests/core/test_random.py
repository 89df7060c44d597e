"""The generator: known answers, agreement inside and outside XLA, and the laws of what it draws.

All seeds are fixed. Each goodness-of-fit comparison is made at ALPHA = 1e-8; there are fewer than 100 in this folder,
so over the choice of seeds the folder raises a false alarm with probability below 1e-6. A comparison that could not
fail would be worth nothing: the same functions are shown to reject samplers with known defects.
"""

from __future__ import annotations

from itertools import combinations, permutations
from math import comb

import numpy as np
import pytest
import tensorflow as tf
from scipy import stats

from sgmcmc.core.random import Purpose, Stream, child_seed, fresh_seed, keys, threefry2x32

ALPHA = 1e-8
U32 = 2**32


def u32(x: int) -> tf.Tensor:
    return tf.constant(x, tf.uint32)


def counters(*numbers: int) -> tf.Tensor:
    return tf.constant(numbers, tf.uint32)


def stream_of(seed: int, purpose: Purpose, chains: int | range) -> Stream:
    return Stream(keys(seed, purpose, chains))


class FixedBits(Stream):
    """A stream whose words are given, to reach corners that no seed of a test would find."""

    def __init__(self, high, low) -> None:
        self._words = tuple(tf.constant(np.asarray(w)[None, None], tf.uint32) for w in (high, low))

    def bits(self, counters, elements):
        return self._words


def chi_square_p(counts: np.ndarray, expected: np.ndarray) -> float:
    """p-value of Pearson's test; every cell expects at least 20, so the chi-square approximation is good."""
    counts, expected = np.ravel(counts).astype(float), np.ravel(expected)
    assert expected.min() >= 20 and np.isclose(counts.sum(), expected.sum())
    return stats.chi2.sf(np.sum((counts - expected) ** 2 / expected), len(counts) - 1)


# --- the cipher -------------------------------------------------------------------------------------------------------

KNOWN_ANSWERS = [  # Salmon et al. (2011), Random123's kat_vectors: key, counter, result
    ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
    ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
    ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
]


@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize(("key", "ctr", "answer"), KNOWN_ANSWERS)
def test_threefry_gives_the_published_answers(key, ctr, answer, jit_compile):
    encrypt = tf.function(threefry2x32, jit_compile=jit_compile)
    assert tuple(int(x) for x in encrypt(*map(u32, (*key, *ctr)))) == answer


def test_threefry_broadcasts_element_by_element():
    key, elements = (u32(3), u32(4)), np.arange(50, dtype=np.uint32)
    together = threefry2x32(*key, tf.constant(elements), u32(9))
    alone = [threefry2x32(*key, u32(int(e)), u32(9)) for e in elements]
    for word in range(2):
        np.testing.assert_array_equal(together[word].numpy(), [int(pair[word]) for pair in alone])


# --- one stream in every mode -----------------------------------------------------------------------------------------

DRAWS = {
    "bits": lambda s, t: s.bits(t, tf.range(40)),
    "float32 normals": lambda s, t: s.normal(t, tf.range(20000), tf.float32),
    "float64 normals": lambda s, t: s.normal(t, tf.range(20000), tf.float64),
    "uniforms": lambda s, t: s.uniform(t, tf.range(40)),
    "integers": lambda s, t: s.integers(t, tf.range(40), 1000),
    "permutation, small": lambda s, t: s.permutation(t, tf.range(7)[None], 11),
    "permutation, large": lambda s, t: s.permutation(t, tf.range(40)[None], 5000),
}


@pytest.mark.parametrize("what", DRAWS)
def test_draws_are_the_same_inside_and_outside_xla(what):
    stream, t = stream_of(1, Purpose.NOISE, 3), counters(17, 0, 2**32 - 1)
    outside = DRAWS[what](stream, t)
    inside = tf.function(lambda t: DRAWS[what](stream, t), jit_compile=True)(t)
    for a, b in zip(tf.nest.flatten(outside), tf.nest.flatten(inside), strict=True):
        if "normals" in what:
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=0, atol=2e-6)
        else:
            np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_keys_passed_as_a_tensor_of_a_program_are_the_same_keys():
    """As the compiled programs have them, that they need not be compiled anew for another seed."""
    by_key = tf.function(lambda key, t: DRAWS["integers"](Stream(key), t), jit_compile=True)
    for seed in (1, 2):
        key, t = keys(seed, Purpose.NOISE, 3), counters(17, 5)
        assert key.dtype == np.uint32 and key.shape == (3, 2)
        np.testing.assert_array_equal(by_key(tf.constant(key), t).numpy(), DRAWS["integers"](Stream(key), t).numpy())


@pytest.mark.parametrize("what", DRAWS)
def test_a_chain_draws_the_same_however_many_run_beside_it(what):
    few, many, later = (DRAWS[what](stream_of(5, Purpose.NOISE, c), counters(2, 9)) for c in (2, 7, range(4, 7)))
    for a, b, c in zip(*map(tf.nest.flatten, (few, many, later)), strict=True):
        assert (a.shape[1], b.shape[1], c.shape[1]) == (2, 7, 3)
        np.testing.assert_array_equal(a.numpy(), b.numpy()[:, :2])
        np.testing.assert_array_equal(c.numpy(), b.numpy()[:, 4:])


@pytest.mark.parametrize("what", DRAWS)
def test_a_counter_draws_the_same_whatever_others_are_drawn_with_it(what):
    stream, numbers = stream_of(5, Purpose.NOISE, 2), (2**32 - 1, 0, 7, 1, 7)
    together = DRAWS[what](stream, counters(*numbers))
    for k, number in enumerate(numbers):
        alone = DRAWS[what](stream, counters(number))
        for a, b in zip(tf.nest.flatten(together), tf.nest.flatten(alone), strict=True):
            assert a.shape[0] == 5 and b.shape[0] == 1
            np.testing.assert_array_equal(a.numpy()[k], b.numpy()[0])


def test_an_element_draws_the_same_however_many_are_drawn():
    stream, t = stream_of(5, Purpose.NOISE, 3), counters(8, 3)
    for draw in (
        lambda k: stream.normal(t, tf.range(k), tf.float32),
        lambda k: stream.uniform(t, tf.range(k)),
        lambda k: stream.integers(t, tf.range(k), 1000),
        lambda k: stream.permutation(t, tf.range(k)[None], 90),
    ):
        np.testing.assert_array_equal(draw(30).numpy()[..., :4], draw(4).numpy())


def test_elements_may_be_given_in_any_order_and_differ_between_chains():
    stream, t = stream_of(5, Purpose.NOISE, 2), counters(8, 9)
    all_of_them = stream.normal(t, tf.range(10), tf.float32).numpy()
    chosen = np.array([[9, 0, 3], [4, 4, 1]], np.int32)
    some = stream.normal(t, tf.constant(chosen), tf.float32).numpy()
    np.testing.assert_array_equal(some, np.take_along_axis(all_of_them, np.stack([chosen] * 2), axis=2))


# --- different streams ------------------------------------------------------------------------------------------------


def test_streams_of_other_seeds_purposes_chains_and_counters_share_nothing():
    streams = [stream_of(seed, purpose, 2) for seed in (0, 1, 2**32, 2**63 - 1, -1) for purpose in Purpose]
    words = []
    for stream in streams:
        high, low = stream.bits(counters(0, 1, 2**32 - 1), tf.range(16))
        words.append(high.numpy().astype(np.uint64) << np.uint64(32) | low.numpy())
    words = np.concatenate([w.ravel() for w in words])
    assert len(np.unique(words)) == len(words)  # two equal words of 64 bits would have probability 1e-12


def test_streams_are_uncorrelated():
    """All pairs of 14 series that differ in one thing each, correlated with 2e5 normals: z below the ALPHA quantile."""
    m = 200_000
    base = stream_of(1, Purpose.NOISE, 3)
    first, then = base.normal(counters(0, 1), tf.range(m + 2), tf.float64).numpy()
    series = [*first[:, :m], first[0, 1 : m + 1], first[0, 2:]]  # three chains; neighbouring elements
    series += list(then[:, :m])  # the next step
    for other in (
        stream_of(2, Purpose.NOISE, 1),
        stream_of(1 + 2**32, Purpose.NOISE, 1),
        stream_of(1, Purpose.MONITOR, 1),
        stream_of(1, Purpose.REFRESH, 1),
        stream_of(1, Purpose.INITIAL, 1),
        stream_of(1, Purpose.MINIBATCH, 1),
    ):
        series.append(other.normal(counters(0), tf.range(m), tf.float64).numpy()[0, 0])
    z = np.corrcoef(np.array(series)) * np.sqrt(m)
    pairs = z[np.triu_indices(len(series), 1)]
    assert np.abs(pairs).max() < stats.norm.isf(ALPHA / 2 / len(pairs))
    squares = np.corrcoef(np.array(series) ** 2)[np.triu_indices(len(series), 1)] * np.sqrt(m)
    assert np.abs(squares).max() < stats.norm.isf(ALPHA / 2 / len(pairs))


def test_each_of_the_64_bits_is_fair_and_independent_of_its_neighbours_over_time():
    stream, m, steps = stream_of(3, Purpose.NOISE, 100), 100, 40
    words = np.stack(stream.bits(counters(*range(steps)), tf.range(m)), axis=1)  # [steps, 2, chains, elements]
    bits = (words[..., None] >> np.arange(32, dtype=np.uint32) & 1).astype(bool)  # [steps, 2, chains, elements, 32]
    n = steps * 100 * m
    threshold = stats.norm.isf(ALPHA / 2 / 256)
    ones = bits.sum(axis=(0, 2, 3))
    assert np.abs((ones - n / 2) / np.sqrt(n / 4)).max() < threshold
    for axis in (0, 2, 3):  # a step, a chain, an element later
        ahead = np.moveaxis(bits, axis, 0)
        differ = ahead[1:] ^ ahead[:-1]
        word_axis = 1 if axis == 0 else 2
        agree = np.moveaxis(differ, word_axis, 0).reshape(2, -1, 32).sum(axis=1)
        k = differ.size / 64
        assert np.abs((agree - k / 2) / np.sqrt(k / 4)).max() < threshold


def test_child_and_fresh_seeds():
    children = {child_seed(seed, purpose) for seed in (0, 1, 2**32, 2**63 - 1) for purpose in Purpose}
    assert len(children) == 4 * len(Purpose) and all(0 <= c < 2**64 for c in children)
    assert child_seed(7, Purpose.MODE) == child_seed(7, Purpose.MODE)
    assert len({fresh_seed() for _ in range(20)}) == 20


# --- normals ----------------------------------------------------------------------------------------------------------


def normals_accepted(x: np.ndarray) -> bool:
    """Kolmogorov-Smirnov, four moments and the counts in both tails, of presumed independent standard normals."""
    m = x.size
    p_values = [stats.kstest(x, "norm").pvalue]
    moments = {1: (0, 1), 2: (1, 2), 3: (0, 15), 4: (3, 96)}  # k: (E X^k, Var X^k)
    p_values += [2 * stats.norm.sf(abs(np.mean(x**k) - mean) * np.sqrt(m / var)) for k, (mean, var) in moments.items()]
    for bound in (2.0, 3.0, 4.0, 4.5):
        for tail in (x > bound, x < -bound):
            p_values.append(stats.binomtest(int(tail.sum()), m, stats.norm.sf(bound)).pvalue)
    return min(p_values) > ALPHA / len(p_values)


@pytest.mark.parametrize("dtype", [tf.float32, tf.float64])
def test_normals_have_the_normal_law(dtype):
    x = stream_of(11, Purpose.NOISE, 10).normal(counters(*range(10)), tf.range(20_000), dtype).numpy()
    assert x.dtype == dtype.as_numpy_dtype
    x = x.astype(np.float64).ravel()  # 2e6
    assert normals_accepted(x)
    # Controls: 1% too wide, shifted by 1% of a standard deviation, tails cut at 3.9, a Student t with 60 degrees.
    rng = np.random.default_rng(0)
    assert not normals_accepted(1.01 * x)
    assert not normals_accepted(x + 0.01)
    assert not normals_accepted(np.clip(x, -3.9, 3.9))
    assert not normals_accepted(x / np.sqrt(rng.chisquare(60, x.size) / 60))


@pytest.mark.parametrize(("dtype", "rtol", "atol"), [(tf.float32, 2e-6, 1e-6), (tf.float64, 1e-13, 1e-15)])
def test_normals_are_the_exact_quantiles_of_their_bits(dtype, rtol, atol):
    """Against scipy's inverse survival function, from the last word of the tail to the centre, for both signs."""
    magnitude = np.unique(np.concatenate([np.arange(64), np.geomspace(64, 2**31 - 1, 4000), 2**31 - 1 - np.arange(64)]))
    magnitude = magnitude.astype(np.uint64)
    low = np.full(len(magnitude), 2**31, np.uint64)
    tail = (magnitude + 0.5) / U32 if dtype == tf.float32 else (magnitude + (low + 0.5) / U32) / U32
    for sign in (0, 1):
        words = FixedBits(magnitude << np.uint64(1) | np.uint64(sign), low)
        x = words.normal(counters(0), tf.range(1), dtype).numpy()[0, 0]
        assert np.isfinite(x).all() and (np.sign(x)[:1000] == (1 if sign == 0 else -1)).all()
        x, exact = np.abs(x.astype(np.float64)), stats.norm.isf(tail)
        # In float32 Giles' polynomial is fitted up to 5.4 standard deviations; a draw in 7e7 goes beyond, where the
        # relative error grows to 4e-4 at the largest number there is, 6.34.
        central = tail > 2.0**-24 if dtype == tf.float32 else tail > 0
        np.testing.assert_allclose(x[central], exact[central], rtol=rtol, atol=atol)
        np.testing.assert_allclose(x[~central], exact[~central], rtol=5e-4)
        assert (np.diff(x) <= 0).all()  # the farther in the tail, the larger


def test_float32_normals_reach_six_standard_deviations():
    x = FixedBits([0, 1], [0, 0]).normal(counters(0), tf.range(2), tf.float32).numpy()[0, 0]
    assert x[0] > 6.3 and x[1] == -x[0]


def test_float64_normals_reach_nine_standard_deviations():
    x = FixedBits([0, 1], [0, 0]).normal(counters(0), tf.range(2), tf.float64).numpy()[0, 0]
    np.testing.assert_allclose(x, [stats.norm.isf(2.0**-65), -stats.norm.isf(2.0**-65)], rtol=1e-12)


# --- uniforms and integers --------------------------------------------------------------------------------------------


def test_uniforms_are_uniform():
    u = stream_of(4, Purpose.MINIBATCH, 10).uniform(counters(*range(5)), tf.range(20_000)).numpy().ravel()
    assert u.dtype == np.float64 and u.min() > 0 and u.max() < 1
    assert stats.kstest(u, "uniform").pvalue > ALPHA
    assert stats.kstest(u**1.01, "uniform").pvalue < ALPHA


def test_uniforms_at_the_ends_of_the_words():
    u = FixedBits([0, U32 - 1, 2**31], [0, U32 - 1, 0]).uniform(counters(0), tf.range(3)).numpy()[0, 0]
    assert 0 < u[0] < 1e-19 and u[1] <= 1.0 and abs(u[2] - 0.5) < 1e-15


@pytest.mark.parametrize("bound", [1, 2, 7, 90, 1000])
def test_integers_are_uniform_and_in_range(bound):
    draws = stream_of(4, Purpose.MINIBATCH, 20).integers(counters(*range(4)), tf.range(5000), bound).numpy().ravel()
    assert draws.dtype == np.int32 and draws.min() >= 0 and draws.max() < bound
    if bound > 1:
        counts = np.bincount(draws, minlength=bound)
        assert chi_square_p(counts, np.full(bound, len(draws) / bound)) > ALPHA
        control = np.bincount((draws * (1 + (draws % 17 == 1))) % bound, minlength=bound)  # a bias in 1 of 17 values
        assert bound == 2 or chi_square_p(control, np.full(bound, len(draws) / bound)) < ALPHA


@pytest.mark.parametrize("bound", [1, 2, 3, 1000, 2**31 - 1])
def test_integers_at_the_ends_of_the_words_are_the_exact_floor(bound):
    high, low = [0, U32 - 1, U32 - 1, 0x55555555, 0xAAAAAAAA], [0, U32 - 1, 0, 0x55555556, 0xAAAAAAAA]
    draws = FixedBits(high, low).integers(counters(0), tf.range(5), bound).numpy()[0, 0]
    assert draws.tolist() == [(h * U32 + w) * bound // 2**64 for h, w in zip(high, low, strict=True)]


# --- permutations, and integers without replacement -------------------------------------------------------------------


BOUNDS = [1, 2, 3, 4, 5, 10, 16, 17, 90, 1000, 4096, 4097, 5000]


@pytest.mark.parametrize("bound", BOUNDS)
def test_permutation_is_a_bijection(bound):
    stream = stream_of(6, Purpose.MINIBATCH, 3)
    values = stream.permutation(counters(0, 1, 2**32 - 1), tf.range(bound)[None], bound).numpy()
    assert values.shape == (3, 3, bound) and values.dtype == np.int32
    np.testing.assert_array_equal(np.sort(values, axis=2), np.broadcast_to(np.arange(bound), values.shape))
    if bound >= 90:  # each counter and chain has one of its own
        assert len({row.tobytes() for row in values.reshape(9, bound)}) == 9


@pytest.mark.parametrize(("bound", "jit_compile"), [*((b, False) for b in BOUNDS), (10, True), (4097, True)])
def test_values_of_a_permutation_do_not_depend_on_which_positions_are_asked(bound, jit_compile):
    """Positions may be common to all counters, or different for each, in any order and more than once."""
    stream, t = stream_of(6, Purpose.MINIBATCH, 2), counters(3, 4, 2**32 - 1)
    whole = stream.permutation(t, tf.range(bound)[None], bound).numpy()
    draw = tf.function(lambda t, at: stream.permutation(t, at, bound), jit_compile=jit_compile, autograph=False)
    rng = np.random.default_rng(0)
    for at in (rng.integers(0, bound, (1, 7)), rng.integers(0, bound, (3, 7)), np.arange(bound - 7, bound)[None, ::-1]):
        at = np.maximum(at, 0)
        values = draw(t, tf.constant(at, tf.int32)).numpy()
        expected = np.take_along_axis(whole, np.broadcast_to(at, (3, 7))[:, None, :], axis=2)
        np.testing.assert_array_equal(values, expected)


def subset_p(samples: np.ndarray, n_data: int) -> float:
    """p-value of the hypothesis that all n-subsets of {0, ..., N-1} are equally likely; samples [m, n]."""
    m, n = samples.shape
    position = {subset: i for i, subset in enumerate(combinations(range(n_data), n))}
    code = np.sort(samples, axis=1) @ (n_data ** np.arange(n))
    codes = {int(np.array(subset) @ (n_data ** np.arange(n))): i for subset, i in position.items()}
    values, counts = np.unique(code, return_counts=True)
    cells = np.zeros(comb(n_data, n))
    for value, count in zip(values, counts, strict=True):
        cells[codes[int(value)]] = count
    return chi_square_p(cells, np.full(len(cells), m / len(cells)))


def one_round_feistel(rng: np.random.Generator, m: int, n: int, n_data: int) -> np.ndarray:
    """What the sampler would draw with one round instead of twelve: a random shift of the left half."""
    side = int(np.ceil(np.sqrt(n_data)))
    hashes = rng.integers(0, side, (m, side))  # an ideal round function: its values, by the right half
    x = np.tile(np.arange(n), (m, 1))
    outside = np.ones_like(x, bool)
    while outside.any():
        left, right = x // side, x % side
        image = right * side + (left + np.take_along_axis(hashes, right, axis=1)) % side
        x, outside = np.where(outside, image, x), np.where(outside, image, x) >= n_data
    return x


def distinct(seed: int, n_chains: int, steps: int, n: int, n_data: int) -> np.ndarray:
    """[steps * n_chains, n]: the first n of as many permutations."""
    stream = stream_of(seed, Purpose.MINIBATCH, n_chains)
    draw = tf.function(lambda t: stream.permutation(t, tf.range(n)[None], n_data), jit_compile=True)
    draws = draw(counters(*range(steps))).numpy().reshape(-1, n)
    assert draws.dtype == np.int32 and draws.min() >= 0 and draws.max() < n_data
    if n > 1:
        assert (np.diff(np.sort(draws, axis=1), axis=1) > 0).all()
    return draws


@pytest.mark.parametrize(("n_data", "n"), [(2, 1), (3, 2), (5, 2), (5, 4), (7, 3), (9, 8), (12, 4)])
def test_all_subsets_are_equally_likely(n_data, n):
    # 4e5 draws: an observation 4% too likely would be seen at N=12, n=4, one 2% too likely at N=5, n=2.
    samples = distinct(seed=2, n_chains=10_000, steps=40, n=n, n_data=n_data)
    assert subset_p(samples, n_data) > ALPHA


@pytest.mark.parametrize(("n_data", "n"), [(5, 2), (7, 3), (12, 4)])
def test_biased_samplers_of_subsets_are_rejected(n_data, n):
    rng, m = np.random.default_rng(0), 400_000
    assert subset_p(np.argsort(rng.random((m, n_data)), axis=1)[:, :n], n_data) > ALPHA  # the test itself is sound
    assert subset_p(one_round_feistel(rng, m, n, n_data), n_data) < ALPHA
    consecutive = (rng.integers(0, n_data, (m, 1)) + np.arange(n)) % n_data  # every single observation is uniform
    assert subset_p(consecutive, n_data) < ALPHA
    slightly = np.argsort(rng.random((m, n_data)) * (1 - 0.03 * (np.arange(n_data) == 0)), axis=1)[:, :n]
    assert subset_p(slightly, n_data) < ALPHA


@pytest.mark.parametrize(("n_data", "n"), [(3, 3), (4, 4), (5, 3), (6, 3)])
def test_samples_are_uniform_in_order_too(n_data, n):
    """Up to n = N - 2. Above that only as sets, which is all that a minibatch needs: on a grid of odd side a Feistel
    network makes even permutations only. On the grid of side 2 it makes all."""
    samples = distinct(seed=6, n_chains=10_000, steps=10, n=n, n_data=n_data)
    index = {p: i for i, p in enumerate(permutations(range(n_data), n))}
    counts = np.bincount([index[tuple(row)] for row in samples.tolist()], minlength=len(index))
    assert chi_square_p(counts, np.full(len(index), len(samples) / len(index))) > ALPHA


@pytest.mark.parametrize("n_data", [1, 2, 10, 90, 4096, 4097, 5000])
def test_n_equal_to_all_observations_gives_each_once(n_data):
    samples = distinct(seed=6, n_chains=2, steps=2, n=n_data, n_data=n_data)
    np.testing.assert_array_equal(np.sort(samples, axis=1), np.tile(np.arange(n_data), (4, 1)))


def pair_p_values(first: np.ndarray, second: np.ndarray, n_data: int) -> list[float]:
    """Pairs of distinct integers, tested where a Feistel network over a square grid could show its structure."""
    side = int(np.ceil(np.sqrt(n_data)))
    m, p_values = len(first), []
    for bin_of in (lambda x: x * 20 // n_data, lambda x: x % side % 20):  # the left half; the right half
        size = np.bincount(bin_of(np.arange(n_data)), minlength=20).astype(float)
        expected = (np.outer(size, size) - np.diag(size)) / (n_data * (n_data - 1)) * m
        counts = np.histogram2d(bin_of(first), bin_of(second), bins=[np.arange(21) - 0.5] * 2)[0]
        p_values.append(chi_square_p(counts, expected))
    for lag in (1, side, side + 1, side - 1):  # neighbours in the grid, of which each has n_data ordered pairs mod N
        near = ((second - first) % n_data == lag).sum()
        p_values.append(stats.binomtest(int(near), m, 1 / (n_data - 1)).pvalue)
    difference = ((second - first) % n_data - 1) * 50 // (n_data - 1)
    size = np.bincount((np.arange(1, n_data) - 1) * 50 // (n_data - 1), minlength=50)
    p_values.append(chi_square_p(np.bincount(difference, minlength=50), size / (n_data - 1) * m))
    return p_values


@pytest.mark.parametrize(("n_data", "steps"), [(1000, 3), (5000, 12)])
def test_pairs_from_many_observations_are_uniform(n_data, steps):
    samples = distinct(seed=9, n_chains=20_000, steps=steps, n=100, n_data=n_data)  # [20000 steps, 100]
    rng = np.random.default_rng(1)
    for i, j in ((0, 1), (0, n_data % 97), (int(np.ceil(np.sqrt(n_data))), 0), (98, 99)):
        assert min(pair_p_values(samples[:, i], samples[:, j], n_data)) > ALPHA
    every = np.bincount(samples.ravel(), minlength=n_data)
    # n of N without replacement: a count is binomial with variance (n/N)(1 - n/N) per draw, so Pearson's sum shrinks.
    expected, shrink = samples.size / n_data, 1 - 100 / n_data
    assert stats.chi2.sf(np.sum((every - expected) ** 2 / expected) / shrink, n_data - 1) > ALPHA
    biased = one_round_feistel(rng, len(samples), 2, n_data)
    assert min(pair_p_values(biased[:, 0], biased[:, 1], n_data)) < ALPHA


def test_successive_minibatches_are_independent():
    """The first index at step t and at t + 1, and of chain c and c + 1, in a 12 x 12 table."""
    samples = distinct(seed=12, n_chains=2000, steps=100, n=4, n_data=12).reshape(100, 2000, 4)
    for now, then in ((samples[:-1], samples[1:]), (samples[:, :-1], samples[:, 1:])):
        for i, j in ((0, 0), (0, 1), (3, 3)):
            counts = np.histogram2d(now[..., i].ravel(), then[..., j].ravel(), bins=[np.arange(13) - 0.5] * 2)[0]
            assert chi_square_p(counts, np.full(144, counts.sum() / 144)) > ALPHA
