"""The logistic regression of Coullon, South and Nemeth (2023): published runs, and the same in both programs."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

sys.path.insert(0, str(Path(__file__).parents[1]))

from harness import HERE, SGMCMCJAX, interpreter, machine, quiet_environment

import sgmcmc
from sgmcmc.diagnostics import ksd

PRIOR_VARIANCE, LEAPS, FRICTION = 10.0, 10, 0.01
THIN, DRAWS_AT_ONCE, ROWS_AT_ONCE = 10, 64, 20_000  # of the discrepancy
GIVEN_MODE = sgmcmc.controlVariates(1e-9, nItersOpt=0, verbose=False)  # centred where the chain begins
OURS = {"sgld": sgmcmc.sgld, "sghmc": sgmcmc.sghmc, "sgnht": sgmcmc.sgnht}
OPTIONS = {"sgld": {}, "sghmc": {"alpha": FRICTION, "L": LEAPS}, "sgnht": {"a": FRICTION}}


@dataclass(frozen=True)
class Row:
    """A setting that the authors ran: dt in their parametrisation, and what they found in ten seconds."""

    sampler: str  # by its name in SGMCMCJax
    tuned: bool  # by MAMBA, or with their baseline stepsize
    dt: float
    n: int
    iterations: int
    ksd: float
    sd: float

    @property
    def kind(self) -> str:
        return self.sampler.removesuffix("CV")

    @property
    def title(self) -> str:
        name = self.kind.upper() + ("-CV" if self.sampler.endswith("CV") else "")
        return name if self.tuned else f"{name}, baseline"

    @property
    def gradients(self) -> int:
        return self.n * self.iterations * (LEAPS if self.kind == "sghmc" else 1)


ROWS = (  # experiments/LR_evaluate.ipynb in the authors' repository jeremiecoullon/SGMCMC_bandit_tuning
    Row("sgld", True, 1e-6, 8000, 22_255, 66.77, 0.2837),
    Row("sgldCV", True, 1e-5, 800, 55_580, 12.49, 0.0515),
    Row("sghmcCV", True, 3.1622776e-7, 800, 24_001, 18.46, 0.0840),
    Row("sgnhtCV", True, 3.1622776e-6, 8000, 19_323, 3.234, 0.00822),
    Row("sghmcCV", False, 1e-6, 80_000, 346, 51565.29, 30.8398),
)


def log_lik(params: dict, dataset: dict) -> tf.Tensor:
    z = tf.linalg.matvec(dataset["X"], params["theta"])
    return tf.reduce_sum(dataset["y"] * z - tf.nn.softplus(z))


def log_prior(params: dict) -> tf.Tensor:
    return -0.5 / PRIOR_VARIANCE * tf.reduce_sum(params["theta"] ** 2)


@tf.function(reduce_retracing=True, autograph=False)
def gradients(X: tf.Tensor, y: tf.Tensor, theta: tf.Tensor) -> tf.Tensor:
    """Of the log likelihood of some rows, at several coefficients, [T, D]."""
    residual = y - tf.sigmoid(tf.linalg.matmul(theta, X, transpose_b=True))
    return tf.linalg.matmul(residual, X)


def curvature_at_mode(X: np.ndarray, y: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """The inverse covariance of the posterior, which is nearly normal with so many observations."""
    X, theta = X.astype(float), theta.astype(float)
    for _ in range(10):
        p = 1 / (1 + np.exp(-X @ theta))
        curvature = (X * (p * (1 - p))[:, None]).T @ X + np.eye(len(theta)) / PRIOR_VARIANCE
        theta = theta + np.linalg.solve(curvature, X.T @ (y - p) - theta / PRIOR_VARIANCE)
    return curvature


class Experiment:
    """The data, the reference, and the runs of both packages."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.path, self.machine = folder, folder / "data.npz", machine()
        self.versions = json.loads(self._worker())
        file = np.load(self.path)
        self.dataset = {"X": file["X"], "y": file["y"]}
        self.test, self.theta = (file["X_test"], file["y_test"]), file["theta"]
        curvature = curvature_at_mode(file["X"], file["y"], self.theta)
        self.sd, self.stiffest = np.sqrt(np.diag(np.linalg.inv(curvature))), np.linalg.eigvalsh(curvature)[-1]

    def _worker(self, *extra: str) -> str:
        command = [interpreter(SGMCMCJAX), str(HERE / "workers" / "mamba.py"), str(self.path), *extra]
        done = subprocess.run(command, capture_output=True, text=True, env=quiet_environment(), check=True)
        return done.stdout.splitlines()[-1]

    def theirs(self, row: Row, seed: int) -> dict[str, Any]:
        output = self.folder / "draws.npy"
        settings = {"sampler": row.sampler, "dt": row.dt, "n": row.n, "iterations": row.iterations, "seed": seed}
        told = json.loads(self._worker(str(output), json.dumps(settings)))
        return told | {"draws": np.load(output).astype(float)}

    def ours(self, row: Row, seed: int, automatic: bool = False) -> dict[str, Any]:
        """The same stepsize, start and centre as theirs; or nothing but the minibatches and iterations."""
        control = row.sampler.endswith("CV")
        sampler = getattr(sgmcmc, row.sampler.lower()) if automatic else OURS[row.kind]
        fixed: dict[str, Any] = {
            "stepsize": row.dt * (2 if row.kind == "sgld" else 1),
            "gradient": GIVEN_MODE if control else None,
            "subsampling": "withReplacement",
            "preconditioner": None,
            **OPTIONS[row.kind],
        }
        chosen = ({"L": LEAPS} if row.kind == "sghmc" else {}) if automatic else fixed
        params = {"theta": np.zeros_like(self.theta) if automatic else self.theta}
        started, worked = time.perf_counter(), time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of stepsizes that are too large: the table shows them
            out = sampler(
                log_lik, self.dataset, params, logPrior=log_prior, minibatchSize=row.n, nIters=row.iterations,
                thin=1, verbose=False, seed=seed, **chosen,
            )  # fmt: skip
        seconds, work = time.perf_counter() - started, time.process_time() - worked
        return {"seconds": seconds, "work": work, "draws": np.asarray(out["theta"], float)}

    def error(self, draws: np.ndarray) -> float:
        """Of all standard deviations, as the authors have it: the norm of the difference over that of the truth."""
        return float(np.linalg.norm(draws.std(axis=0) - self.sd) / np.linalg.norm(self.sd))

    def discrepancy(self, draws: np.ndarray) -> float:
        """The authors' kernel Stein discrepancy: the root of the sum over coordinates, not the sum of roots."""
        kept = draws[::THIN]
        terms = ksd({"theta": kept}, {"theta": self.scores(kept)}, perCoordinate=True)["theta"]
        return float(np.sqrt((terms**2).sum()))

    def scores(self, draws: np.ndarray) -> np.ndarray:
        """Gradients of the log posterior at draws, [T, D], from all data; summed over blocks of rows in float64."""
        found = -draws / PRIOR_VARIANCE
        for first in range(0, len(draws), DRAWS_AT_ONCE):
            some = slice(first, first + DRAWS_AT_ONCE)
            theta = tf.constant(draws[some], tf.float32)
            for row in range(0, len(self.dataset["y"]), ROWS_AT_ONCE):
                X, y = (self.dataset[name][row : row + ROWS_AT_ONCE] for name in ("X", "y"))
                found[some] += gradients(X, y, theta).numpy()
        return found

    def accuracy(self, draws: np.ndarray) -> float:
        X, y = self.test
        return float(((X @ draws.mean(axis=0) > 0) == (y > 0)).mean())
