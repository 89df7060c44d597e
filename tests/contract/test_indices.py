"""Indices that point outside: XLA would gather from wherever they come to lie, and give plausible numbers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import sgmcmc

N = 60
RNG = np.random.default_rng(0)
X, USER, TAGS = RNG.normal(size=N), RNG.integers(0, 5, N), RNG.integers(0, 4, (N, 3))
USER[:5] = np.arange(5)
CALLED: list[bool] = []


def log_lik(params: dict, dataset: dict) -> tf.Tensor:
    CALLED.append(tf.executing_eagerly())
    of_tags = tf.reduce_sum(tf.gather(params["tag"], dataset["tags"]), axis=1)
    return -0.5 * tf.reduce_sum((dataset["x"] - tf.gather(params["user"], dataset["user"]) - of_tags) ** 2)


def set_up(name: str = "sgld", log_lik: Any = log_lik, dataset: Any = None, **changes: Any) -> Any:
    data = {"x": X, "user": USER, "tags": TAGS} | changes
    return getattr(sgmcmc, name + "Setup")(
        log_lik, dataset or data, {"user": np.zeros(5), "tag": np.zeros(4)}, 1e-4, minibatchSize=6,
        integers=["user", "tags"], seed=1,
    )  # fmt: skip


def refused(size: int, got: str) -> str:
    of_size = f"from 0 to {size - 1} for an axis of {size}"
    return re.escape(f"dataset of sgld must hold indices that logLik can use, here {of_size}; got {got}.")


def test_indices_within_their_axes_are_welcome() -> None:
    set_up()
    assert sum(CALLED) == 1  # on all observations


@pytest.mark.parametrize("user", [USER + 1, USER - 1, np.where(np.arange(N) == 50, 10**9, USER)])
def test_an_index_out_of_range_is_refused(user: np.ndarray) -> None:
    bad = int(user.max() if user.max() > 4 else user.min())
    with pytest.raises(ValueError, match=refused(5, f"{bad}, which is in dataset['user']")):
        set_up(user=user)


def test_in_an_entry_of_several_integers_and_in_float_entries() -> None:
    tags = TAGS.copy()
    tags[7, 2] = 40
    with pytest.raises(ValueError, match=refused(4, "40, which is in dataset['tags']")):
        set_up(tags=tags)

    def cast(params: dict, dataset: dict) -> tf.Tensor:
        return log_lik(params, dataset) + tf.reduce_sum(tf.gather(params["user"], tf.cast(dataset["x"], tf.int32)))

    with pytest.raises(ValueError, match=refused(5, "7, which is in dataset['x']")):
        set_up(log_lik=cast, x=np.where(np.arange(N) == 9, 7.0, 1.0))


def test_each_column_of_an_entry_is_looked_at() -> None:
    """The first column indexes the larger table, and would hide the second."""
    pairs = np.stack([TAGS[:, 0] % 4, USER], axis=1)
    pairs[11] = [5, 3]

    def of_pairs(params: dict, dataset: dict) -> tf.Tensor:
        of_tag = tf.gather(params["tag"], dataset["tags"][:, 0])
        return -0.5 * tf.reduce_sum((dataset["x"] - of_tag - tf.gather(params["user"], dataset["tags"][:, 1])) ** 2)

    with pytest.raises(ValueError, match=refused(4, "5, which is in dataset['tags']").replace("sgld", "sghmc")):
        set_up("sghmc", log_lik=of_pairs, tags=np.concatenate([pairs[:59], [[0, 4]]]))


def test_rows_of_a_number_that_is_known_late_move_with_the_whole_parameter() -> None:
    def masked(params: dict, dataset: dict) -> tf.Tensor:
        with_zero = tf.concat([tf.zeros(1), params["user"][1:]], axis=0)
        return -0.5 * tf.reduce_sum((dataset["x"] - tf.gather(with_zero, dataset["user"])) ** 2) - params["tag"][0] ** 2

    assert set_up(log_lik=masked)._sampler.model.by_rows == frozenset()


def test_an_index_that_log_lik_computes() -> None:
    def shifted(params: dict, dataset: dict) -> tf.Tensor:
        return log_lik(params, dataset | {"user": dataset["user"] + 100})

    with pytest.raises(ValueError, match=refused(5, "100, computed by logLik").replace("100", r"10\d")):
        set_up(log_lik=shifted)


COMPUTED = {
    "of two entries": lambda params, d: tf.gather(params["user"], d["user"] + d["tags"][:, 0]),
    "of a matrix of floats": lambda params, d: tf.gather(params["user"], tf.cast(d["pairs"][:, 1], tf.int32)),
    "in pairs": lambda params, d: tf.gather_nd(tf.reshape(params["tag"], [2, 2]), d["tags"][:, :2]),
}


@pytest.mark.parametrize("gathered", COMPUTED.values(), ids=COMPUTED)
def test_indices_that_no_single_entry_shows(gathered: Any) -> None:
    """Each is in range in the observations that hold the least and the greatest numbers."""
    user, tags, pairs = np.zeros(N, int), np.zeros((N, 3), int), np.zeros((N, 2))
    user[:3], tags[:3, 0], tags[:3, 1] = [4, 0, 2], [0, 1, 1], [0, 0, 1]

    def log_lik(params: dict, dataset: dict) -> tf.Tensor:
        return -tf.reduce_sum(gathered(params, dataset)) - tf.reduce_sum(params["tag"]) - tf.reduce_sum(params["user"])

    set_up(log_lik=log_lik, dataset={"user": user, "tags": tags, "pairs": pairs})
    user[7], tags[7], pairs[7, 1] = 4, [1, 2, 0], 5
    with pytest.raises(ValueError, match="dataset of sgld must hold indices that logLik can use"):
        set_up(log_lik=log_lik, dataset={"user": user, "tags": tags, "pairs": pairs})


def test_data_on_disk_and_of_ones_own_are_tried_as_they_come(tmp_path: Path) -> None:
    """The bad index is in an observation that the trials and the first minibatches miss."""
    user = USER.copy()
    user[1] = 5
    data = {"x": X, "user": user, "tags": TAGS}
    for name, array in data.items():
        np.save(tmp_path / f"{name}.npy", array)
    mapped = {name: np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in data}

    class Source:
        def __len__(self) -> int:
            return N

        def take(self, indices: np.ndarray) -> dict[str, np.ndarray]:
            return {name: array[indices] for name, array in data.items()}

    for dataset in (mapped, Source()):
        sampler = set_up(dataset=dataset)  # whose rows are counted before the first iteration, all of them
        with pytest.raises(ValueError, match=refused(5, "5, which is in dataset['user']")):
            sgmcmc.initSess(sampler)
        sampler = set_up("sghmc", dataset=dataset)
        session = sgmcmc.initSess(sampler)
        with pytest.raises(ValueError, match=refused(5, "5, which is in dataset['user']").replace("sgld", "sghmc")):
            sgmcmc.sgmcmcStep(sampler, session, nSteps=200)


BETWEEN = {
    "a reference level": lambda level: tf.concat([[0.0], level], axis=0),
    "two parameters": lambda level: tf.concat([level[:2], level], axis=0)[:6],
    "levels that sum to 0": lambda level: tf.concat([level, [-tf.reduce_sum(level)]], axis=0),
    "a padded parameter": lambda level: tf.pad(level, [[1, 0]]),
    "increments": lambda level: tf.cumsum(tf.concat([[0.0], level], axis=0)),
}


@pytest.mark.parametrize("call", ["one chain", "two chains", "auto"])
@pytest.mark.parametrize("between", BETWEEN)
def test_a_gather_from_what_is_made_of_parameters(between: str, call: str) -> None:
    def by_gather(params: dict, dataset: dict) -> tf.Tensor:
        return -0.5 * tf.reduce_sum((dataset["x"] - tf.gather(BETWEEN[between](params["level"]), dataset["user"])) ** 2)

    def by_product(params: dict, dataset: dict) -> tf.Tensor:
        means = tf.linalg.matvec(tf.one_hot(dataset["user"], 6), BETWEEN[between](params["level"]))
        return -0.5 * tf.reduce_sum((dataset["x"] - means) ** 2)

    data, start = {"x": np.tile(X, 5), "user": np.tile(USER, 5)}, {"level": np.zeros(5)}
    options: dict[str, Any] = {"integers": ["user"], "nIters": 30, "seed": 1, "verbose": False, "minibatchSize": 20}
    options |= {"logPrior": lambda params: -0.5 * tf.reduce_sum(params["level"] ** 2)}
    options |= {"stepsize": "auto"} if call == "auto" else {"stepsize": 1e-3, "nChains": 2 if "two" in call else None}
    found, exact = (sgmcmc.sgld(log_lik, data, start, **options) for log_lik in (by_gather, by_product))
    np.testing.assert_allclose(found["level"], exact["level"], atol=1e-5)


def test_the_second_derivatives_of_ordered_categories() -> None:
    """Their log likelihood gathers twice from what is made of the same cuts."""

    def log_lik_by(row: Any) -> Any:
        def log_lik(params: dict, dataset: dict) -> tf.Tensor:
            far = tf.constant([30.0])
            parts = ([-far, params["cut"]], [params["cut"], far])
            lower, upper = (row(tf.concat(part, axis=0), dataset["category"]) for part in parts)
            return tf.math.log(tf.sigmoid(upper) - tf.sigmoid(lower))

        return log_lik

    data, start = {"category": RNG.integers(0, 4, 1000)}, {"cut": [-1.0, 0.0, 1.0]}
    options: dict[str, Any] = {"integers": ["category"], "nIters": 10, "seed": 1, "verbose": False}
    by_gather, by_product = (
        sgmcmc.sgldcv(log_lik_by(row), data, start, **options).settings["expected"]["sd"]["cut"]
        for row in (tf.gather, lambda table, index: tf.linalg.matvec(tf.one_hot(index, 4), table))
    )
    np.testing.assert_allclose(by_gather, by_product, rtol=1e-3)
