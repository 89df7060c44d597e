"""Simulation-based calibration of sgldcv with everything automatic; writes CALIBRATION.md and its picture.

    python benchmarks/calibration.py                      # hours; 500 data sets of each model
    python benchmarks/calibration.py --datasets 100       # continues from calibration.json
    python benchmarks/calibration.py --only logistic,mixture
    python benchmarks/calibration.py --datasets 0         # only the page and the picture

The parameters of each data set are drawn from the prior. Their ranks among draws from the posterior are then uniform.
Data set i of every model comes before data set i + 1, and every run is stored, so you may stop the script at any time.
"""

from __future__ import annotations

import argparse
import datetime
import functools
import re
import warnings
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from calibration_models import MODELS, Arrays, Model
from calibration_report import KEPT, LIKELIHOOD, SECONDS, L, report
from harness import machine, read, timed, write

import sgmcmc

ESS = 400
WRONG_DATA_SETS = 100
WRONG = {"stepsize": 2.4, "preconditioner": "dense", "minibatchSize": 100}


class Arm(NamedTuple):
    """A model, and what its run changes."""

    model: str
    told: str = ""
    options: Mapping[str, Any] = {}
    data_sets: float = np.inf


ARMS = {name: Arm(name) for name in MODELS} | {
    "logistic-1%": Arm("logistic", "tolerance 0.01", {"tolerance": 0.01}),
    "groups-1%": Arm("groups", "tolerance 0.01", {"tolerance": 0.01}),
    "logistic-wrong": Arm("logistic", "20 times the stepsize", WRONG, WRONG_DATA_SETS),
}


class Found(NamedTuple):
    """One run: the ranks by element, or why there are none."""

    ranks: dict[str, int]
    seconds: float
    warned: list[str]
    failed: str | None


def spaced(draws: np.ndarray) -> np.ndarray:
    """L draws at equal distances from all chains, [chains, T, ...] -> [L, ...]."""
    joined = draws.reshape(-1, *draws.shape[2:])
    return joined[((np.arange(L) + 0.5) * len(joined) / L).astype(int)]


def elements(values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The last axis of arrays [draws] or [draws, elements], by the name of the element."""
    columns = {}
    for name, value in values.items():
        if value.ndim == 1:
            columns[name] = value
        else:
            columns |= {f"{name}[{k}]": value[:, k] for k in range(value.shape[1])}
    return columns


@functools.cache
def log_likelihoods(name: str) -> Callable[[Arrays, Arrays], tf.Tensor]:
    """The user's log likelihood of all data at several positions, in double precision."""
    model = MODELS[name]

    @tf.function(autograph=False)
    def of_all(params: dict, dataset: dict) -> tf.Tensor:
        return tf.vectorized_map(lambda some: tf.reduce_sum(model.logLik(some, dataset)), params)

    return of_all


def ranks(name: str, out: Mapping[str, np.ndarray], truth: Arrays, dataset: Arrays) -> dict[str, int]:
    """How many of L draws lie below the truth: 0 to L, for each element and the log likelihood of the data."""
    positions = {
        key: np.concatenate([spaced(out[key]), np.asarray(truth[key])[None]]).astype(np.float64) for key in truth
    }
    columns = elements(positions) | {LIKELIHOOD: log_likelihoods(name)(positions, dataset).numpy()}
    return {element: int(np.sum(column[:-1] < column[-1])) for element, column in columns.items()}


def draws(model: Model, dataset: Arrays, seed: int, options: Mapping[str, Any]) -> Any:
    """The call of a user who tunes nothing."""
    changed = {"minibatchSize": "auto", **options}
    return sgmcmc.sgldcv(
        model.logLik, dataset, model.params, logPrior=model.logPrior, transforms=model.transforms or None,
        integers=model.integers, nIters="auto", ess=ESS, seed=seed, verbose=False, **changed,
    )  # fmt: skip


def run(arm: Arm, number: int) -> Found:
    """Simulate data set `number` and sample its posterior."""
    model = MODELS[arm.model]
    rng = np.random.default_rng([list(MODELS).index(arm.model), number])
    truth = model.prior(rng)
    dataset = model.simulate(rng, truth)
    found, failed = {}, None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        try:
            with timed() as spent:
                out = draws(model, dataset, number, arm.options)
        except (ValueError, sgmcmc.DivergenceError, sgmcmc.ModeSearchError) as error:
            failed = f"{type(error).__name__}: {error}"
    if failed is None:
        found = ranks(arm.model, out, truth, dataset)
    return Found(found, spent["work"], [str(one.message) for one in caught if one.category is UserWarning], failed)


def short(message: str) -> str:
    """The first clause of a message, without its numbers."""
    return re.sub(r"\d[\d.,e+-]*%?", "#", re.split(r"[:;(]", message)[0]).strip()


def add(kept: dict[str, Any], name: str, number: int, found: Found) -> None:
    """Add a run to the results: a row for each element, with a rank for each data set, null if the run failed."""
    arm = ARMS[name]
    of_arm = kept.setdefault(name, {"title": MODELS[arm.model].title, "told": arm.told})
    of_arm |= {"date": str(datetime.date.today()), "machine": machine()}
    rows, warned, failed = (of_arm.setdefault(key, {}) for key in ("rows", "warned", "failed"))
    truth = MODELS[arm.model].prior(np.random.default_rng(0))
    names = [*elements({key: np.asarray(value)[None] for key, value in truth.items()}), LIKELIHOOD]
    for element in names:
        rows.setdefault(element, []).append(found.ranks.get(element))
    rows.setdefault(SECONDS, []).append(round(found.seconds, 1))
    for message in {short(one) for one in found.warned}:
        warned.setdefault(message, []).append(number)
    if found.failed is not None:
        failed.setdefault(short(found.failed), []).append(number)


def store(kept: Mapping[str, Any]) -> None:
    """Write in one step, so that an interrupt leaves the old file or the new."""
    partial = KEPT.with_suffix(".partial")
    write(partial, {name: kept[name] for name in ARMS if name in kept})
    partial.replace(KEPT)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--datasets", type=int, default=500)
    parser.add_argument("--only", default=",".join(ARMS), help="rows of the table, separated by commas")
    arguments = parser.parse_args()
    tf.get_logger().setLevel("ERROR")
    kept = read(KEPT)
    for number in range(arguments.datasets):
        for name in arguments.only.split(","):
            done = len(kept[name]["rows"][SECONDS]) if name in kept else 0
            if done <= number < ARMS[name].data_sets:
                found = run(ARMS[name], number)
                add(kept, name, number, found)
                store(kept)
                print(number, name, f"{found.seconds:.1f} s", found.failed or "", *found.warned, flush=True)
    report(kept)


if __name__ == "__main__":
    main()
