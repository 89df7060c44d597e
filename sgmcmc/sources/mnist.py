"""MNIST: from bytes to flat images in [0, 1] and one-hot labels, without the images kept for validation."""

from __future__ import annotations

from pathlib import Path

import numpy as np

N_VALIDATION = 5_000


def read(path: Path) -> dict[str, dict[str, np.ndarray]]:
    """The parts train and test, each with images and labels."""
    with np.load(path, allow_pickle=False) as arrays:
        train = _part(arrays["x_train"][N_VALIDATION:], arrays["y_train"][N_VALIDATION:])
        test = _part(arrays["x_test"], arrays["y_test"])
    return {"train": train, "test": test}


def _part(images: np.ndarray, digits: np.ndarray) -> dict[str, np.ndarray]:
    flat = images.reshape(len(images), -1) / np.float32(255)
    return {"images": flat, "labels": np.eye(10, dtype=np.float32)[digits]}
