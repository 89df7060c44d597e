"""Figure 2 of Zhang et al. (2020): how many modes of a mixture of 25 normal distributions four chains find.

    python benchmarks/papers/cyclical_figure2.py --output FOLDER

Writes cyclical_figure2.md and cyclical_figure2.png. There are no data; --data is not looked at. blackjax needs its
environment; see `make_environments.sh`.
"""

from __future__ import annotations

import datetime
import statistics
import sys
import tempfile
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from shared import Clock, arguments, house_style, plt, table, write

sys.path.insert(0, str(Path(__file__).parents[1]))

from harness import BLACKJAX, machine, run_worker, timed

import sgmcmc

TITLE = "Zhang, Li, Zhang, Chen and Wilson (2020), Cyclical stochastic gradient MCMC for Bayesian deep learning"
CENTRES = 2.0 * np.stack(np.meshgrid(np.arange(-2, 3), np.arange(-2, 3), indexing="ij"), axis=-1).reshape(25, 2)
VARIANCE = 0.03  # of each part
FIRST, LARGEST = 0.043, 0.07  # eta of the decreasing steps, and of a cycle; the stepsize of sgmcmc is 2 eta
CONSTANT, POWER = 500, 0.55  # iterations before the steps decrease, and how
CHAINS, ITERATIONS, CYCLES, DROPPED = 4, 50_000, 30, 50  # of each cycle the first draws are dropped
LENGTH = -(-ITERATIONS // CYCLES)
SETS, REPETITIONS = 50, 3
ROWS = 10_000  # whose gradients are the noise
PUBLISHED = {"SGLD": "4", "cSGLD": "25 (all)"}
RADIUS, SHARES = 3 * np.sqrt(VARIANCE), (0.01, 0.1)


def log_density(params: dict) -> tf.Tensor:
    squares = tf.reduce_sum((params["theta"] - tf.constant(CENTRES, params["theta"].dtype)) ** 2, axis=-1)
    return tf.reduce_logsumexp(-0.5 / VARIANCE * squares)


def linear(params: dict, dataset: dict) -> tf.Tensor:
    """A log likelihood whose sum is 0, and whose gradient from one observation is standard normal noise."""
    return tf.reduce_sum(dataset["x"] * params["theta"]) / ROWS


def noise_rows(seed: int) -> np.ndarray:
    x = np.random.default_rng(seed).normal(size=(ROWS, 2))
    return ((x - x.mean(axis=0)) / x.std(axis=0)).astype(np.float32)


def decreasing(iteration: tf.Tensor) -> tf.Tensor:
    after = tf.maximum(iteration - (CONSTANT - 1.0), 1.0)
    return 2 * FIRST * after**-POWER


CYCLICAL = sgmcmc.cyclical(2 * LARGEST, cycleLength=LENGTH)
SCHEDULES: dict[str, Callable[[tf.Tensor], tf.Tensor]] = {"SGLD": decreasing, "cSGLD": CYCLICAL}


def ours(name: str, starts: np.ndarray, seed: int, noisy: bool, iterations: int) -> dict[str, Any]:
    """`sgld` with this schedule, or with the stepsize that it chooses."""
    rows = noise_rows(seed) if noisy else np.zeros((1, 2), np.float32)
    with timed() as spent, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of starts that end in different places: the table shows it
        out = sgmcmc.sgld(
            linear, {"x": rows}, {"theta": np.zeros(2) + 0.1}, SCHEDULES.get(name, "auto"), log_density,
            minibatchSize=1, nIters=iterations, nChains=len(starts), starts={"theta": starts},
            preconditioner=None if name in SCHEDULES else "auto", verbose=False, seed=seed,
        )  # fmt: skip
    return spent | {"draws": np.asarray(out["theta"])}


def theirs(name: str, starts: np.ndarray, seed: int, iterations: int) -> dict[str, Any]:
    steps = SCHEDULES[name](tf.range(iterations, dtype=tf.float32)).numpy() / 2
    with tempfile.TemporaryDirectory() as folder:
        path, output = Path(folder) / "input.npz", Path(folder) / "draws.npy"
        np.savez(path, starts=starts, steps=steps, centres=CENTRES, variance=VARIANCE)
        return run_worker(BLACKJAX, "cyclical.py", path, output, seed) | {"draws": np.load(output)}


def kept(name: str, draws: np.ndarray) -> np.ndarray:
    """Without the first draws of each cycle, as the authors have it."""
    return draws[:, np.arange(draws.shape[1]) % LENGTH >= DROPPED] if name == "cSGLD" else draws


def found_modes(draws: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each set of chains, the modes found by both criteria, and the total variation distance of shares to 1/25."""
    modes, distances = [], []
    for four in draws.reshape(-1, CHAINS * draws.shape[1], 2):
        nearest = np.rint(np.clip(four / 2, -2, 2)).astype(int) + 2
        which = 5 * nearest[:, 0] + nearest[:, 1]
        near = ((four - CENTRES[which]) ** 2).sum(axis=1) < RADIUS**2
        counts = np.bincount(which[near], minlength=25)
        modes.append([(counts >= share * len(four) / 25).sum() for share in SHARES])
        distances.append(0.5 * np.abs(np.bincount(which, minlength=25) / len(four) - 1 / 25).sum())
    return np.array(modes), np.array(distances)


def picture(examples: dict[str, np.ndarray], path: Path) -> None:
    house_style()
    figure, axes = plt.subplots(1, len(examples), figsize=(3 * len(examples), 3), layout="constrained", sharey=True)
    for ax, (title, draws) in zip(axes, examples.items(), strict=True):
        ax.plot(*draws[::20].T, ".", markersize=0.6, color="#4477aa")
        ax.plot(*CENTRES.T, "+", color="#ee6677", markersize=4)
        ax.set(xlim=(-5.5, 5.5), ylim=(-5.5, 5.5), aspect="equal")
        ax.set_title(title, fontsize="medium")
    figure.savefig(path, dpi=130)


def main() -> None:
    given, clock = arguments(__doc__), Clock()
    iterations, sets = (2000, 5) if given.quick else (ITERATIONS, SETS)
    arms: dict[tuple[str, str], Callable[..., dict[str, Any]]] = {}
    for name in SCHEDULES:
        arms[name, "blackjax"] = partial(theirs, name, iterations=iterations)
        arms[name, "sgmcmc"] = partial(ours, name, noisy=False, iterations=iterations)
        arms[name, "sgmcmc, gradients with noise"] = partial(ours, name, noisy=True, iterations=iterations)
    arms["SGLD", "sgmcmc, automatic stepsize"] = partial(ours, "auto", noisy=True, iterations=iterations)
    results: dict[tuple[str, str], list[dict[str, Any]]] = {}
    examples, version = {}, ""
    for seed in range(1 if given.quick else REPETITIONS):
        starts = np.random.default_rng(seed).uniform(-10, 10, size=(CHAINS * sets, 2)).astype(np.float32)
        for (name, program), run in arms.items():
            one = run(starts=starts, seed=seed)
            draws = kept(name, one.pop("draws"))
            version = one.pop("blackjax", version)
            one["modes"], one["distance"] = found_modes(draws)
            results.setdefault((name, program), []).append(one)
            examples.setdefault(f"{name}, {program.split(', ')[-1]}", draws[:CHAINS].reshape(-1, 2))
            clock(f"{name}, {program}: {one['modes'].mean(axis=0)} modes, {one['seconds']:.1f} s")
    lines = []
    for (name, program), runs in results.items():
        modes = np.concatenate([one["modes"] for one in runs])
        distance = np.concatenate([one["distance"] for one in runs])
        lines.append(
            [
                f"{name}, {program}",
                PUBLISHED[name],
                *(f"{of.mean():.1f} ({of.min()} to {of.max()})" for of in modes.T),
                f"{distance.mean():.2f}",
                *(f"{statistics.median(one[what] for one in runs):.1f}" for what in ("seconds", "work")),
            ]
        )
    picture(examples, given.output / "cyclical_figure2.png")
    write(given.output / "cyclical_figure2.md", page(lines, sets * len(next(iter(results.values()))), version, clock))


HEADER = ("sampler and program", "modes, published", *(f"modes with {share:.0%}" for share in SHARES), "distance")
HEADER += ("seconds", "work")


def page(lines: list[list[str]], sets: int, version: str, clock: Clock) -> list[str]:
    return [
        "# Modes found among 25",
        f"{TITLE}, figure 2. The target is a mixture of 25 normal distributions with equal weights, the variance "
        f"{VARIANCE}, and centres 2 apart. {CHAINS} chains make {ITERATIONS:,} iterations each. The caption says that "
        "SGLD has found 4 of the 25 modes, and that cSGLD has explored all. Stepsizes and starts are those of the "
        "authors' code for a single chain (`experiments/mog25.m`, ruqizhang/csgmcmc): uniform starts in (-10, 10)^2; "
        f"for SGLD steps of {FIRST} that fall as t^-{POWER} after {CONSTANT} iterations; for cSGLD {CYCLES} cycles "
        f"from {LARGEST}, of which the first {DROPPED} draws are dropped. These are eta in theta + eta gradient + "
        "N(0, 2 eta); the `stepsize` of sgmcmc is 2 eta.",
        "The authors add standard normal noise to the gradient, and take its variance off the injected noise. The sum "
        "is exactly N(0, 2 eta). So `sgld` without gradient noise has the law of their chain. blackjax has it too, "
        "from its SGLD with these steps, noisy gradients and the temperature 1 - eta/2. *Gradients with noise* are "
        f"from minibatches of one of {ROWS:,} observations. Their noise is not taken off, which makes the "
        "steps at most 1.7% larger. *Automatic* is the stepsize that `sgld` chooses at a mode.",
        f"*Modes* are those with at least {SHARES[0]:.0%}, or {SHARES[1]:.0%}, of their share of the draws within "
        f"three standard deviations; given are the mean and the range over {sets} sets of {CHAINS} chains. The caption "
        "is of one set, and the paper's criterion is not known to us. *Distance* is the total variation distance "
        "between the shares of the 25 modes and 1/25.",
        f"*Seconds* and *work* (processor time) are for {CHAINS * SETS} chains side by side, with compilation; medians "
        f"of {REPETITIONS}.",
        table(HEADER, lines),
        "![Draws of four chains](cyclical_figure2.png)",
        f"{datetime.date.today():%d %B %Y}. {machine()}; blackjax {version}, sgmcmc {sgmcmc.__version__}, TensorFlow "
        f"{tf.__version__}. {clock.minutes} minutes.",
    ]


if __name__ == "__main__":
    main()
