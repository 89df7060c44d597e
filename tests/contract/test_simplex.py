"""What only `scir` and `sgrld` are asked: bad input, negative counts on the way, logarithms, their set-up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import sgmcmc

Z = np.random.default_rng(0).integers(1, 4, size=(1000, 2)).astype(float)


def counts(params: dict, dataset: dict) -> dict[str, tf.Tensor]:
    return {"omega": tf.reduce_sum(dataset["z"], axis=0)}


def bincount(z: tf.Tensor) -> tf.Tensor:
    return tf.math.bincount(tf.cast(z, tf.int32), minlength=2, maxlength=2)


GOOD: dict[str, Any] = {
    "suffStats": counts, "dataset": {"z": Z}, "params": {"omega": [0.4, 0.6]}, "stepsize": 0.1, "alpha": 0.5,
    "minibatchSize": 100,
}  # fmt: skip

BAD: list[tuple[str, dict[str, Any], str]] = [
    ("off the simplex", {"params": {"omega": [0.4, 0.5]}},
     "params['omega'] of scir must hold probabilities, at least 0, that sum to 1 over the last axis; got a sum of 0.9"),
    ("a negative probability", {"params": {"omega": [-0.5, 1.5]}}, "got a smallest element of -0.5."),
    ("a row off the simplex", {"params": {"omega": [[0.5, 0.5], [0.5, 0.6]]}}, "got a sum of 1.1."),
    ("a single category", {"params": {"omega": [1.0]}},
     "params['omega'] of scir must have at least 2 categories on its last axis; got shape (1,)."),
    ("a number", {"params": {"omega": 1.0}}, "must have at least 2 categories on its last axis; got shape ()."),
    ("0 on the log scale", {"params": {"omega": [0.0, 1.0]}, "logScale": True}, "must be positive if logScale=True"),
    ("not positive, not normalised", {"params": {"omega": [0.0, 7.0]}, "normalise": False},
     "params['omega'] of scir must be positive; got a smallest element of 0.0."),
    ("starts off the simplex", {"nChains": 1, "starts": {"omega": [[0.4, 0.4]]}}, "starts['omega'] of scir must hold"),
    ("scattered starts", {"nChains": 2, "starts": 0.1},
     "starts of scir must be None, a list of params, or a dict of arrays with nChains on the first axis; got 0.1."),
    ("alpha 0", {"alpha": 0.0}, "alpha of scir must be positive; got 0.0."),
    ("a negative alpha", {"alpha": {"omega": [0.1, -0.1]}}, "alpha['omega'] of scir must be positive; got"),
    ("alpha NaN", {"alpha": np.nan}, "alpha of scir must be positive; got nan."),
    ("alpha that float32 makes 0", {"alpha": 1e-50}, "alpha of scir must be"),
    ("alpha of a wrong width", {"alpha": [0.1, 0.1, 0.1]},
     "alpha of scir must broadcast to the shape of params['omega'], (2,); got (3,)."),
    ("alpha of other names", {"alpha": {"phi": 0.1}}, "alpha of scir must have the keys of params, ['omega']; got"),
    ("no suffStats", {"suffStats": None}, "suffStats of scir must be a function of (params, dataset) or of"),
    ("counts of a wrong width", {"suffStats": lambda p, d: {"omega": tf.reduce_sum(d["z"], axis=0)[:1]}},
     "suffStats of scir must return counts of 'omega' in its shape, (2,), summed over the observations; got shape (1,) "
     "for a minibatch of n = 100."),
    ("counts that are not summed", {"suffStats": lambda p, d: {"omega": d["z"]}}, "got shape (100, 2) for a minibatch"),
    ("a mean", {"suffStats": lambda p, d: {"omega": tf.reduce_mean(d["z"], axis=0)}},
     "suffStats of scir must be a sum over the observations; got one whose parts do not add up to the whole."),
    ("negative counts", {"dataset": {"z": -Z}}, "suffStats of scir must return counts of 'omega', at least 0"),
    ("counts that are NaN", {"suffStats": lambda p, d: {"omega": tf.math.log(tf.reduce_sum(-d["z"], axis=0))}},
     "suffStats of scir must"),
    ("counts without a name", {"suffStats": lambda p, d: tf.reduce_sum(d["z"], axis=0)},
     "it must return a dict of counts with the names ['omega']"),
    ("random numbers outside the seed", {"suffStats": lambda p, d: {"omega": tf.random.uniform([2])}},
     "suffStats of scir must not draw random numbers by itself"),
    ("one size only", {"suffStats": lambda p, d: {"omega": tf.reduce_sum(tf.reshape(d["z"], [100, 2]), axis=0)}},
     "suffStats of scir must take any number of observations, not only the n = 100 of a minibatch; it raised"),
    ("counts whose shape is unknown", {"suffStats": lambda p, d: {"omega": bincount(d["z"][:, 0])}},
     "use tf.reduce_sum of tf.one_hot, not tf.math.bincount"),
    ("indices that are no integers", {"suffStats": lambda p, d: {"omega": tf.gather(tf.eye(2), d["z"][0])}},
     "Name index entries of dataset in integers, such as integers=['z']."),
    ("all observations or one", {"minibatchSize": 1.0}, "got 1.0: give 1 for one observation, or N for all."),
    ("stepsize auto", {"stepsize": "auto"}, "stepsize of scir must be a positive number or a schedule such as"),
    ("weights", {"subsampling": np.ones(1000)}, "subsampling of scir must be uniform, since suffStats takes no"),
    ("an adaptive size", {"minibatchSize": sgmcmc.adaptive()}, "minibatchSize of scir must be a number; got adaptive("),
    ("normalise", {"normalise": 1}, "normalise of scir must be True or False; got 1."),
    ("logScale", {"logScale": "yes"}, "logScale of scir must be True or False; got 'yes'."),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "sentence"), [x[1:] for x in BAD], ids=[x[0] for x in BAD])
def test_bad_arguments_are_named(arguments: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError) as caught:
        sgmcmc.scirSetup(**GOOD | arguments)
    assert sentence in str(caught.value)


def test_what_goes_by_gradients_is_no_argument() -> None:
    for argument in ("gradients", "preconditioner", "gibbs", "temperature"):
        with pytest.raises(TypeError, match=f"unexpected keyword argument '{argument}'"):
            sgmcmc.scir(**GOOD, **{argument: None})


def test_one_negative_count_is_found_in_all_observations() -> None:
    """In a minibatch the counts of others would hide it."""
    z = Z.copy()
    z[5, 1] = -1.0
    with pytest.raises(ValueError, match=r"return counts of 'omega', at least 0 and finite; got -1\.0\."):
        sgmcmc.scirSetup(**GOOD | {"dataset": {"z": z}})


def test_negative_counts_on_the_way_stop_the_chain() -> None:
    """Those of latent draws are known in the iteration only."""

    def latent(params: dict, dataset: dict, seed: tf.Tensor) -> dict[str, tf.Tensor]:
        rare = tf.cast(tf.random.stateless_uniform([], seed) < 0.02, tf.float32)
        return {"omega": (1 - 2 * rare) * tf.reduce_sum(dataset["z"], axis=0)}

    with pytest.raises(sgmcmc.DivergenceError, match="'omega' of chain 0") as caught:
        sgmcmc.scir(**GOOD | {"suffStats": latent}, nIters=2000, verbose=False, seed=1)
    assert len(caught.value.draws["omega"]) == caught.value.iteration - 1


def test_logarithms_are_those_of_the_probabilities() -> None:
    given = {"nIters": 50, "verbose": False, "seed": 1}
    linear, log = (sgmcmc.scir(**GOOD, **given, logScale=scale)["omega"] for scale in (False, True))
    np.testing.assert_allclose(np.exp(log), linear, rtol=1e-3)
    np.testing.assert_allclose(linear.sum(axis=1), 1, rtol=1e-5)


def test_chains_that_share_a_minibatch_have_the_same_counts() -> None:
    given = {"nIters": 1, "verbose": False, "seed": 1, "nChains": 2}
    shared, own = (sgmcmc.scir(**GOOD, **given, sharedMinibatch=share) for share in (True, False))
    assert shared.logPosterior[0, 0] == shared.logPosterior[1, 0] and own.logPosterior[0, 0] != own.logPosterior[1, 0]
    assert (shared["omega"][0] != shared["omega"][1]).any()


def test_schedules_are_recorded() -> None:
    falling = sgmcmc.polynomial(0.1, 10, 0.5)
    out = sgmcmc.sgrld(**GOOD | {"stepsize": falling}, nIters=20, verbose=False, seed=1)
    np.testing.assert_allclose(out.sampleStats["step_size"][:, 0], 0.1 * (1 + np.arange(20) / 10) ** -0.5, rtol=1e-5)


LABELS = np.random.default_rng(1).integers(0, 3, size=400).astype(np.int32)
LABELLED: dict[str, Any] = {
    "params": {"omega": np.full(3, 1 / 3)}, "stepsize": 0.1, "alpha": 0.5, "minibatchSize": 50, "integers": ["z"],
}  # fmt: skip


def one_hot(params: dict, dataset: dict, seed: Any = None) -> dict[str, tf.Tensor]:
    return {"omega": tf.reduce_sum(tf.one_hot(dataset["z"], 3), axis=0)}


def gathered(params: dict, dataset: dict, seed: Any = None) -> dict[str, tf.Tensor]:
    return {"omega": tf.reduce_sum(tf.gather(tf.eye(3), dataset["z"]), axis=0)}


def without_seed(function: Any) -> Any:
    return lambda params, dataset: function(params, dataset)


@pytest.mark.parametrize("function", [gathered, without_seed(gathered)], ids=["with a seed", "without"])
def test_indices_out_of_range_are_found(function: Any) -> None:
    """For latent variables not all observations are tried, but those with the extremes."""
    rare = LABELS.copy()
    rare[7] = 3
    sgmcmc.scirSetup(function, {"z": LABELS}, **LABELLED)
    with pytest.raises(ValueError, match=r"from 0 to 2 for an axis of 3; got 3, which is in dataset\['z'\]"):
        sgmcmc.scirSetup(function, {"z": rare}, **LABELLED)


@pytest.mark.parametrize("in_shards", [False, True])
@pytest.mark.parametrize("function", [gathered, without_seed(gathered)], ids=["with a seed", "without"])
def test_on_disk_they_are_found_when_they_are_read(tmp_path: Path, function: Any, in_shards: bool) -> None:
    rare = LABELS.copy()
    rare[7] = 3
    np.save(tmp_path / "rare.npy", rare)
    on_disk = {"z": np.load(tmp_path / "rare.npy", mmap_mode="r")}
    dataset = sgmcmc.shards([on_disk, {"z": LABELS}]) if in_shards else on_disk

    def run() -> None:
        sampler = sgmcmc.scirSetup(function, dataset, **LABELLED)
        sgmcmc.sgmcmcStep(sampler, sgmcmc.initSess(sampler, verbose=False), nSteps=200)

    with pytest.raises(ValueError, match=r"from 0 to 2 for an axis of 3; got 3, which is in dataset\['z'\]"):
        run()


def test_observations_without_a_category_give_a_warning(recwarn: pytest.WarningsRecorder) -> None:
    """Categories from 1 on, as in R: `tf.one_hot` leaves out the last."""
    sgmcmc.scirSetup(without_seed(one_hot), {"z": LABELS}, **LABELLED)
    assert not recwarn.list
    n = int((LABELS == 2).sum())
    with pytest.warns(UserWarning, match=f"{n} of 400 observations add nothing to the counts of suffStats"):
        sgmcmc.scirSetup(without_seed(one_hot), {"z": LABELS + 1}, **LABELLED)


def test_data_on_disk_are_tried_too(tmp_path: Path) -> None:
    np.save(tmp_path / "z.npy", Z)
    np.save(tmp_path / "labels.npy", LABELS + 1)
    z, labels = (np.load(tmp_path / name, mmap_mode="r") for name in ("z.npy", "labels.npy"))
    with pytest.raises(ValueError, match="suffStats of scir must be a sum over the observations"):
        sgmcmc.scirSetup(
            **GOOD | {"dataset": {"z": z}, "suffStats": lambda p, d: {"omega": tf.reduce_mean(d["z"], axis=0)}}
        )
    with pytest.warns(UserWarning, match="observations add nothing to the counts of suffStats"):
        sgmcmc.scirSetup(without_seed(one_hot), {"z": labels}, **LABELLED)


def test_a_mean_of_latent_counts_is_refused() -> None:
    def mean(params: dict, dataset: dict, seed: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"omega": tf.reduce_mean(tf.one_hot(dataset["z"], 3), axis=0)}

    with pytest.raises(ValueError, match="suffStats of scir must be a sum over the observations; got as many counts"):
        sgmcmc.scirSetup(mean, {"z": LABELS}, **LABELLED)


def test_chains_begin_with_the_sum_of_theta_that_they_keep() -> None:
    """Every observation counts in one of ten rows, ten times: the sums are N/10 x 10, and not N."""

    def of_groups(params: dict, dataset: dict) -> dict[str, tf.Tensor]:
        group, z = tf.one_hot(dataset["group"], 10), tf.one_hot(dataset["z"], 3)
        return {"omega": 10 * tf.matmul(group, z, transpose_a=True)}

    n = 4000
    dataset = {"group": np.arange(n, dtype=np.int32) % 10, "z": np.resize(LABELS, n)}
    given = [of_groups, dataset, {"omega": np.full((10, 3), 1 / 3)}, 0.1, 0.5, n]
    begun = sgmcmc.scirSetup(*given, integers=["group", "z"], seed=1)._sampler.prepare(verbose=False).state
    np.testing.assert_allclose(np.exp(begun.log_total["omega"]), np.full((1, 10), 0.5 * 3 + n), rtol=1e-5)


def test_steps_that_float32_rounds_away_give_a_warning() -> None:
    with pytest.warns(UserWarning, match="float32 rounds it by .*: use dtype='float64', or a larger stepsize"):
        sgmcmc.scirSetup(**GOOD | {"stepsize": 1e-9})
