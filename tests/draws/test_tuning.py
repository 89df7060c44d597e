"""What a chain tells of its own tuning, and when it is warned of: power, false alarms, and what is counted.

The laws behind the numbers are in `tests/statistical`.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import sgmcmc
from sgmcmc.draws import temperature as tuning
from sgmcmc.draws.draws import Draws
from sgmcmc.run import recorder

N, N_CHAINS = 200, 200
RNG = np.random.default_rng(0)
FEATURES = np.column_stack([np.ones(N), RNG.normal(size=N)])
LABELS = (RNG.random(N) < 1 / (1 + np.exp(-FEATURES @ [0.5, 1.0]))).astype(float)


def log_lik(params: dict[str, Any], dataset: dict[str, Any]) -> tf.Tensor:
    logits = tf.linalg.matvec(dataset["x"], params["beta"])
    return -tf.reduce_sum(tf.nn.sigmoid_cross_entropy_with_logits(labels=dataset["y"], logits=logits))


def log_prior(params: dict[str, Any]) -> tf.Tensor:
    return -0.05 * tf.reduce_sum(params["beta"] ** 2)


def curvature() -> np.ndarray:
    """That of the log posterior at its mode, by Newton's method."""
    beta = np.zeros(2)
    for _ in range(20):
        p = 1 / (1 + np.exp(-FEATURES @ beta))
        hessian = FEATURES.T @ (FEATURES * (p * (1 - p))[:, None]) + 0.1 * np.eye(2)
        beta = beta + np.linalg.solve(hessian, FEATURES.T @ (LABELS - p) - 0.1 * beta)
    return hessian


NARROWEST = 1 / np.linalg.eigvalsh(curvature()).max()
LOGISTIC = {
    "logLik": log_lik, "dataset": {"x": FEATURES, "y": LABELS}, "params": {"beta": [0.5, 1.0]}, "logPrior": log_prior,
    "verbose": False, "seed": 1,
}  # fmt: skip


