"""What is measured: three models and their simulated data, the same numbers for every package.

Only NumPy is imported here, since each worker runs in an environment of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

N_COVARIATES = 54
N_PIXELS, N_HIDDEN, N_CLASSES = 784, 100, 10
N_WIDE = 2000
PRIOR_SD_MIXTURE = 10.0
SHORT = 10  # iterations of a first call; a chain of one would not be compiled as a loop


@dataclass(frozen=True)
class Case:
    """A model, its size and how long one repetition is.

    Parameters
    ----------
    model : {"logistic", "mixture", "network", "wide"}
    n_data : int
        N, the number of observations.
    n : int
        Observations per minibatch.
    iterations : int
        Iterations in one repetition.
    stepsize : float
        The variance eps of the injected noise of SGLD; packages that ask for dt get eps / 2.
    n_chains : int or None
        Chains of one repetition; None is a single one, without a chain axis.
    """

    model: str
    n_data: int
    n: int
    iterations: int
    stepsize: float
    n_chains: int | None = None

    @property
    def updates(self) -> int:
        """The iterations of all chains in one repetition."""
        return self.iterations * (self.n_chains or 1)


def simulate(model: str, n_data: int) -> dict[str, np.ndarray]:
    """The dataset of a model, float32, observations on the first axis."""
    return {"logistic": _logistic, "mixture": _mixture, "network": _network, "wide": _wide}[model](n_data)


def start(model: str) -> dict[str, np.ndarray]:
    """Where the chain of a model starts, float32."""
    rng = np.random.default_rng(1)
    shapes: dict[str, dict[str, tuple[int, ...]]] = {
        "logistic": {"beta": (N_COVARIATES,), "bias": ()},
        "mixture": {"theta1": (2,), "theta2": (2,)},
        "wide": {"theta": (N_WIDE,)},
        "network": {"A": (N_HIDDEN, N_CLASSES), "a": (N_CLASSES,), "B": (N_PIXELS, N_HIDDEN), "b": (N_HIDDEN,)},
    }
    scale = {"logistic": 0.0, "mixture": 1.0, "network": 0.1, "wide": 0.0}[model]
    return {k: np.asarray(scale * rng.standard_normal(shape), np.float32) for k, shape in shapes[model].items()}


def _logistic(n_data: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    x = np.empty((n_data, N_COVARIATES), np.float32)
    rng.standard_normal(out=x, dtype=np.float32)
    beta = np.linspace(-0.5, 0.5, N_COVARIATES, dtype=np.float32)
    logits = x @ beta
    return {"x": x, "y": (logits + rng.logistic(size=n_data) > 0).astype(np.float32)}


def _mixture(n_data: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    centres = np.array([[0.0, 0.0], [0.1, 0.1]])[rng.integers(2, size=n_data)]
    return {"x": (centres + rng.standard_normal((n_data, 2))).astype(np.float32)}


def _network(n_data: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    x = np.empty((n_data, N_PIXELS), np.float32)
    rng.random(out=x, dtype=np.float32)
    return {"x": x, "y": np.eye(N_CLASSES, dtype=np.float32)[rng.integers(N_CLASSES, size=n_data)]}


def _wide(n_data: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {"x": rng.standard_normal((n_data, N_WIDE)).astype(np.float32)}
