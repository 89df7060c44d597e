"""Groups and windows: posteriors against exact ones, the error of windows, and long series.

    pip install statsmodels
    python benchmarks/dependent_rows.py --output benchmarks/DEPENDENT_ROWS.md    # forty minutes, 2 GB of free disk
    python benchmarks/dependent_rows.py --cases posteriors --quick               # to check that everything works

Every run is `sgldcv` with everything automatic: stepsize, minibatch size, number of iterations (1,000 effective draws)
and, for series, the number of steps before a window.

- **posteriors**: a conditional logit, a hidden Markov model and a linear Gaussian state-space model, against importance
  sampling from the whole likelihood, which NumPy computes by loops over situations or steps. The conditional logit is
  also fitted by statsmodels.
- **context**: by how many posterior sds the mode would move if windows saw all steps before them, not only B, for the
  state-space model: measured with NumPy, and as a run predicts it.
- **length**: series of up to 10^7 steps in a memory map, and 10^6 situations in memory: seconds until the first draw,
  and for each effective draw.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import tensorflow as tf
from scipy.optimize import minimize
from scipy.special import expit, logit, logsumexp
from scipy.stats import multivariate_t

from sgmcmc import groups, initSess, interval, sgldcv, sgldcvSetup, windows

AUTOMATIC: dict[str, Any] = {"minibatchSize": "auto", "verbose": False, "seed": 1}
STEPS, LENGTH = 2000, 10
FIGURE = Path(__file__).resolve().parent / "figures" / "context.png"

# --- conditional logit


def choices(n_situations: int, seed: int = 0) -> pd.DataFrame:
    """Choices among two to six alternatives with a price and a time."""
    rng = np.random.default_rng(seed)
    situation = np.repeat(np.arange(n_situations), rng.integers(2, 7, size=n_situations))
    table = pd.DataFrame({"situation": situation, "price": rng.normal(size=len(situation))})
    table["time"] = rng.normal(size=len(situation))
    utility = -table.price - 0.5 * table.time + rng.gumbel(size=len(table))
    table["chosen"] = utility == utility.groupby(situation).transform("max")
    return table


def log_lik_of_choices(params: dict, dataset: dict) -> tf.Tensor:
    utility = params["beta"][0] * dataset["price"] + params["beta"][1] * dataset["time"]
    inside = dataset["inside"]
    chosen = tf.reduce_sum(inside * dataset["chosen"] * utility, axis=1)
    return chosen - tf.reduce_logsumexp(tf.where(inside > 0, utility, -1e30), axis=1)


def whole_of_choices(table: pd.DataFrame) -> Callable[[np.ndarray], np.ndarray]:
    """The log likelihood of parameters [S, 2], by situation."""
    X, chosen = table[["price", "time"]].to_numpy(), table.chosen.to_numpy()
    starts = np.flatnonzero(np.diff(table.situation, prepend=-1))

    def density(u: np.ndarray) -> np.ndarray:
        utility = u @ X.T
        return utility[:, chosen].sum(axis=1) - np.log(np.add.reduceat(np.exp(utility), starts, axis=1)).sum(axis=1)

    return density


# --- a hidden Markov model with two states


def markov_series(n_steps: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    leaves, state, states = np.array([0.05, 0.15]), 0, np.empty(n_steps, int)
    for t, u in enumerate(rng.uniform(size=n_steps)):
        state = 1 - state if u < leaves[state] else state
        states[t] = state
    return 2.0 * states + rng.normal(size=n_steps)


def log_lik_of_markov(params: dict, dataset: dict) -> tf.Tensor:
    leave = params["leave"]
    move = tf.math.log([[1 - leave[0], leave[0]], [leave[1], 1 - leave[1]]])
    first = tf.math.log(tf.stack([leave[1], leave[0]]) / (leave[0] + leave[1]))
    y = tf.transpose(dataset["y"])
    of_states = -0.5 * (y[..., None] - params["mean"]) ** 2

    def step(before: tuple, of_state: tf.Tensor) -> tuple:
        joint = tf.reduce_logsumexp(before[0][:, :, None] + move, axis=1) + of_state
        total = tf.reduce_logsumexp(joint, axis=1, keepdims=True)
        return joint - total, total[:, 0]

    joint = first + of_states[0]
    total = tf.reduce_logsumexp(joint, axis=1, keepdims=True)
    rest = tf.scan(step, of_states[1:], (joint - total, total[:, 0]))[1]
    of_steps = tf.concat([total[None, :, 0], rest], axis=0)
    return tf.reduce_sum(dataset["inside"] * tf.transpose(of_steps), axis=1)


def whole_of_markov(y: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """The log likelihood of (mean[0], mean[1], logit leave[0], logit leave[1]) plus the log Jacobian, by steps."""

    def density(u: np.ndarray) -> np.ndarray:
        leave = expit(u[:, 2:])
        move = np.log(np.stack([1 - leave[:, 0], leave[:, 0], leave[:, 1], 1 - leave[:, 1]], axis=1)).reshape(-1, 2, 2)
        state = np.log(leave[:, ::-1] / leave.sum(axis=1, keepdims=True))
        total = np.zeros(len(u))
        for number, y_t in enumerate(y):
            predicted = state if number == 0 else logsumexp(state[:, :, None] + move, axis=1)
            joint = predicted - 0.5 * (y_t - u[:, :2]) ** 2
            of_step = logsumexp(joint, axis=1)
            total, state = total + of_step, joint - of_step[:, None]
        return total + np.log(leave * (1 - leave)).sum(axis=1)

    return density


# --- a level that returns to 0, observed with noise


def level_series(n_steps: int, phi: float = 0.9, seed: int = 0) -> np.ndarray:
    from scipy.signal import lfilter

    rng = np.random.default_rng(seed)
    return lfilter([1.0], [1.0, -phi], 0.5 * rng.normal(size=n_steps)) + rng.normal(size=n_steps)


def rate_of_level(phi: float, q: float, r: float) -> float:
    """The rate phi (1 - gain) at which the Kalman filter forgets its past."""
    variance = q
    for _ in range(1000):
        variance = phi**2 * variance * r / (variance + r) + q
    return phi * r / (variance + r)


FORGETS = rate_of_level(0.9, 0.25, 1.0)


def log_lik_of_level(params: dict, dataset: dict) -> tf.Tensor:
    phi, q, r = params["phi"], params["stateSd"] ** 2, params["noiseSd"] ** 2
    y = tf.transpose(dataset["y"])

    def step(before: tuple, y: tf.Tensor) -> tuple:
        mean, variance, _ = before
        total = variance + r
        density = -0.5 * (y - mean) ** 2 / total - 0.5 * tf.math.log(total)
        gain = variance / total
        return phi * (mean + gain * (y - mean)), phi**2 * variance * (1 - gain) + q, density

    zeros = tf.zeros_like(y[0])
    of_steps = tf.scan(step, y, (zeros, zeros + q / (1 - phi**2), zeros))[2]
    return tf.reduce_sum(dataset["inside"] * tf.transpose(of_steps), axis=1)


LEVEL = {"phi": 0.5, "stateSd": 1.0, "noiseSd": 1.0}
LEVEL_TRANSFORMS = {"phi": interval(-1, 1), "stateSd": "positive", "noiseSd": "positive"}


def level_of(u: np.ndarray) -> np.ndarray:
    """phi and the two sds, from the unconstrained scale."""
    return np.concatenate([2 * expit(u[..., :1]) - 1, np.exp(u[..., 1:])], axis=-1)


def level_steps(u: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The log predictive densities of the steps (first axis) of several series."""
    phi, q, r = np.moveaxis(level_of(u), -1, 0)
    q, r = q**2, r**2
    mean, variance, found = np.zeros(y.shape[1:]), q / (1 - phi**2), []
    for y_t in y:
        total = variance + r
        found.append(-0.5 * (y_t - mean) ** 2 / total - 0.5 * np.log(total))
        gain = variance / total
        mean, variance = phi * (mean + gain * (y_t - mean)), phi**2 * variance * (1 - gain) + q
    return np.stack(found)