def messages_of(function: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[Any, list[str]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = function(*args, **kwargs)
    return result, [str(w.message) for w in caught if w.category is UserWarning]


def warned(out: sgmcmc.Draws) -> list[list[str]]:
    """What each chain by itself would be warned of."""
    settings, stats = out.settings, out.groups["sample_stats"]
    ones = [{name: x[c : c + 1] for name, x in stats.items()} for c in range(N_CHAINS)]
    draws = [
        sgmcmc.Draws({"sample_stats": one}, nChains=1, iterations=out.iterations, settings=settings) for one in ones
    ]
    return [messages_of(tuning.warn, tuning.of_second_half(one), settings)[1] for one in draws]


# --- power and false alarms, of 200 chains judged one by one ----------------------------------------------------------

SMALL = {"minibatchSize": 20}
CV = SMALL | {"optStepsize": 1e-3, "nItersOpt": 500}
CHECKED = {  # what is given, with the right stepsize, then with a wrong one; and what is then said
    "sgld": (SMALL, NARROWEST / 10, {"stepsize": NARROWEST * 0.6}, "the variance of 'beta' .* use control variates"),
    "sgldcv": (CV, NARROWEST / 10, {"stepsize": NARROWEST * 3}, "the variance of 'beta' .* increase minibatchSize\\.$"),
    "sghmc": (
        SMALL | {"alpha": 0.2}, NARROWEST / 500, {"stepsize": NARROWEST / 25},
        "the kinetic temperature of 'beta' .* not 1.1 as in a well-tuned sghmc; .* or alpha",
    ),
    "sghmccv": (CV | {"alpha": 0.2}, NARROWEST / 100, {"L": 2}, "the variance of 'beta' .* increase L\\.$"),
    "sgnhtcv": (CV, NARROWEST / 5, {"a": 0.3}, "the variance of 'beta' .* decrease a or stepsize"),
}  # fmt: skip


@pytest.mark.parametrize("sampler", CHECKED)
def test_bad_tuning_is_seen_and_good_tuning_is_not_blamed(sampler: str) -> None:
    """1000 iterations of a chain are enough: all of 200 are seen to be bad, and of 200 good ones none is blamed.

    So with 95% confidence less than 1.5% of good chains are blamed, and less than 1.5% of these bad ones missed.
    """
    given, stepsize, wrong, said = CHECKED[sampler]
    arguments = LOGISTIC | given | {"stepsize": stepsize, "nIters": 1500, "burnIn": 500, "nChains": N_CHAINS}
    good, messages = messages_of(getattr(sgmcmc, sampler), **arguments)
    assert messages == [] and not any(warned(good))
    bad, _ = messages_of(getattr(sgmcmc, sampler), **arguments | wrong)
    assert all(len(messages) == 1 and re.match(said, messages[0]) for messages in warned(bad)), warned(bad)[0]


# --- what is counted --------------------------------------------------------------------------------------------------

HOT = {
    "logLik": lambda params, dataset: -0.5 * tf.reduce_sum((dataset["x"] - params["theta"]) ** 2),
    "dataset": {"x": RNG.normal(size=100)}, "params": {"theta": 0.0}, "stepsize": 0.02, "minibatchSize": 5,
    "verbose": False, "seed": 1,
}  # fmt: skip
SAID = "the variance of 'theta' in this chain is about"
KEPT = {
    "all": {"nIters": 1000},
    "40 of 4000": {"nIters": 4000, "thin": 100},
    "collect": {"nIters": 1000, "collect": lambda params: {"square": params["theta"] ** 2}},
    "reduce": {"nIters": 1000, "reduce": sgmcmc.runningMean()},
    "reduce, 40 of 4000": {"nIters": 4000, "thin": 100, "reduce": sgmcmc.runningMean(), "nChains": 2},
}


@pytest.mark.parametrize("kept", KEPT)
def test_iterations_count_and_not_rows(kept: str) -> None:
    """The warning names the line that called the sampler, also of what is only reduced."""
    with pytest.warns(UserWarning, match=SAID) as caught:
        out = sgmcmc.sgld(**HOT, **KEPT[kept])
    assert len(caught) == 1 and caught[0].filename == __file__
    if out:
        table = out.summary()
        assert (table["variance_ratio_0.5%"] > 3).all() and table["variance_ratio"].notna().all()


def test_of_reshuffled_minibatches_nothing_is_known() -> None:
    """Their noise cancels within an epoch: what would be told is 1.5, and the variance is 1.1 times the posterior's."""
    arguments = HOT | {"stepsize": 1e-3, "nIters": 20_000, "subsampling": "reshuffled"}
    out, messages = messages_of(sgmcmc.sgld, **arguments)
    assert messages == [] and "variance_ratio" not in out.summary()
    assert out.sampleStats["variance_ratio"].mean() > 1.4 and out["theta"].var() * 100 < 1.25


@pytest.mark.parametrize("reduce", [None, sgmcmc.runningMean()])
def test_nothing_is_said_of_short_chains(reduce: sgmcmc.Reducer | None) -> None:
    assert messages_of(sgmcmc.sgld, **HOT, nIters=999, reduce=reduce)[1] == []


def test_what_is_only_reduced_is_judged_as_what_is_stored(tmp_path: Path) -> None:
    """By averages over other stretches; and from a checkpoint on as if the run had never stopped."""
    arguments = HOT | {"nIters": 3000, "reduce": sgmcmc.runningMean()}
    stored = messages_of(sgmcmc.sgld, **arguments, collect=lambda params: params)[1]
    whole = messages_of(sgmcmc.sgld, **arguments)[1]
    number = re.compile("about ([0-9.]+) times")
    of_stored, of_whole = (float(number.search(one).group(1)) for (one,) in (stored, whole))  # type: ignore[union-attr]
    np.testing.assert_allclose(of_whole, of_stored, rtol=0.05)
    in_store = arguments | {"storage": tmp_path / "some.zarr"}
    messages_of(sgmcmc.sgld, **in_store | {"nIters": 900})
    assert messages_of(sgmcmc.sgld, **in_store, resume=True)[1] == whole


@pytest.mark.parametrize("n_rows", [30, 31, 64, 65, 1000, 4096, 5000])
def test_averages_of_stretches(n_rows: int) -> None:
    """Against NumPy: the second half of the full stretches, each of as many rows, whose number is a power of two."""
    rows = np.random.default_rng(3).normal(size=(n_rows, 3, 2)).astype(np.float32)

    @tf.function(autograph=False)
    def all_of(rows: tf.Tensor) -> dict[str, Any]:
        return tf.while_loop(
            lambda k, _: k < n_rows,
            lambda k, averages: (k + 1, recorder.extended(averages, {"x": rows[k]})),
            (tf.constant(0), recorder.begin({"x": 2})),
        )[1]

    averages = tf.nest.map_structure(lambda x: x.numpy(), all_of(tf.constant(rows)))
    found = recorder.of_second_half(averages)
    if n_rows == 30:
        assert found == {}
        return
    length = 1
    while n_rows > 64 * length:
        length *= 2
    whole = n_rows // length
    of_chains = rows.astype(np.float64).mean(axis=1)[: whole * length].reshape(whole, length, 2).mean(axis=1)
    assert len(found["x"]) == whole - whole // 2
    np.testing.assert_allclose(found["x"], of_chains[whole // 2 :], rtol=1e-12, atol=1e-14)


# --- what rules of a user's own tell ----------------------------------------------------------------------------------


def test_what_some_parameters_tell_is_left_out() -> None:
    """A rule may tell a temperature, or nothing; which column is whose is not known then, and nothing is said."""
    settings = {"parameters": ["a", "b"], "sampler": "sample"}
    assert tuning.temperatures({"kinetic_temperature": np.ones((20, 1))}, settings) == {}
    both = {"kinetic_temperature": np.stack([np.ones(20), np.full(20, 2.0)], axis=1)}
    assert {name: band.mean for name, band in tuning.temperatures(both, settings).items()} == {"a": 1.0, "b": 2.0}
    assert tuning.variance_ratios(both, settings) == {}
    (message,) = messages_of(tuning.warn, both, settings)[1]
    assert message.startswith("the kinetic temperature of 'b' is 2 (99% band 2 to 2), not 1 as in a well-tuned sample;")


def test_a_rule_says_itself_which_temperature_is_right() -> None:
    """A momentum of variance 2 eps, on purpose, is not blamed, and one of eps is; its variance follows as it says."""

    def run(temperature: float, nIters: int = 1500) -> tuple[sgmcmc.Draws, list[str]]:
        def step(theta: tf.Tensor, memory: Any, given: sgmcmc.Given) -> tuple[tf.Tensor, Any]:
            return theta + 0.5 * given.eps * given.gradient + tf.sqrt(given.eps) * given.noise, {"u": given.noise}

        rule = sgmcmc.Dynamics(
            step,
            init=lambda theta, given: {"u": given.noise},
            stats=lambda memory, given: {"kinetic_temperature": 2 * tf.reduce_mean(memory["u"] ** 2)},
            temperature=temperature,
            variance=(0.5, 0.25),
        )
        given = LOGISTIC | {"minibatchSize": 200, "stepsize": NARROWEST / 100, "nIters": nIters}
        return messages_of(sgmcmc.sample, **given, dynamics=rule)

    out, messages = run(2.0)
    assert messages == []
    summary = out.summary()
    assert (summary["temperature_right"] == 2.0).all() and np.allclose(summary["variance_ratio"], 1.0, atol=0.05)
    _, messages = run(1.0)
    assert len(messages) == 1 and "not 1 as in a well-tuned sample" in messages[0]


# --- the diffusion factor of SGNHT ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["sgnht", "sgnhtSetup", "sgnhtcv", "sgnhtcvSetup"])
def test_a_large_diffusion_is_refused_or_warned_of(name: str) -> None:
    function = getattr(sgmcmc, name)
    given = {key: LOGISTIC[key] for key in ("logLik", "dataset", "params")} | {"stepsize": 1e-4}
    given |= {"optStepsize": 1e-3, "nItersOpt": 1} if "cv" in name else {}
    given |= {} if "Setup" in name else {"nIters": 2, "verbose": False}
    for a in (0.5, 0.7, {"beta": 0.5}, 0.0):
        with pytest.raises(
            ValueError, match=r"^a(\['beta'\])? of sgnht(cv)? must be a positive number below 0\.5, .*; got "
        ):
            function(**given, a=a)
    said = r"a of sgnht(cv)? should be at most 0\.1, .* with 0\.3 the variance .* 0\.82 times that of"
    with pytest.warns(UserWarning, match=said) as caught:
        function(**given, a=0.3)
    assert len(caught) == 1 and caught[0].filename == __file__
    if name == "sgnhtSetup":
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            function(**given, a=0.1)
            function(**given)


@pytest.mark.parametrize(("thin", "n_draws"), [(100, 200), (1000, 20), (25, 800), (1, 20_000)])
@pytest.mark.parametrize("n_chains", [1, 4])
def test_independent_draws_get_no_warning_however_they_are_thinned(thin: int, n_draws: int, n_chains: int) -> None:
    """Of 200 elements and 3 seeds; each check warns falsely at most once in a million times."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        for seed in range(3):
            draws = _normal_draws(thin, np.random.default_rng(seed).normal(size=(n_chains, n_draws, 200)))
            tuning.warn_of_shape(draws)
            tuning.warn_of_autocorrelation(draws)


@pytest.mark.parametrize("thin", [1, 100])
def test_draws_that_hold_on_to_their_places_get_one_with_any_thinning(thin: int) -> None:
    """Each place for ten draws: 10 `thin` iterations for an independent draw."""
    slow = np.repeat(np.random.default_rng(0).normal(size=(2, 500, 3)), 10, axis=1)
    with pytest.warns(UserWarning, match=r"needs about \d+ iterations for an independent draw, not the 1 expected"):
        tuning.warn_of_autocorrelation(_normal_draws(thin, slow))


def _normal_draws(thin: int, values: np.ndarray) -> Draws:
    """With the expectations of one iteration for an independent draw, and a standard deviation of 1."""
    n_chains, n_draws, size = values.shape
    expected = {"iterations": 1.0, "sd": {"theta": [1.0] * size}}
    settings = {"burnIn": 0, "thin": thin, "nIters": thin * n_draws, "nChains": n_chains, "expected": expected}
    return Draws(
        {"posterior": {"theta": values}},
        nChains=n_chains,
        iterations=range(thin, thin * n_draws + 1, thin),
        settings=settings | {"stepsize": {"theta": 1.0}},
    )
