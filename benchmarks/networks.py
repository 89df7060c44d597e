"""Accuracy, log loss and calibration of a network's fit, ensemble and chains, with the same number of gradients.

    python benchmarks/networks.py --data FOLDER --output NETWORKS.md     # half an hour

FOLDER has mnist.npz and letter.npz. Gradients are counted in minibatches, and all methods have the same number. Chains
that start at a trained network spend a third of theirs on its training. The stepsizes of sghmc and ubu are those of
`checkTemperature`; those of psgld and sgld are the best of three by the log loss on a tenth of the training data that
is held out. Neither search is counted.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np

from sgmcmc import Draws, checkTemperature, cyclical, fromKeras, psgld, sghmc, sgld, train, ubu
from sgmcmc.diagnostics import classScores

SEEDS, DRAWS, MEMBERS, CYCLES, PILOT = 3, 50, 5, 4, 400
FOR_TRAINING = 1 / 3
LEARNING_RATE = 2e-3
GRID = (1 / 5, 1.0, 5.0)  # around a guess
SCORES = ("accuracy", "log_loss", "brier", "calibration_error")


class Problem(NamedTuple):
    """Data with labels from 0, and the minibatch size and number of gradients of each method."""

    dataset: dict[str, np.ndarray]
    testset: dict[str, np.ndarray]
    minibatchSize: int
    gradients: int

    def network(self, dataset: dict[str, np.ndarray] | None = None) -> Any:
        inputs, classes = self.dataset["X"].shape[1], int(self.dataset["y"].max()) + 1
        model = keras.Sequential([keras.Input([inputs]), keras.layers.Dense(100, "relu"), keras.layers.Dense(classes)])
        return fromKeras(model, dataset or self.dataset, "categorical", prior=1.0)

    def parted(self) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """Nine tenths of the data, and the remaining tenth."""
        n = len(self.dataset["y"]) * 9 // 10
        return {k: x[:n] for k, x in self.dataset.items()}, {k: x[n:] for k, x in self.dataset.items()}


def mnist(folder: Path) -> Problem:
    held = np.load(folder / "mnist.npz")
    data, test = (
        {"X": held[f"x_{part}"].reshape(-1, 784).astype(np.float32) / 255, "y": held[f"y_{part}"].astype(np.int32)}
        for part in ("train", "test")
    )
    return Problem(data, test, 500, 10_000)


def letter(folder: Path) -> Problem:
    held = np.load(folder / "letter.npz")
    order = np.random.default_rng(0).permutation(20_000)
    x, y = held["X"][order].astype(np.float32) / 15 * 2 - 1, held["y"][order].astype(np.int32)
    y = y - y.min()
    return Problem({"X": x[:16_000], "y": y[:16_000]}, {"X": x[16_000:], "y": y[16_000:]}, 200, 100_000)


class Method(NamedTuple):
    """A function (network, problem, stepsize, seed) -> draws or trained networks, and how its stepsize is chosen."""

    run: Callable[..., Any]
    guess: float | None = None  # the centre of the grid of stepsizes, if it is searched on one
    pilot: Callable | None = None  # the sampler whose stepsize checkTemperature finds


def trained(network: Any, problem: Problem, seed: int, members: int = 1, share: float = FOR_TRAINING) -> list[dict]:
    return train(
        **network, stepsize=LEARNING_RATE, minibatchSize=problem.minibatchSize, verbose=False, seed=seed,
        nIters=int(problem.gradients * share / members), starts=network.initial(members, seed),
    )  # fmt: skip


def fits(members: int) -> Callable:
    """Networks trained with all gradients."""
    return lambda network, problem, stepsize, seed: trained(network, problem, seed, members, 1.0)


def chains(sampler: Callable, members: int = 1, leaps: int = 1, **settings: Any) -> Callable:
    """Chains from trained networks, with DRAWS stored in total."""

    def run(network: Any, problem: Problem, stepsize: float, seed: int) -> Draws:
        starts = trained(network, problem, seed, members)
        n_iters = int(problem.gradients * (1 - FOR_TRAINING) / members / leaps)
        each = DRAWS // members
        return sampler(
            **network, stepsize=stepsize, minibatchSize=problem.minibatchSize, nIters=n_iters, starts=starts,
            burnIn=n_iters % each, thin=n_iters // each, verbose=False, seed=seed, **settings,
        )  # fmt: skip

    return run


def cycles(network: Any, problem: Problem, stepsize: float, seed: int) -> list[dict]:
    """SGLD from an untrained network; the draws are those at the ends of the cycles."""
    schedule = cyclical(stepsize, problem.gradients // CYCLES, explorationFraction=0.8)
    out = sgld(
        **network, stepsize=schedule, minibatchSize=problem.minibatchSize, nIters=problem.gradients,
        starts=network.initial(1, seed), thin=problem.gradients // (5 * DRAWS), verbose=False, seed=seed,
    )  # fmt: skip
    exploring = np.asarray(out.sampleStats["exploring"])[0].any(axis=-1)
    return [{name: x[0, t] for name, x in out.items()} for t in np.flatnonzero(~exploring)]


METHODS = {
    "one fit by Adam": Method(fits(1)),
    "ensemble of five": Method(fits(MEMBERS)),
    "sghmc": Method(chains(sghmc, leaps=5), pilot=sghmc),
    "sghmc, five chains": Method(chains(sghmc, MEMBERS, leaps=5), pilot=sghmc),
    "ubu, symmetric minibatches": Method(chains(ubu, subsampling="symmetric"), pilot=ubu),
    "ubu, five chains": Method(chains(ubu, MEMBERS, subsampling="symmetric"), pilot=ubu),
    "psgld": Method(chains(psgld), guess=1e-8),
    "sgld, cyclical": Method(cycles, guess=1e-5),
}


def probabilities(network: Any, found: Any, testset: dict[str, np.ndarray]) -> tuple[np.ndarray, float]:
    """Predictive probabilities, and the share of those of the first 500 rows with an R-hat above 1.1."""
    if isinstance(found, Draws):
        p = found.predict(network.outputs, testset, quantiles=(), batchSize=2000)["mean"]
        if found.nChains == 1:
            return p, np.nan
        few = {name: x[:500] for name, x in testset.items()}
        return p, float(np.mean(found.predict(network.outputs, few, quantiles=(), diagnostics=True)["r_hat"] > 1.1))
    return np.mean([network.outputs(one, testset).numpy() for one in found], axis=0), np.nan


def over_seeds(columns: Iterable[Sequence[float]]) -> str:
    """The cells of a table: mean ± sd of each column."""
    return " | ".join(f"{np.mean(column):.4f} ± {np.std(column, ddof=1):.4f}" for column in columns)


def stepsize_of(method: Method, problem: Problem, known: dict[Any, float]) -> float | None:
    if method.pilot is not None:
        if method.pilot not in known:
            network = problem.network()
            start = trained(network, problem, 0)[0]
            table = checkTemperature(
                method.pilot, **network | {"params": start}, minibatchSize=problem.minibatchSize, nIters=PILOT, seed=0,
                verbose=False,
            )  # fmt: skip
            known[method.pilot] = table.attrs["stepsize"]
        return known[method.pilot]
    if method.guess is None:
        return None
    part, rest = problem.parted()
    network, losses = problem.network(part), {}
    for factor in GRID:
        try:
            p, _ = probabilities(network, method.run(network, problem, method.guess * factor, 0), rest)
            losses[method.guess * factor] = classScores(np.nan_to_num(p), rest["y"])["log_loss"]
        except (RuntimeError, ValueError, ArithmeticError):  # it diverged
            continue
    return min(losses, key=lambda eps: losses[eps])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--problems", default="letter,mnist")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    lines = []
    for name in arguments.problems.split(","):
        problem = {"mnist": mnist, "letter": letter}[name](arguments.data)
        lines += [
            f"**{name}**: {len(problem.dataset['y']):,} observations, n = {problem.minibatchSize}, "
            f"{problem.gradients:,} gradients", "",
            "| method | stepsize | accuracy | log loss | Brier score | calibration error | R-hat > 1.1 | seconds |",
            "|---|---:|---:|---:|---:|---:|---:|---:|",
        ]  # fmt: skip
        print("\n".join(lines[-4:]), flush=True)
        known: dict[Any, float] = {}
        for label, method in METHODS.items():
            stepsize, rows = stepsize_of(method, problem, known), []
            for seed in range(1, SEEDS + 1):
                network = problem.network()
                begin = time.perf_counter()
                found = method.run(network, problem, stepsize, seed)
                seconds = time.perf_counter() - begin
                p, apart = probabilities(network, found, problem.testset)
                rows.append([*classScores(p, problem.testset["y"])[list(SCORES)], apart, seconds])
            *scores, apart, seconds = zip(*rows, strict=True)
            shown = "" if stepsize is None else f"{stepsize:.1e}"
            share = "" if np.isnan(apart).any() else f"{np.mean(apart):.0%}"
            lines.append(f"| {label} | {shown} | {over_seeds(scores)} | {share} | {np.mean(seconds):.0f} |")
            print(lines[-1], flush=True)
        lines.append("")
    if arguments.output:
        arguments.output.write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
