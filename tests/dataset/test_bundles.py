"""Groups of very unequal size, as bundles of equal size."""

import numpy as np
import pandas as pd
import pytest
import tensorflow as tf

from sgmcmc import groups, sgld, sgldSetup, shards
from sgmcmc.dataset.bundles import COST, FEWEST, FILLED, Bundles, classes_of, column_of, in_slots, n_bundles
from sgmcmc.dataset.row_groups import RowGroups
from tests.dataset.test_row_groups import on_disk

FLOAT = np.dtype("float32")


def sizes_of(n_groups, seed=0):
    """Group sizes with a heavy tail: most groups have one or two rows, and few have many."""
    return 1 + np.floor(np.random.default_rng(seed).pareto(1.2, size=n_groups)).astype(int)


def table_of(sizes, seed=1):
    rng = np.random.default_rng(seed)
    g = np.repeat(np.arange(len(sizes)), sizes)
    return {"g": g, "x": rng.normal(size=len(g)), "k": rng.integers(0, 9, size=len(g)), "z": (g % 7).astype(float)}


def bundles_of(table, **options):
    return groups(table, by="g", constant=["z"], bundled=True, **options).opened("sgld", ["k"], FLOAT, may_bundle=True)


def groups_in(data):
    """The groups in the filled slots of each bundle, as tuples of all their entries."""
    found, words = [], np.zeros((data.size, data.layout.width), np.int64)
    data.read(0, words)
    views = data.layout.views(words)
    for one in data.classes:
        x, k, z, inside, filled = (views[one.entry(name)] for name in ("x", "k", "z", "inside", FILLED))
        for i, j in np.argwhere(filled):
            rows = inside[i, j] == 1
            found.append((float(z[i, j]), *x[i, j][rows].tolist(), *k[i, j][rows].tolist()))
    return found


@pytest.mark.parametrize("form", ["memory", "memmap", "parquet"])
def test_every_group_is_in_one_slot(form, tmp_path):
    table = table_of(sizes_of(500))
    data = bundles_of(table if form == "memory" else on_disk(form, table, tmp_path))
    assert isinstance(data, Bundles) and data.n_groups == 500 and data.in_memory == (form == "memory")
    frame = pd.DataFrame(table).astype({"x": "float32"})
    expected = [(float(part.z.iloc[0]), *part.x.tolist(), *part.k.tolist()) for _, part in frame.groupby("g")]
    assert sorted(groups_in(data)) == sorted(expected)


DISTRIBUTIONS = {
    "heavy tail": sizes_of(5000),
    "one long group": np.append(np.full(999, 2), 1000),
    "equal": np.full(300, 4),
    "uniform": np.arange(1, 400),
    "two": np.array([1, 50]),
}


@pytest.mark.parametrize("sizes", DISTRIBUTIONS.values(), ids=DISTRIBUTIONS)
def test_bundles_have_at_most_three_times_as_many_rows_as_the_data(sizes):
    classes = classes_of(sizes)
    assert np.array_equal(np.sort(np.concatenate(classes)), np.arange(len(sizes)))
    assert sum(len(one) * sizes[one].max() for one in classes) <= 2 * sizes.sum()
    n = n_bundles([sizes[one] for one in classes])
    data = bundles_of(table_of(sizes))
    assert data.size == n and FEWEST <= n <= len(sizes)
    assert n * data.layout.rows <= COST * sizes.sum()


@pytest.mark.parametrize("spread", [True, False])
def test_bundles_of_a_class_differ_by_at_most_one_group(spread):
    held, filled = in_slots(23, 10, spread)
    assert sorted(held[filled == 1]) == list(range(23)) and set(filled.sum(axis=1)) == {2, 3}
    consecutive = (np.diff(held, axis=1) == 1)[filled[:, 1:] == 1]
    assert consecutive.any() != spread


