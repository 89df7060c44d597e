"""The logistic regression of Coullon, South and Nemeth (2023): published runs, and the same in both programs."""

from __future__ import annotations

import json
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from shared import GIVEN_MODE, PRIOR_VARIANCE, Model, logistic, mode_and_covariance

sys.path.insert(0, str(Path(__file__).parents[1]))

from harness import SGMCMCJAX, machine, run_worker, timed

import sgmcmc
from sgmcmc.diagnostics import ksd

LEAPS, FRICTION = 10, 0.01
THIN, DRAWS_AT_ONCE, ROWS_AT_ONCE = 10, 64, 20_000  # of the discrepancy
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


@tf.function(reduce_retracing=True, autograph=False)
def gradients(X: tf.Tensor, y: tf.Tensor, theta: tf.Tensor) -> tf.Tensor:
    """Of the log likelihood of some rows, at several coefficients, [T, D]."""
    residual = y - tf.sigmoid(tf.linalg.matmul(theta, X, transpose_b=True))
    return tf.linalg.matmul(residual, X)


class Experiment:
    """The data, the reference, and the runs of both packages."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.path, self.machine = folder, folder / "data.npz", machine()
        self.versions = self._worker()
        file = np.load(self.path)
        self.model = Model("logistic regression, simulated", logistic, file["X"], file["y"])
        self.test, self.theta = (file["X_test"], file["y_test"]), file["theta"]
        # With so many observations the posterior is nearly normal.
        _, covariance = mode_and_covariance(self.model)
        self.sd, self.stiffest = np.sqrt(np.diag(covariance)), 1 / np.linalg.eigvalsh(covariance)[0]

    def _worker(self, *extra: Any) -> dict[str, Any]:
        return run_worker(SGMCMCJAX, "mamba.py", self.path, *extra)

    def theirs(self, row: Row, seed: int) -> dict[str, Any]:
        output = self.folder / "draws.npy"
        settings = {"sampler": row.sampler, "dt": row.dt, "n": row.n, "iterations": row.iterations, "seed": seed}
        told = self._worker(output, json.dumps(settings))
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
        with timed() as spent, warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of stepsizes that are too large: the table shows them
            out = sampler(
                **self.model.given, params=params, minibatchSize=row.n, nIters=row.iterations, thin=1, verbose=False,
                seed=seed, **chosen,
            )  # fmt: skip
        return spent | {"draws": np.asarray(out["theta"], float)}

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
            for row in range(0, len(self.model.y), ROWS_AT_ONCE):
                X, y = (x[row : row + ROWS_AT_ONCE] for x in (self.model.X, self.model.y))
                found[some] += gradients(X, y, theta).numpy()
        return found

    def accuracy(self, draws: np.ndarray) -> float:
        X, y = self.test
        return float(((X @ draws.mean(axis=0) > 0) == (y > 0)).mean())
