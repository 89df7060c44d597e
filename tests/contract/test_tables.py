"""Tables as datasets, their categories as codes, and the words of these for elements of draws."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import tensorflow as tf

import sgmcmc
from sgmcmc import Draws, sgld
from sgmcmc.diagnostics import fullGradients

RNG = np.random.default_rng(0)
FRAME = pd.DataFrame({"carrier": RNG.choice(["UA", "AA", "DL"], 60), "x": RNG.normal(size=60)})
FRAME["delay"] = FRAME["carrier"].map({"UA": 0.0, "AA": 1.0, "DL": 2.0}) + 0.1 * RNG.normal(size=60)
FRAME["month"] = np.arange(60) % 12
TABLE = FRAME.astype({"carrier": "category"})
CODES = TABLE["carrier"].cat.codes.to_numpy()
PARAMS = {"effect": np.zeros(3), "slope": 0.0}
RUN = {"stepsize": 1e-3, "minibatchSize": 10, "nIters": 30, "seed": 1, "verbose": False}


def logLik(params, dataset):
    mean = tf.gather(params["effect"], dataset["carrier"]) + params["slope"] * dataset["x"]
    return -0.5 * (dataset["delay"] - mean) ** 2


def run(dataset=TABLE, **changed):
    return sgld(logLik, dataset, PARAMS, **RUN | changed)


def parquet(tmp_path):
    TABLE.to_parquet(tmp_path / "flights.parquet")
    return tmp_path / "flights.parquet"


SOURCES = {
    "DataFrame": lambda tmp_path: TABLE,
    "columns": lambda tmp_path: {name: TABLE[name] for name in TABLE},
    "Categorical": lambda tmp_path: {name: TABLE[name].array for name in TABLE},
    "Arrow table": lambda tmp_path: pa.Table.from_pandas(TABLE),
    "Arrow, dictionary": lambda tmp_path: pa.table(
        {
            name: pa.array(FRAME[name]).dictionary_encode() if name == "carrier" else pa.array(FRAME[name])
            for name in FRAME
        }
    ),
    "Parquet": parquet,
    "path as str": lambda tmp_path: str(parquet(tmp_path)),
    "nullable types": lambda tmp_path: TABLE.astype({"x": "Float64", "month": "Int64"}),
}


@pytest.mark.parametrize("source", SOURCES)
def test_a_table_is_the_dict_of_its_columns_with_codes(source, tmp_path):
    out = run(SOURCES[source](tmp_path))
    columns = {"carrier": CODES, "x": FRAME["x"], "delay": FRAME["delay"], "month": FRAME["month"]}
    levels = out.settings["levels"]["carrier"]
    assert sorted(levels) == ["AA", "DL", "UA"] and out.settings["integers"] == ["carrier"]
    own = np.array([levels.index(word) for word in FRAME["carrier"]])
    if levels == ["AA", "DL", "UA"]:
        np.testing.assert_array_equal(own, CODES)
    exact = run(columns | {"carrier": own}, integers=["carrier"])
    for name in exact:
        np.testing.assert_array_equal(out[name], exact[name])


def test_categories_may_stand_beside_data_on_disk(tmp_path):
    np.save(tmp_path / "x.npy", FRAME["x"])
    np.save(tmp_path / "delay.npy", FRAME["delay"])
    on_disk = {name: np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in ("x", "delay")}
    out = run({"carrier": TABLE["carrier"], **on_disk})
    np.testing.assert_array_equal(out["effect"], run()["effect"])
    assert out.settings["levels"] == {"carrier": ["AA", "DL", "UA"]}


def test_levels_are_a_part_of_what_is_resumed(tmp_path):
    whole = run(nIters=60)
    run(storage=tmp_path / "run.zarr")
    other = TABLE.assign(carrier=TABLE["carrier"].cat.rename_categories({"AA": "XX"}))
    with pytest.raises(ValueError, match="levels"):
        run(other, nIters=60, storage=tmp_path / "run.zarr", resume=True)
    resumed = run(nIters=60, storage=tmp_path / "run.zarr", resume=True)
    np.testing.assert_array_equal(resumed["effect"], whole["effect"])
    assert resumed.settings["levels"] == {"carrier": ["AA", "DL", "UA"]}


def effect(params, dataset):
    return tf.gather(params["effect"], dataset["carrier"])


@pytest.mark.parametrize(
    "given",
    [
        pd.DataFrame({"carrier": pd.Categorical(["UA", "DL", "UA"])}),
        {"carrier": pd.Series(["UA", "DL", "UA"], dtype="category")},
        {"carrier": ["UA", "DL", "UA"]},
        pd.DataFrame({"carrier": ["UA", "DL", "UA"]}),
    ],
    ids=["frame", "column", "words", "frame of words"],
)
@pytest.mark.parametrize("size", [None, 2])
def test_other_tables_have_the_codes_of_the_run(given, size):
    """A table of some of the levels has other codes of its own."""
    out = run()
    np.testing.assert_allclose(
        out.predict(effect, given, batchSize=size)["mean"], out["effect"].mean(axis=0)[[2, 1, 2]], rtol=1e-5
    )


def test_full_gradients_of_another_table_have_the_codes_of_the_run():
    out, some = run(), TABLE[FRAME["carrier"] != "AA"]
    same = fullGradients(out, logLik, some, verbose=False)
    other = fullGradients(
        out, logLik, some.assign(carrier=some["carrier"].cat.remove_unused_categories()), verbose=False
    )
    np.testing.assert_array_equal(same["effect"], other["effect"])
    assert (same["effect"][:, 0] == 0).all() and (same["effect"][:, 1] != 0).all()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"carrier": ["UA", "XX"]},
            r"dataset\['carrier'\] of predict must have categories among the 3 .*; got \['XX'\]",
        ),
        ({"carrier": [0, 1]}, r"dataset\['carrier'\] of predict must be categories, .*; got numbers of dtype int64"),
        (
            {"carrier": pd.Categorical(["UA", None])},
            r"dataset\['carrier'\] of predict must have no missing categories; got 1, the first at index 1",
        ),
    ],
)
def test_categories_that_the_run_did_not_have_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        run().predict(effect, given)


class NotOfPandas:
    columns, shape = ["x"], (1, 1)

    def to_pandas(self):
        return TABLE


DATES = FRAME.assign(when=pd.Timestamp("2020-01-01"), thing=[[1]] * 60)
REFUSED = [
    (
        DATES,
        r"dataset of sgld must have columns of numbers or of categories; got 3 others\. 'carrier' has strings such as "
        r"'\w+': frame\['carrier'\]\.astype\('category'\) converts them to categories\. 'when' has times: "
        r"\(x - x\.min\(\)\)\.dt\.total_seconds\(\) converts them to numbers\. 'thing' has the dtype object\. "
        r"Or leave them out: frame\.drop\(columns=\['carrier', 'when', 'thing'\]\)\.",
    ),
    (pa.Table.from_pandas(FRAME), r"got 1 others\. 'carrier' has strings"),
    (pd.DataFrame({0: [1.0]}), r"distinct column names; got \[0\]"),
    (pd.DataFrame([[1.0, 2.0]], columns=["x", "x"]), r"distinct column names; got \['x', 'x'\]"),
    (TABLE.assign(carrier=TABLE["carrier"].where(FRAME["carrier"] != "AA")), "must have no missing categories; got"),
    (TABLE.assign(x=TABLE["x"].where(FRAME["x"] > 0)), r"dataset\['x'\] of sgld must be finite in float32; got nan"),
    (
        FRAME[["x"]].assign(k=pd.array([1, 2, None] * 20, dtype="Int64")),
        r"dataset\['k'\] of sgld must have no missing values; got 20 in a column of type Int64, the first at index 2",
    ),
    ("flights.csv", "or the path of a Parquet file that exists; got 'flights.csv'"),
    ("no.parquet", "or the path of a Parquet file that exists; got 'no.parquet'"),
    (NotOfPandas(), r"must be a pandas or Arrow table; got a NotOfPandas\. Call its to_pandas\(\)"),
    ({"x": np.array(["a", "b"])}, r"got strings such as 'a'; pandas\.Categorical\(x\) converts them to categories"),
    (
        {"x": np.array(["2020-01-01"], "datetime64[ns]")},
        r"got times of dtype datetime64\[ns\]; .* converts them to numbers",
    ),
]


@pytest.mark.parametrize(("dataset", "message"), REFUSED)
def test_columns_that_are_neither_numbers_nor_categories_are_refused(dataset, message):
    with pytest.raises(ValueError, match=message):
        run(dataset)


# --- words for elements --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def out():
    return run(nChains=2).labelled({"effect": "carrier"})


def test_words_are_in_the_summary_in_arviz_and_in_plots(out):
    plain = run(nChains=2)
    summary = out.summary()
    assert list(summary.index) == ["effect[AA]", "effect[DL]", "effect[UA]", "slope"]
    np.testing.assert_array_equal(summary.to_numpy(), plain.summary().to_numpy())
    assert list(out.summary(["effect[UA]", "effect[1]"]).index) == ["effect[UA]", "effect[DL]"]
    posterior = out.toArviz()["posterior"]
    np.testing.assert_array_equal(posterior["effect"].sel(carrier="UA"), out["effect"][:, :, 2])
    titles = [ax.get_title(loc="left") for ax in np.ravel(sgmcmc.plotTrace(out))]
    assert titles[1:] == list(summary.index)
    plt.close("all")


def test_words_stay_with_slices_files_and_stores(out, tmp_path):
    words = ["effect[AA]", "effect[DL]", "effect[UA]"]
    assert list(out[5:].burnIn(3).summary("effect").index) == words
    out.save(tmp_path / "out.npz")
    assert list(Draws.load(tmp_path / "out.npz").summary("effect").index) == words
    stored = run(storage=tmp_path / "run.zarr").labelled({"effect": "carrier"})
    assert list(stored.toArviz()["posterior"]["effect"].coords["carrier"].values) == ["AA", "DL", "UA"]


def test_words_of_ones_own_for_the_first_axis():
    draws = {"w": np.arange(24.0).reshape(4, 2, 3)}
    out = run()
    out["w"] = np.arange(180.0).reshape(30, 2, 3)
    labelled = out.labelled({"w": ["up", "down"]}).labelled({"effect": "carrier"})
    rows = ["w[up, 0]", "w[up, 1]", "w[up, 2]", "w[down, 0]", "w[down, 1]", "w[down, 2]"]
    assert list(labelled.summary("w").index) == rows and "effect[AA]" in labelled.summary().index
    assert list(labelled.summary(["w[down, 1]", "w[up]"]).index) == [rows[4], *rows[:3]]
    assert labelled.toArviz()["posterior"]["w"].dims[2:] == ("w_dim_0", "w_dim_1")
    assert list(labelled.toArviz()["posterior"]["w_dim_0"].values) == ["up", "down"]
    assert draws["w"].shape[1:] == labelled["w"].shape[1:]


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["carrier"], r"labels of labelled must be a dict for some of \['effect', 'slope'\]; got \['carrier'\]"),
        ({"delay": "carrier"}, r"for some of \['effect', 'slope'\]; got \['delay'\]"),
        ({"effect": "month"}, r"labels\['effect'\] of labelled must be an entry .* \['carrier'\]; got 'month'"),
        ({"effect": 3}, r"labels\['effect'\] of labelled must be a list of words, or an entry .*; got 3"),
        ({"effect": ["a", "b"]}, r"one for each element along the first axis of shape \(3,\); got 2"),
        ({"effect": ["a", "b", "a"]}, "must be distinct words"),
        ({"slope": []}, r"along the first axis of shape \(\); got 0"),
    ],
)
def test_bad_labels_are_refused(labels, message):
    with pytest.raises(ValueError, match=message):
        run().labelled(labels)


def test_strings_in_a_parquet_file_point_to_fromParquet(tmp_path):
    path = tmp_path / "flights.parquet"
    FRAME.to_parquet(path)
    with pytest.raises(ValueError, match=r"fromParquet\('.*flights\.parquet'\) reads strings as categories"):
        run(path)