def test_words_and_tensors_are_unpacked_alike():
    data = bundles_of(table_of(sizes_of(200)))
    words = np.zeros((data.size, data.layout.width), np.int64)
    data.read(0, words)
    views, tensors = data.layout.views(words), data.all()
    assert views.keys() == tensors.keys() == data.layout.entries.keys()
    for name, x in views.items():
        np.testing.assert_array_equal(x, tensors[name])
        assert (x.dtype, x.shape[1:]) == data.layout.entries[name]


def log_lik(params, dataset):
    """A term that depends on all entries, and is not 0 for a group without rows."""
    of_rows = tf.exp(0.1 * params["theta"] * dataset["x"]) + tf.gather(params["a"], dataset["k"])
    return tf.math.log1p(tf.reduce_sum(dataset["inside"] * of_rows, axis=1)) * (1 + dataset["z"])


START = {"theta": 0.7, "a": np.linspace(0.1, 0.9, 9)}


def test_the_sum_over_bundles_is_that_over_groups():
    table = table_of(sizes_of(300))
    padded = groups(table, by="g", constant=["z"]).opened("sgld", ["k"], FLOAT)
    params = {name: tf.constant(x, tf.float32) for name, x in START.items()}
    data = bundles_of(table)
    of_bundles = data.summed(log_lik)(params, data.all())
    assert of_bundles.shape == [data.size]
    np.testing.assert_allclose(tf.reduce_sum(of_bundles), tf.reduce_sum(log_lik(params, padded.all())), rtol=1e-5)
    np.testing.assert_allclose(data.summed(log_lik)(params, data.part(slice(1, 3))), of_bundles[1:3], rtol=1e-6)


def test_the_posterior_is_that_of_padded_groups_and_terms_are_of_groups():
    table = table_of(sizes_of(300))
    bundled, padded = (
        sgldSetup(log_lik, groups(table, by="g", constant=["z"], bundled=b), START, 1e-4, integers=["k"]).posterior
        for b in (True, False)
    )
    theta = bundled.flat(START)
    thetas = np.stack([theta, theta + 0.1])
    assert bundled.log_lik_terms(thetas).shape == (2, 300)
    np.testing.assert_allclose(bundled.log_lik_terms(thetas), padded.log_lik_terms(thetas), rtol=1e-5)
    root = np.eye(len(theta))
    np.testing.assert_allclose(bundled.score_products(theta, root), padded.score_products(theta, root), rtol=1e-4)
    np.testing.assert_allclose(bundled.hessian(theta), padded.hessian(theta), rtol=1e-3, atol=1e-2)


def test_only_long_padding_is_avoided_unless_asked(monkeypatch):
    table = table_of(sizes_of(300))
    kinds = {}
    for many in (2**22, 10):
        monkeypatch.setattr("sgmcmc.dataset.bundles.MANY", many)
        for bundled in ("auto", True, False):
            of = groups(table, by="g", constant=["z"], bundled=bundled)
            kinds[many, bundled] = type(of.opened("sgld", ["k"], FLOAT, may_bundle=True))
    assert kinds == {
        (2**22, "auto"): RowGroups,
        (10, "auto"): Bundles,
        **{(many, True): Bundles for many in (2**22, 10)},
        **{(many, False): RowGroups for many in (2**22, 10)},
    }
    equal = groups(table_of(np.full(300, 4)), by="g", constant=["z"])
    assert type(equal.opened("sgld", ["k"], FLOAT, may_bundle=True)) is RowGroups
    assert type(groups(table, by="g").opened("sgld", ["k"], FLOAT)) is RowGroups  # where only groups make sense


def of_setup(sizes=None, log_lik=log_lik, table=None, **options):
    table = table_of(sizes_of(300) if sizes is None else sizes) if table is None else table
    of = groups(table, by="g", constant=["z"], bundled=True)
    return sgldSetup(log_lik, of, START, 1e-4, integers=["k"], **options)


