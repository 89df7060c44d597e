"""An iteration of sgld against a training step of Keras with Adam, for a convolutional network; see NETWORKS.md.

Both run in one process, in turns, on minibatches of the same sizes. Keras runs without XLA, which would be slower.
"""

from __future__ import annotations

import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import keras
import numpy as np
from harness import Section, compare, interleave, machine, render  # harness also makes workers/ importable
from protocol import seconds

from sgmcmc import fromKeras, initSess, sgldSetup, sgmcmcStep

N, SIZES, ITERATIONS, REPETITIONS = 10_000, (32, 128), 32, 9


def network() -> keras.Model:
    """28 x 28 pixels, two convolutions with pooling, ten classes: 34,826 weights."""
    layers = keras.layers
    return keras.Sequential(
        [
            keras.Input((28, 28, 1)),
            layers.Conv2D(32, 3, activation="relu"),
            layers.MaxPooling2D(2),
            layers.Conv2D(64, 3, activation="relu"),
            layers.MaxPooling2D(2),
            layers.Flatten(),
            layers.Dense(10),
        ]
    )


def of_size(n: int, images: np.ndarray, labels: np.ndarray) -> Section:
    """Milliseconds for minibatches of n images."""
    rng = np.random.default_rng(0)
    trained = network()
    trained.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), jit_compile=False)

    def fit() -> None:
        for _ in range(ITERATIONS):
            rows = rng.integers(0, N, n)
            trained.train_on_batch(images[rows], labels[rows])

    sampler = sgldSetup(
        **fromKeras(network(), {"X": images, "y": labels}, "categorical"), stepsize=1e-6, minibatchSize=n, seed=1
    )
    sess = initSess(sampler, verbose=False)
    arms = {"sgld": lambda: sgmcmcStep(sampler, sess, nSteps=ITERATIONS), "Keras": fit}
    measured = interleave(
        {name: lambda arm=arm: seconds(arm) / ITERATIONS * 1e3 for name, arm in arms.items()}, REPETITIONS
    )
    return Section(f"n = {n}", "", "ms", measured, [compare("sgld / Keras", measured["sgld"], measured["Keras"])])


def main() -> None:
    rng = np.random.default_rng(1)
    images, labels = rng.random((N, 28, 28, 1), dtype=np.float32), rng.integers(0, 10, N)
    print(machine())
    for n in SIZES:
        print(render(of_size(n, images, labels)))


if __name__ == "__main__":
    main()
