"""What other choices are said to gain is what they are expected to gain once they are made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from sgmcmc import Draws, controlVariates, preferential, sghmc, sghmccv, sgld, sgldcv, sgzigzag

N, D = 20_000, 5
COMMON: dict[str, Any] = {"minibatchSize": 100, "nIters": 1, "seed": 1, "verbose": False}


def data(kind: str) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    x = {
        "normal": lambda: rng.normal(size=(N, D)),
        "rare": lambda: np.column_stack([np.ones(N), rng.random((N, 4)) < [0.5, 0.1, 0.01, 0.003]]),
        "heavy": lambda: rng.standard_t(2, size=(N, D)).clip(-30, 30),
    }[kind]()
    return {"x": x, "y": rng.random(N) < 1 / (1 + np.exp(-x @ np.linspace(-1, 1, D)))}


def log_lik(params: dict, dataset: dict) -> tf.Tensor:
    eta = tf.linalg.matvec(dataset["x"], params["beta"])
    return dataset["y"] * eta - tf.math.softplus(eta)


def log_prior(params: dict) -> tf.Tensor:
    return -0.5 * tf.reduce_sum(params["beta"] ** 2)


def begun(of: Any, kind: str, **more: Any) -> Draws:
    return of(log_lik, data(kind), {"beta": np.zeros(D)}, logPrior=log_prior, **COMMON | more)


@pytest.mark.filterwarnings("ignore:this run is worth")
@pytest.mark.parametrize("kind", ["normal", "rare", "heavy"])
@pytest.mark.parametrize("of", [sgld, sgldcv])
def test_weights_gain_what_is_said(of: Any, kind: str) -> None:
    """Within 10%: the advice is from a part of the observations, and from their terms at single draws."""
    out = begun(of, kind)
    expected, gain = out.settings["expected"], out.settings["expected"]["gains"]["preferential"]
    weighted = begun(of, kind, subsampling=preferential()).settings
    assert gain == pytest.approx(expected["iterations"] / weighted["expected"]["iterations"], rel=0.1)
    assert any("preferential()" in sentence for sentence in out.settings["advice"]) == (gain > 1.5)
    assert not any("preferential()" in sentence for sentence in weighted["advice"])


@pytest.mark.filterwarnings("ignore:this run is worth")
def test_momentum_gains_what_is_said() -> None:
    """SGHMC needs L gradients for an iteration; both are predictions of the same kind, and agree to rounding."""
    without, momentum = begun(sgldcv, "heavy").settings, begun(sghmccv, "heavy", L=20).settings
    gain = without["expected"]["iterations"] / (20 * momentum["expected"]["iterations"])
    assert without["expected"]["gains"]["momentum"] == pytest.approx(gain, rel=1e-3)
    assert momentum["expected"]["gains"]["noMomentum"] == pytest.approx(1 / gain, rel=1e-3)
    assert "Without momentum, as in sgld" in " ".join(begun(sghmc, "normal", L=20).settings["advice"])


@pytest.mark.filterwarnings("ignore:minibatches of")
def test_a_minibatch_of_another_size_is_advised() -> None:
    assert "More than minibatchSize=1000 observations" in " ".join(
        begun(sgldcv, "normal", minibatchSize=10_000).settings["advice"]
    )
    pays = begun(sgldcv, "rare", minibatchSize=5).settings
    assert f"Up to minibatchSize={pays['expected']['minibatchSize']} a draw" in " ".join(pays["advice"])


def test_a_larger_stepsize_that_saves_few_iterations_is_not_advised() -> None:
    """The stepsize of zig-zag is a squared length, so twice as large it may save only sqrt(2) of the iterations."""
    few, more = (begun(sgzigzag, "normal", minibatchSize=n, gradient=controlVariates()).settings for n in (50, 100))
    assert more["stepsize"]["beta"] > 2 * few["stepsize"]["beta"]
    assert few["expected"]["iterations"] < 1.7 * more["expected"]["iterations"]
    assert few["expected"]["minibatchSize"] == 50


def test_where_nothing_is_expected_nothing_is_advised(tmp_path: Path) -> None:
    assert begun(sgld, "normal", stepsize=1e-5).settings["advice"] == []
    out = begun(sgldcv, "rare", nIters=50)
    out.save(tmp_path / "a.npz")
    assert Draws.load(tmp_path / "a.npz").settings["advice"] == out.settings["advice"] != []