def test_sizes_count_groups():
    sampler = of_setup(sizes_of(3000))
    m, settings = sampler._sampler.data.size, sampler._sampler.settings
    assert sampler.N == settings["N"] == 3000 and settings["bundles"] == m and 10 < m < 300
    assert sampler.n == settings["minibatchSize"] == round(3000 / m)  # at least one bundle
    assert of_setup(sizes_of(3000), minibatchSize=900).n == round(round(0.3 * m) * 3000 / m)
    assert of_setup(minibatchSize=300).n == 300
    with pytest.raises(ValueError, match=r"minibatchSize of sgld must be .* of N = 300 observations; got 301"):
        of_setup(minibatchSize=301)


def summed(params, dataset):
    return tf.reduce_sum(log_lik(params, dataset))


def with_padding(params, dataset):
    return log_lik(params, {**dataset, "inside": tf.ones_like(dataset["inside"])})


def test_what_bundles_cannot_do_is_refused():
    with pytest.raises(ValueError, match=r"logLik must return a vector with a term for each group.*bundled=False"):
        of_setup(log_lik=summed)
    with pytest.raises(ValueError, match="logLik of sgld must not depend on padding"):
        of_setup(log_lik=with_padding)
    for options in ({"gibbs": lambda params, dataset, seed: {"a": params["a"]}}, {"subsampling": np.ones(300)}):
        with pytest.raises(ValueError, match="bundled of groups, in dataset of sgld must be False or 'auto' with"):
            of_setup(**options)
    of = groups(table_of(sizes_of(300)), by="g", constant=["z"], bundled=True)
    with pytest.raises(ValueError, match=r"bundled of groups, in dataset of sgld in shard 0 must be False or 'auto'"):
        sgldSetup(log_lik, shards([of, of]), START, 1e-4, integers=["k"])
    with pytest.raises(ValueError, match=r"bundled of groups, in dataset of sgld must be True, False or 'auto'; got 3"):
        sgldSetup(log_lik, groups(table_of(sizes_of(9)), by="g", constant=["z"], bundled=3), START, 1e-4)


def test_collect_gets_no_bundles():
    def collect(params, dataset):
        return {"mean": tf.reduce_mean(dataset["x"])}

    of = groups(table_of(sizes_of(300)), by="g", constant=["z"], bundled=True)
    with pytest.raises(ValueError, match="collect of sgld must be a function of params alone if groups are bundled"):
        sgld(log_lik, of, START, 1e-4, integers=["k"], collect=collect, nIters=10, verbose=False)


def test_an_index_out_of_range_is_named_by_its_column():
    table = table_of(sizes_of(300))
    table["k"][17] = 9
    with pytest.raises(ValueError, match=r"got 9, which is in dataset\['k'\]"):
        of_setup(table=table)
    assert column_of(f"k{', up to '}12") == "k"


@pytest.mark.parametrize("integers", [["k"], []], ids=["integers", "floats"])
def test_an_index_out_of_range_on_disk_is_found_when_it_is_read(integers, tmp_path):
    table = table_of(sizes_of(100))
    given = on_disk("memmap", table, tmp_path)
    data = groups(given, by="g", constant=["z"], bundled=True).opened("sgld", integers, FLOAT, may_bundle=True)
    tried = []
    data.watch(lambda observations: tried.append(max(x.max() for name, x in observations.items() if name[0] == "k")))
    data.part(slice(None))
    assert max(tried) == table["k"].max()


def test_bundles_with_other_groups_have_another_checksum():
    table = table_of(sizes_of(100))
    one, again = bundles_of(table).checksum(), bundles_of(table).checksum()
    assert one == again
    other = {**table, "x": np.where(np.arange(len(table["x"])) == 5, 9.0, table["x"])}
    regrouped = {**table, "g": np.where(table["g"] == 3, 4, table["g"])}
    moved = {**table, "z": table["z"] + 1}
    assert len({one, *(bundles_of(each).checksum() for each in (other, moved))}) == 3
    assert groups(regrouped, by="g", bundled=True).opened("sgld", [], FLOAT, True).checksum() != one
