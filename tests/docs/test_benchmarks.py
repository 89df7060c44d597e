"""Benchmarks that take their data from elsewhere read both forms of them, and write the model that they name."""

import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

tfd = tfp.distributions
BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def problems(monkeypatch):
    """The module of the posteriors of posteriordb."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import posteriordb_problems

    return posteriordb_problems


def zipped(file: Path, contents: object) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(file.stem, json.dumps(contents))


def test_a_clone_of_posteriordb_is_read(problems, tmp_path):
    rng = np.random.default_rng(0)
    data = {"N": 4, "earn": [10, 20, 30, 40], "height": [60, 64, 70, 72]}
    chains = [{name: rng.normal(size=5).tolist() for name in ("beta[1]", "beta[2]", "sigma")} for _ in range(3)]
    clone = tmp_path / "clone" / "posterior_database"
    zipped(clone / "data" / "data" / "earnings.json.zip", data)
    zipped(clone / "reference_posteriors" / "draws" / "draws" / "earnings-earn_height.json.zip", chains)
    folder = tmp_path / "folder"
    folder.mkdir()
    np.savez(folder / "earnings.npz", **data)
    pooled = {name: np.concatenate([chain[name] for chain in chains]) for name in chains[0]}
    reference = {name: {"mean": x.mean(), "sd": x.std(ddof=1)} for name, x in pooled.items()}
    (folder / "earnings-earn_height.json").write_text(json.dumps({"n_draws": 15, "reference": reference}))
    (here, moments), (there, same) = (problems.load(at, "earnings-earn_height") for at in (tmp_path / "clone", folder))
    np.testing.assert_array_equal(here.dataset["X"], there.dataset["X"])
    assert moments.draws == same.draws == 15
    assert moments.mean == pytest.approx(same.mean)
    assert moments.sd == pytest.approx(same.sd)


def test_elements_have_the_names_of_stan(problems):
    data = {"Y": np.zeros(3), "X": np.ones((3, 3))}
    draws = {"alpha": np.zeros((2, 5)), "beta": np.zeros((2, 5, 2)), "sigma": np.ones((2, 5))}
    assert set(problems.by_element(problems.diamonds(data), draws)) == {"Intercept", "b[1]", "b[2]", "sigma"}


def test_densities_are_those_of_the_models(problems):
    """Up to a constant, of the densities of TensorFlow Probability."""
    rng = np.random.default_rng(1)
    y = rng.normal(size=20)

    def of_mixture(mu, sigma, theta):
        parts = tfd.MixtureSameFamily(tfd.Categorical(probs=[theta, 1 - theta]), tfd.Normal(mu, sigma))
        of_data = tf.reduce_sum(parts.log_prob(tf.cast(y, tf.float32)))
        of_scales = tf.reduce_sum(tfd.HalfNormal(2.0).log_prob(sigma))
        return (
            of_data + tf.reduce_sum(tfd.Normal(0.0, 2.0).log_prob(mu)) + of_scales + tfd.Beta(5.0, 5.0).log_prob(theta)
        )

    posterior = problems.low_dim_gauss_mix({"y": y.astype(np.float32)})
    differences = []
    for _ in range(3):
        mu, sigma = np.sort(rng.normal(size=2)).astype(np.float32), rng.uniform(0.5, 2, size=2).astype(np.float32)
        params = {"mu": tf.constant(mu), "sigma": tf.constant(sigma), "theta": tf.constant(np.float32(rng.uniform()))}
        ours = tf.reduce_sum(posterior.log_lik(params, posterior.dataset)) + posterior.log_prior(params)
        differences.append(float(ours - of_mixture(mu, sigma, params["theta"])))
    np.testing.assert_allclose(differences, differences[0], rtol=1e-4)
