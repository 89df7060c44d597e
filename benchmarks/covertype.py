"""Held-out log loss of the posterior mean of six samplers on the covertype data, against that of the exact mode.

    python benchmarks/covertype.py covertype_subset.npz

The file holds `X_num`, `wilderness`, `soil`, `y` and the ranges `num_min`, `num_max` of the ten numeric columns of the
UCI covertype data; y = 1 is class 2 (Lodgepole Pine). A tenth of the rows is held out.
"""

from __future__ import annotations

import sys
import time

import numpy as np
import scipy.optimize
import tensorflow as tf

import sgmcmc

N_ITERS = 10**4
# Stepsize and further settings of each sampler, chosen for this posterior.
SAMPLERS: dict[str, dict] = {
    "sgld": {"stepsize": 5e-6},
    "sghmc": {"stepsize": 1e-6, "alpha": 0.1},
    "sgnht": {"stepsize": 1e-6},
    "sgldcv": {"stepsize": 5e-6, "optStepsize": 5e-6},
    "sghmccv": {"stepsize": 1e-6, "alpha": 0.1, "optStepsize": 5e-6},
    "sgnhtcv": {"stepsize": 1e-6, "optStepsize": 5e-6},
}


def load(path: str) -> tuple[dict, dict]:
    """Training and held-out sets, split 90/10 with seed 1."""
    file = np.load(path)
    low, high = file["num_min"].astype(float), file["num_max"].astype(float)
    one_hot = [np.eye(4)[file["wilderness"] - 1], np.eye(40)[file["soil"] - 1]]
    features = np.hstack([(file["X_num"] - low) / (high - low), *one_hot]).astype(np.float32)
    labels = (file["y"] == 2).astype(np.float32)
    order = np.random.default_rng(1).permutation(len(labels))
    held_out, training = np.split(order, [len(order) // 10])
    return tuple({"X": features[rows], "y": labels[rows]} for rows in (training, held_out))


def log_lik(params: dict, dataset: dict) -> tf.Tensor:
    logits = tf.linalg.matvec(dataset["X"], params["beta"]) + params["bias"]
    return tf.reduce_sum(dataset["y"] * logits - tf.nn.softplus(logits))


def log_prior(params: dict) -> tf.Tensor:
    return -tf.reduce_sum(tf.abs(params["beta"])) - tf.abs(params["bias"])


def log_loss(params: dict, dataset: dict) -> float:
    logits = dataset["X"].astype(float) @ params["beta"] + params["bias"]
    return float(np.mean(np.logaddexp(0.0, logits) - dataset["y"] * logits))


def exact_mode(dataset: dict) -> dict:
    """The posterior mode by L-BFGS over all data, in double precision."""
    design = np.hstack([dataset["X"], np.ones((len(dataset["y"]), 1))]).astype(float)

    def loss_and_gradient(beta: np.ndarray) -> tuple[float, np.ndarray]:
        logits = design @ beta
        loss = np.sum(np.logaddexp(0.0, logits) - dataset["y"] * logits) + np.abs(beta).sum()
        gradient = design.T @ (1.0 / (1.0 + np.exp(-logits)) - dataset["y"]) + np.sign(beta)
        return loss, gradient

    options = {"maxiter": 2000, "maxfun": 4000}
    beta = scipy.optimize.minimize(
        loss_and_gradient, np.zeros(design.shape[1]), jac=True, method="L-BFGS-B", options=options
    ).x
    return {"beta": beta[:-1], "bias": beta[-1]}


def main(path: str) -> None:
    training, held_out = load(path)
    reference = log_loss(exact_mode(training), held_out)
    print(f"{len(training['y'])} rows to learn from, {len(held_out['y'])} held out; exact mode: {reference:.4f}")
    print("| sampler | settings | held-out log loss | above the mode | seconds |\n|---|---|---|---|---|")
    start = {"bias": 0.0, "beta": np.zeros(54)}
    for name, settings in SAMPLERS.items():
        began = time.perf_counter()
        out = getattr(sgmcmc, name)(
            log_lik, training, start, logPrior=log_prior, minibatchSize=500, nIters=N_ITERS, verbose=False, seed=1,
            **settings,
        )  # fmt: skip
        seconds = time.perf_counter() - began
        burn_in = 0 if name.endswith("cv") else N_ITERS // 2
        loss = log_loss({key: draws[burn_in:].mean(axis=0) for key, draws in out.items()}, held_out)
        print(f"| {name} | {settings} | {loss:.4f} | {loss - reference:+.4f} | {seconds:.1f} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
