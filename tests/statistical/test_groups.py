"""Groups of rows: the posterior against computations that loop over the groups.

Statistical bounds as in test_windows: 0.2 sds for means, 20% for sds.
"""

import numpy as np
import pandas as pd
import pytest
import tensorflow as tf

from sgmcmc import groups, preferential, scirSetup, sgldcv, sgldSetup, shards

QUIET = {"verbose": False, "seed": 1}
BETA = np.array([1.0, -0.5])


def choices(n_situations, seed=0):
    """Choices among two to six alternatives, with two attributes each and the income of who chooses."""
    rng = np.random.default_rng(seed)
    situation = np.repeat(np.arange(n_situations), rng.integers(2, 7, size=n_situations))
    table = pd.DataFrame(
        {
            "situation": [f"s{k}" for k in situation],
            "price": rng.normal(size=len(situation)),
            "time": rng.normal(size=len(situation)),
            "income": rng.normal(size=n_situations)[situation],
        }
    )
    slope = BETA[0] + 0.5 * table.income
    table["utility"] = slope * table.price + BETA[1] * table.time + rng.gumbel(size=len(table))
    table["chosen"] = table.utility == table.groupby("situation").utility.transform("max")
    return table.drop(columns="utility")


def log_lik(params, dataset):
    slope = params["beta"][0] + params["beta"][2] * dataset["income"][:, None]
    utility = slope * dataset["price"] + params["beta"][1] * dataset["time"]
    inside = dataset["inside"]
    chosen = tf.reduce_sum(inside * dataset["chosen"] * utility, axis=1)
    return chosen - tf.reduce_logsumexp(tf.where(inside > 0, utility, -1e30), axis=1)


def exact(table):
    """The mode and the covariance of the posterior under a flat prior, by Newton steps in loops over the groups."""
    X = np.stack([table.price, table.time, table.price * table.income], axis=1)
    parts = [(X[rows], table.chosen.to_numpy()[rows]) for rows in table.groupby("situation").indices.values()]
    beta = np.zeros(3)
    for _ in range(10):
        gradient, hessian = np.zeros(3), np.zeros((3, 3))
        for x, chosen in parts:
            p = np.exp(x @ beta)
            p /= p.sum()
            gradient += x[chosen][0] - p @ x
            hessian += (x.T * p) @ x - np.outer(p @ x, p @ x)
        beta = beta + np.linalg.solve(hessian, gradient)
    return beta, np.linalg.inv(hessian)


@pytest.mark.parametrize("options", [{}, {"subsampling": preferential()}], ids=["uniform", "preferential"])
def test_a_choice_model_has_the_posterior_of_a_loop_over_situations(options):
    table = choices(1500)
    mixed = table.sample(frac=1, random_state=0)
    data = groups(mixed, by="situation", constant=["income"])
    out = sgldcv(log_lik, data, {"beta": np.zeros(3)}, **QUIET, **options)
    mean, covariance = exact(table)
    sd = np.sqrt(np.diag(covariance))
    assert out.settings["N"] == 1500
    assert (np.abs(out["beta"].mean(axis=0) - mean) < 0.2 * sd).all()
    assert (np.abs(out["beta"].std(axis=0) / sd - 1) < 0.2).all()


@pytest.mark.parametrize("options", [{}, {"subsampling": preferential()}], ids=["uniform", "preferential"])
def test_bundles_of_unequal_groups_have_the_posterior_of_a_loop_over_situations(options):
    table, rng = choices(1200), np.random.default_rng(3)
    joined = np.where(rng.uniform(size=1200) < 0.03, rng.integers(0, 6, size=1200), np.arange(6, 1206))
    situation = joined[table.situation.str[1:].astype(int)]  # six situations have some 25 alternatives
    utility = table.price - 0.5 * table.time + rng.gumbel(size=len(table))
    table = table.assign(situation=situation, income=0.3 * (situation % 5))
    table["chosen"] = utility == utility.groupby(situation).transform("max")
    data = groups(table, by="situation", constant=["income"], bundled=True)
    out = sgldcv(log_lik, data, {"beta": np.zeros(3)}, **QUIET, **options)
    mean, covariance = exact(table)
    sd, n_situations = np.sqrt(np.diag(covariance)), table.situation.nunique()
    assert out.settings["N"] == n_situations and out.settings["bundles"] < n_situations
    assert (np.abs(out["beta"].mean(axis=0) - mean) < 0.2 * sd).all()
    assert (np.abs(out["beta"].std(axis=0) / sd - 1) < 0.2).all()
    of_groups = out.toArviz(logLikelihood=True)["log_likelihood"]["logLik"]
    assert of_groups.shape[-1] == n_situations and (of_groups < 0).all()