def whole_of_level(y: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """The log likelihood plus the log Jacobian, at unconstrained parameters [S, 3]."""

    def density(u: np.ndarray) -> np.ndarray:
        return level_steps(u, y[:, None]).sum(axis=0) + log_jacobian_of_level(u)

    return density


def log_jacobian_of_level(u: np.ndarray) -> np.ndarray:
    p = expit(u[..., 0])
    return np.log(2 * p * (1 - p)) + u[..., 1] + u[..., 2]


# --- the cases


def importance(density: Callable, u: np.ndarray, n_draws: int) -> tuple[np.ndarray, np.ndarray]:
    """Draws and weights, from a t-distribution around the draws u."""
    proposal = multivariate_t(u.mean(axis=0), 1.2 * np.cov(u.T), df=8, seed=2)
    proposed = proposal.rvs(n_draws)
    log_weights = np.concatenate([density(part) for part in np.array_split(proposed, max(n_draws // 500, 1))])
    log_weights -= proposal.logpdf(proposed)
    weights = np.exp(log_weights - log_weights.max())
    return proposed, weights / weights.sum()


def posteriors(quick: bool) -> str:
    n_draws = 1000 if quick else 20_000
    table, y, z = choices(2000), markov_series(STEPS), level_series(STEPS)
    start = {"mean": np.array([-0.5, 2.5]), "leave": np.array([0.2, 0.2])}
    runs: dict[str, tuple[Callable, Any, Mapping, Mapping, Callable, Callable, Callable]] = {
        "conditional logit": (
            log_lik_of_choices, groups(table, by="situation"), {"beta": np.zeros(2)}, {}, whole_of_choices(table),
            lambda x: x, lambda u: u,
        ),
        "hidden Markov": (
            log_lik_of_markov, windows({"y": y}, length=LENGTH), start, {"leave": interval(0, 1)}, whole_of_markov(y),
            lambda x: np.concatenate([x[:, :2], logit(x[:, 2:])], axis=1),
            lambda u: np.concatenate([u[:, :2], expit(u[:, 2:])], axis=1),
        ),
        "state-space": (
            log_lik_of_level, windows({"y": z}, length=LENGTH), LEVEL, LEVEL_TRANSFORMS, whole_of_level(z),
            lambda x: np.concatenate([logit((x[:, :1] + 1) / 2), np.log(x[:, 1:])], axis=1), level_of,
        ),
    }  # fmt: skip
    lines = [
        "| model | element | mean | exact | off by (sds) | sd | exact | ratio | steps before | draws (s) |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for model, (log_lik, dataset, first, transforms, density, unconstrained, constrained) in runs.items():
        began = time.perf_counter()
        out = sgldcv(log_lik, dataset, first, transforms=transforms or None, nIters="auto", **AUTOMATIC)
        seconds = time.perf_counter() - began
        names = [f"{name}[{k}]" if np.size(x) > 1 else name for name, x in first.items() for k in range(np.size(x))]
        draws = np.concatenate([out[name].reshape(-1, np.size(x)) for name, x in first.items()], axis=1)
        proposed, weights = importance(density, unconstrained(draws), n_draws)
        exact = constrained(proposed)
        mean = weights @ exact
        sd = np.sqrt(weights @ (exact - mean) ** 2)
        for k, name in enumerate(names):
            ours, spread = draws[:, k].mean(), draws[:, k].std()
            lines.append(
                f"| {model} | {name} | {ours:.4f} | {mean[k]:.4f} | {(ours - mean[k]) / sd[k]:+.3f} | {spread:.4f} | "
                f"{sd[k]:.4f} | {spread / sd[k]:.3f} | {out.settings.get('before', '')} | {seconds:.0f} |"
            )
    from statsmodels.discrete.conditional_models import ConditionalLogit

    fit = ConditionalLogit(table.chosen.astype(int), table[["price", "time"]], groups=table.situation).fit(disp=False)
    lines += [
        "",
        f"statsmodels' ConditionalLogit: {fit.params.to_numpy().round(4)}, sds {fit.bse.to_numpy().round(4)}.",
    ]
    return "\n".join(lines)


def measured_shifts(y: np.ndarray, lengths: list[int]) -> np.ndarray:
    """By how many sds the mode for B steps before would move with all steps, [B, 3], on the unconstrained scale."""

    def mode_of(density: Callable[[np.ndarray], float], first: np.ndarray) -> np.ndarray:
        return minimize(lambda u: -density(u), first, method="BFGS", options={"gtol": 1e-4}).x

    def seen(before: int) -> Callable[[np.ndarray], float]:
        starts = np.arange(0, len(y), LENGTH)
        begin = np.maximum(starts - before, 0)
        at = np.arange(LENGTH + before)[:, None] + begin
        counts = (at >= starts) & (at < np.minimum(starts + LENGTH, len(y)))
        steps = y[np.minimum(at, len(y) - 1)]
        return lambda u: float(np.where(counts, level_steps(u, steps), 0.0).sum() + log_jacobian_of_level(u))

    # Windows that see all of the past have the likelihood of the series; 400 steps are as good as all.
    whole = seen(400)
    best = mode_of(whole, np.array([2.9, np.log(0.5), 0.0]))
    step = 0.01
    unit = step * np.eye(3)
    hessian = np.array(
        [
            [
                whole(best + a + b) - whole(best + a - b) - whole(best - a + b) + whole(best - a - b)
                for b in unit
            ]
            for a in unit
        ]
    ) / (4 * step**2)  # fmt: skip
    sd = np.sqrt(np.diag(np.linalg.inv(-hessian)))
    return np.stack([(best - mode_of(seen(before), best)) / sd for before in lengths])


def context(quick: bool) -> str:
    y = level_series(STEPS if quick else 20_000, seed=3)
    lengths = [1, 2, 4, 8, 12, 16, 20, 24]
    measured = measured_shifts(y, lengths)
    predicted = {}
    for before in [4] if quick else [2, 4, 8, 16]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            dataset = windows({"y": y}, length=LENGTH, before=before)
            sampler = sgldcvSetup(log_lik_of_level, dataset, LEVEL, transforms=LEVEL_TRANSFORMS, minibatchSize="auto")
            initSess(sampler, verbose=False)
        shift = sampler.expected["contextShift"]
        predicted[before] = [float(shift[name]) for name in LEVEL]
    names = list(LEVEL)
    lines = [
        "| steps before | " + " | ".join(f"{name}, measured | predicted" for name in names) + " |",
        "|---|" + "---|" * (2 * len(names)),
    ]
    for before, shift in zip(lengths, measured, strict=True):
        of_each = [
            f"{shift[k]:+.4f} | {predicted[before][k]:+.4f}" if before in predicted else f"{shift[k]:+.4f} | "
            for k in range(len(names))
        ]
        lines.append(f"| {before} | " + " | ".join(of_each) + " |")
    figure, axes = plt.subplots(figsize=(5, 3.4), layout="constrained")
    for k, (name, colour) in enumerate(zip(names, ("#4477aa", "#ee6677", "#228833"), strict=True)):
        axes.plot(lengths, np.abs(measured[:, k]), color=colour, linewidth=1, label=name)
        axes.plot(list(predicted), np.abs([p[k] for p in predicted.values()]), "o", color=colour, markersize=5)
    axes.plot([], [], "o", color="0.4", label="predicted by the run")
    scale = np.abs(measured[lengths.index(8)]).mean() / FORGETS**8
    rate = scale * FORGETS ** np.array(lengths)
    axes.plot(lengths, rate, color="0.4", linewidth=0.8, linestyle="--", label="rate of the filter")
    axes.axhline(0.02, color="0.6", linewidth=0.8, linestyle=":")
    axes.set(yscale="log", xlabel="steps before a window", ylabel="shift of the mode (sds)")
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(FIGURE, dpi=200)
    return "\n".join(lines)


def length(quick: bool) -> str:
    lines = [
        "| data | N | steps before | minibatch | until the first draw (s) | in all (s) | s per effective draw |",
        "|---|---|---|---|---|---|---|",
    ]

    def timed(label: str, dataset: Any, log_lik: Callable, start: Mapping, transforms: Mapping | None) -> None:
        began = time.perf_counter()
        out = sgldcv(log_lik, dataset, start, transforms=transforms, nIters="auto", **AUTOMATIC)
        total, sampling = time.perf_counter() - began, out.timings["sampling"]
        each, s = sampling / float(out.summary()["ess_bulk"].min()), out.settings
        lines.append(
            f"| {label} | {s['N']:,} | {s.get('before', '')} | {s['minibatchSize']} | {total - sampling:.0f} | "
            f"{total:.0f} | {each:.3f} |"
        )

    with tempfile.TemporaryDirectory() as folder:
        for n_steps in [10**4] if quick else [10**4, 10**5, 10**6, 10**7]:
            path = Path(folder) / f"{n_steps}.npy"
            np.save(path, level_series(n_steps, seed=4).astype(np.float32))
            series = {"y": np.load(path, mmap_mode="r")}
            label = f"series of {n_steps:,} steps on disk"
            timed(label, windows(series, length=50), log_lik_of_level, LEVEL, LEVEL_TRANSFORMS)
    n_situations = 10**4 if quick else 10**6
    table = choices(n_situations)
    label = f"{n_situations:,} situations, {len(table):,} alternatives"
    timed(label, groups(table, by="situation"), log_lik_of_choices, {"beta": np.zeros(2)}, None)
    return "\n".join(lines)


INTRODUCTION = """# Groups and windows

Made by `python benchmarks/dependent_rows.py --output benchmarks/DEPENDENT_ROWS.md` on two virtual cores. All runs are
`sgldcv` with everything automatic. Standard deviations are predicted to be 3% to 4% too large, within the default
`tolerance` of 5%, and have a Monte Carlo error of 2%.
"""
OF_CASES = {
    "posteriors": "",
    "context": """\
By how many posterior standard deviations the mode would move if windows saw all steps before them: measured, and
predicted by the run. Windows have 10 steps, the series 20,000.

![The shift against the number of steps before, on a log scale](figures/context.png)

""",
    "length": """\
The series are those of the state-space model, in a memory map; windows have 50 steps. `minibatch` counts windows or
situations.

""",
}
CASES = {"posteriors": posteriors, "context": context, "length": length}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    parts = []
    for case in given.cases.split(","):
        parts.append(f"## {case.capitalize()}\n\n{OF_CASES[case]}{CASES[case](given.quick)}\n")
        print(parts[-1], flush=True)
    if given.output:
        given.output.write_text(f"{INTRODUCTION}\n" + "\n".join(parts))


if __name__ == "__main__":
    main()
