"""What the reproductions have in common: data, models, the mode, the samplers and how a table is written."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import tensorflow as tf

from sgmcmc import controlVariates, preferential

PAPER = "Putcha, Nemeth and Fearnhead (2023), Preferential subsampling for stochastic gradient Langevin dynamics"
THESIS = "Baker (2018), Large-scale Bayesian computation using stochastic gradient Markov chain Monte Carlo, PhD thesis"
PRIOR_VARIANCE = 10.0  # of each coefficient, as in appendix C of the paper
GIVEN_MODE = controlVariates(1e-9, nItersOpt=0, verbose=False)  # centred where the chain begins
COLOURS = {"SGLD": "#ee6677", "SGLD-PS": "#ccbb44", "SGLD-CV": "#4477aa", "SGLD-CV-PS": "#228833"}


@dataclass(frozen=True)
class Model:
    """A posterior of coefficients theta, whose design X has a column of ones."""

    title: str
    logLik: Any
    X: np.ndarray
    y: np.ndarray
    logPrior: Any = None

    @property
    def dataset(self) -> dict[str, np.ndarray]:
        return {"X": self.X, "y": self.y}

    @property
    def given(self) -> dict[str, Any]:
        return {"logLik": self.logLik, "dataset": self.dataset, "logPrior": self.logPrior or normal_prior}


def normal_prior(params: dict) -> tf.Tensor:
    return -0.5 * tf.reduce_sum(params["theta"] ** 2) / PRIOR_VARIANCE


def logistic(params: dict, dataset: dict) -> tf.Tensor:
    eta = tf.linalg.matvec(dataset["X"], params["theta"])
    return tf.reduce_sum(dataset["y"] * eta - tf.nn.softplus(eta))


def linear(params: dict, dataset: dict) -> tf.Tensor:
    return -0.5 * tf.reduce_sum((dataset["y"] - tf.linalg.matvec(dataset["X"], params["theta"])) ** 2)


def with_ones(X: np.ndarray, dtype: type = np.float32) -> np.ndarray:
    return np.hstack([np.ones((len(X), 1)), X]).astype(dtype)


def covertype(folder: Path, held_out: float) -> tuple[Model, np.ndarray, np.ndarray]:
    """Class 2 against the rest, features in [0, 1]; and the held-out part."""
    file = np.load(folder / "covertype_subset.npz")
    low, high = file["num_min"].astype(float), file["num_max"].astype(float)
    one_hot = [np.eye(4)[file["wilderness"] - 1], np.eye(40)[file["soil"] - 1]]
    X = with_ones(np.hstack([(file["X_num"] - low) / (high - low), *one_hot]))
    y = (file["y"] == 2).astype(np.float32)
    order = np.random.default_rng(1).permutation(len(y))
    test, train = np.split(order, [round(held_out * len(y))])
    return Model("logistic regression, covertype", logistic, X[train], y[train]), X[test], y[test]


def casp(folder: Path) -> Model:
    """Columns and response have mean 0 and variance 1."""
    file = np.load(folder / "casp.npz")
    X, y = file["X"], file["y"]
    X, y = (X - X.mean(axis=0)) / X.std(axis=0), (y - y.mean()) / y.std()
    return Model("linear regression, CASP", linear, with_ones(X), y.astype(np.float32))


def synthetic(n: int, share: float, seed: int, dtype: type = np.float32) -> Model:
    """Logistic regression with four features, of which this share has y = 1."""
    from sklearn.datasets import make_classification

    X, y = make_classification(
        n, n_features=4, n_informative=4, n_redundant=0, weights=[1 - share], flip_y=0.01, random_state=seed
    )
    return Model("logistic regression, synthetic", logistic, with_ones(X, dtype), y.astype(dtype))


def mode_and_covariance(model: Model) -> tuple[np.ndarray, np.ndarray]:
    """Of the posterior, by Newton's method in double precision; the covariance is the inverse curvature."""
    X, y = model.X.astype(float), model.y.astype(float)
    theta = np.zeros(X.shape[1])
    for _ in range(25):
        eta = X @ theta
        p = 1 / (1 + np.exp(-eta)) if model.logLik is logistic else eta
        w = p * (1 - p) if model.logLik is logistic else np.ones(len(y))
        curvature = (X * w[:, None]).T @ X + np.eye(len(theta)) / PRIOR_VARIANCE
        theta = theta + np.linalg.solve(curvature, X.T @ (y - p) - theta / PRIOR_VARIANCE)
    return theta, np.linalg.inv(curvature)


def samplers(**settings: Any) -> dict[str, dict[str, Any]]:
    """The arguments of the four that the paper compares; the chain with control variates begins at the mode given."""
    ps = preferential(**settings)
    return {
        "SGLD": {},
        "SGLD-PS": {"subsampling": ps},
        "SGLD-CV": {"gradient": GIVEN_MODE},
        "SGLD-CV-PS": {"gradient": GIVEN_MODE, "subsampling": ps},
    }


def arguments(text: str | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="the folder of covertype_subset.npz and casp.npz")
    parser.add_argument(
        "--output", type=Path, default=Path(__file__).parent / "results", help="a folder for both files"
    )
    parser.add_argument("--quick", action="store_true", help="short chains, to see that all works")
    given = parser.parse_args()
    given.output.mkdir(parents=True, exist_ok=True)
    return given


def table(header: Sequence[str], rows: Sequence[Sequence[Any]], words: bool = False) -> str:
    """Numbers to the right, or words."""
    column = "---|" if words else "---:|"
    lines = ["| " + " | ".join(header) + " |", "|---|" + column * (len(header) - 1)]
    return "\n".join([*lines, *("| " + " | ".join(map(str, row)) + " |" for row in rows)])


def write(path: Path, parts: Sequence[str]) -> None:
    path.write_text("\n\n".join(part.strip() for part in parts) + "\n")
    print(f"{path} written")


def house_style() -> None:
    plt.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False})


class Clock:
    """Says on the screen what was done, and after how long."""

    def __init__(self) -> None:
        self.started = time.perf_counter()

    def __call__(self, what: str) -> None:
        print(f"{time.perf_counter() - self.started:6.0f} s  {what}", flush=True)

    @property
    def minutes(self) -> str:
        return f"{(time.perf_counter() - self.started) / 60:.1f}"