def test_predictions_are_for_groups():
    table = choices(300)
    out = sgldcv(
        log_lik, groups(table, by="situation", constant=["income"]), {"beta": np.zeros(3)}, nIters=200, **QUIET
    )
    other = groups(choices(40, seed=1), by="situation", constant=["income"])

    def first(params, dataset):
        return dataset["inside"][:, 0] * params["beta"][0] + dataset["income"]

    of_all = out.predict(first, other)
    assert of_all["mean"].shape == (40,)
    np.testing.assert_allclose(out.predict(first, other, batchSize=7)["mean"], of_all["mean"], rtol=1e-6)
    income = choices(40, seed=1).groupby("situation", sort=False).income.first()
    np.testing.assert_allclose(of_all["mean"], out["beta"][:, 0].mean() + income, rtol=1e-4, atol=1e-5)


def without_mask(params, dataset):
    utility = params["beta"][0] * dataset["price"]
    return tf.reduce_sum(dataset["inside"] * dataset["chosen"] * utility, axis=1) - tf.reduce_logsumexp(utility, axis=1)


def test_padding_that_counts_is_refused():
    data = groups(choices(200), by="situation")
    with pytest.raises(ValueError, match="logLik of sgld must not depend on padding; got another gradient"):
        sgldSetup(without_mask, data, {"beta": np.zeros(3)}, 1e-4)
    with pytest.raises(ValueError, match="logLik of sgld must not depend on padding"):
        sgldSetup(without_mask, shards([data, data]), {"beta": np.zeros(3)}, 1e-4)


def normal(params, rows):
    return -0.5 * (rows["x"] - params["beta"]) ** 2  # its gradient is linear: sums of rows in any order are equal


def bernoulli(params, rows):
    return rows["rare"] * params["beta"] - tf.nn.softplus(params["beta"])


@pytest.mark.parametrize("bundled", [False, True])
@pytest.mark.parametrize("of_rows", [normal, bernoulli])
def test_padding_that_counts_is_refused_whatever_it_is(of_rows, bundled):
    rng = np.random.default_rng(0)
    sizes = np.append(rng.integers(1, 4, size=300), [9, 12])
    rows = {"g": np.repeat(np.arange(302), sizes), "x": rng.normal(size=sizes.sum())}
    data = groups(rows | {"rare": rng.uniform(size=sizes.sum()) < 0.03}, by="g", bundled=bundled)

    def masked(params, dataset):
        return tf.reduce_sum(dataset["inside"] * of_rows(params, dataset), axis=1)

    def counting(params, dataset):
        return tf.reduce_sum(of_rows(params, dataset), axis=1)

    sgldSetup(masked, data, {"beta": 0.3}, 1e-4, minibatchSize=20)
    with pytest.raises(ValueError, match="logLik of sgld must not depend on padding"):
        sgldSetup(counting, data, {"beta": 0.3}, 1e-4, minibatchSize=20)


def test_counts_of_padding_are_refused():
    table = pd.DataFrame({"g": [0, 0, 0, 1, 2, 2], "word": [0, 1, 1, 0, 1, 0]})

    def counts(params, dataset):
        return {"p": tf.reduce_sum(tf.one_hot(dataset["word"], 2), axis=[0, 1])}

    def inside(params, dataset):
        return {"p": tf.reduce_sum(dataset["inside"][..., None] * tf.one_hot(dataset["word"], 2), axis=[0, 1])}

    given = (groups(table, by="g"), {"p": [0.5, 0.5]}, 0.1)
    with pytest.raises(ValueError, match="suffStats of scir must not count padding"):
        scirSetup(counts, *given, alpha=1.0, minibatchSize=2, integers=["word"])
    assert scirSetup(inside, *given, alpha=1.0, minibatchSize=2, integers=["word"]).N == 3
