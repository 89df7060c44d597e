"""Log likelihoods of observations given the outputs of a network, by the name of a distribution."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tensorflow as tf

from sgmcmc.core.errors import refused
from sgmcmc.core.trees import Tree

CLOSE = 1e-3
LOG_2_PI = float(np.log(2 * np.pi))


@dataclass(frozen=True)
class Loss:
    """The distribution of an observation, given outputs of a network."""

    mean: Callable[[tf.Tensor], tf.Tensor]  # outputs [n, ...] -> the mean of the targets, in their shape
    log_lik: Callable[[Tree, tf.Tensor, Tree], tf.Tensor]  # (params, outputs, dataset) -> that of each observation, [n]
    params: dict[str, np.ndarray] = field(default_factory=dict)  # those that are not weights, at their starting values
    log_prior: Callable[[Tree], tf.Tensor] | None = None  # of these
    transforms: dict[str, str] | None = None


def own(loss: Callable[[tf.Tensor, Tree], tf.Tensor]) -> Loss:
    """The user's loss."""
    return Loss(lambda outputs: outputs, lambda params, outputs, dataset: loss(outputs, dataset))


def categorical(of: str, name: str, outputs: tf.Tensor, few: np.ndarray, every: np.ndarray) -> Loss:
    """K classes, given as numbers from 0 to K - 1 or as one row of K proportions each."""
    if len(outputs.shape) != 2 or outputs.shape[1] < 2:
        must = "have an output for each class, [n, K] with K of at least 2, for the loss 'categorical'"
        got = f"{_shape(outputs)}. For two classes and one output, use loss='bernoulli'"
        raise refused(of, "model", must, got)
    _require_link(of, outputs, tf.nn.softmax, "softmax", _is_proportions(np.asarray(outputs)))
    n_classes = outputs.shape[1]
    if few.dtype.kind == "i" and few.shape[1:] in ((), (1,)):
        if every.min() < 0 or every.max() >= n_classes:
            must = f"be classes from 0 to {n_classes - 1}, one for each output of model"
            raise refused(of, f"dataset[{name!r}]", must, f"{every.min()} to {every.max()}")
    elif few.shape[1:] != (n_classes,) or not _is_proportions(every):
        must = f"be integers from 0 to {n_classes - 1} (named in integers), or have {n_classes} proportions in each row"
        raise refused(of, f"dataset[{name!r}]", must, f"{few.dtype} of shape {_shape(few)}")

    def log_lik(params: Tree, outputs: tf.Tensor, dataset: Tree) -> tf.Tensor:
        logits, targets = _logits(outputs), dataset[name]
        if targets.dtype.is_integer:
            return -tf.nn.sparse_softmax_cross_entropy_with_logits(tf.reshape(targets, [-1]), logits)
        return tf.reduce_sum(tf.cast(targets, logits.dtype) * tf.nn.log_softmax(logits), axis=1)

    return Loss(lambda outputs: tf.nn.softmax(_logits(outputs)), log_lik)


def bernoulli(of: str, name: str, outputs: tf.Tensor, few: np.ndarray, every: np.ndarray) -> Loss:
    """Zeros and ones, with one output for each."""
    _require_shape(of, name, outputs, few)
    _require_link(of, outputs, tf.sigmoid, "sigmoid", False)
    if every.min() < 0 or every.max() > 1:
        got = f"{every.min()} to {every.max()}"
        raise refused(of, f"dataset[{name!r}]", "be in [0, 1] for the loss 'bernoulli'", got)

    def log_lik(params: Tree, outputs: tf.Tensor, dataset: Tree) -> tf.Tensor:
        targets = dataset[name]
        logits = tf.reshape(_logits(outputs), tf.shape(targets))
        return -_row_sums(tf.nn.sigmoid_cross_entropy_with_logits(tf.cast(targets, logits.dtype), logits))

    return Loss(_as_targets(few, lambda outputs: tf.sigmoid(_logits(outputs))), log_lik)


def gaussian(of: str, name: str, outputs: tf.Tensor, few: np.ndarray, every: np.ndarray) -> Loss:
    """Real numbers with the outputs as means and the parameter "sd", one for each column."""
    _require_shape(of, name, outputs, few)
    start = np.ones(() if few[0].size == 1 else few.shape[1:], outputs.dtype.as_numpy_dtype)

    def log_lik(params: Tree, outputs: tf.Tensor, dataset: Tree) -> tf.Tensor:
        sd, targets = params["sd"], dataset[name]
        means = tf.reshape(outputs, tf.shape(targets))
        z = (tf.cast(targets, means.dtype) - means) / sd
        return _row_sums(-0.5 * z**2 - tf.math.log(sd) - 0.5 * LOG_2_PI)

    def log_prior(params: Tree) -> tf.Tensor:  # half-Cauchy: it allows any scale
        return -tf.reduce_sum(tf.math.log1p(params["sd"] ** 2))

    mean = _as_targets(few, lambda outputs: outputs)
    return Loss(mean, log_lik, {"sd": start}, log_prior, {"sd": "positive"})


LOSSES = {"categorical": categorical, "bernoulli": bernoulli, "gaussian": gaussian}
SAME_AS = {  # losses of Keras, in lower case
    "mse": "gaussian",
    "meansquarederror": "gaussian",
    "binarycrossentropy": "bernoulli",
    "categoricalcrossentropy": "categorical",
    "sparsecategoricalcrossentropy": "categorical",
}


def _logits(outputs: tf.Tensor) -> tf.Tensor:
    """The input of the last activation if this is a softmax or a sigmoid, as Keras keeps it."""
    return getattr(outputs, "_keras_logits", outputs)


def _as_targets(few: np.ndarray, link: Callable[[tf.Tensor], tf.Tensor]) -> Callable[[tf.Tensor], tf.Tensor]:
    shape = few.shape[1:]
    return lambda outputs: tf.reshape(link(outputs), [-1, *shape])


def _row_sums(values: tf.Tensor) -> tf.Tensor:
    return tf.reduce_sum(values, axis=list(range(1, len(values.shape))))


def _is_proportions(rows: np.ndarray) -> bool:
    return bool((rows >= 0).all() and np.allclose(rows.sum(axis=-1), 1, atol=CLOSE))


def _require_link(
    of: str, outputs: tf.Tensor, link: Callable[[tf.Tensor], tf.Tensor], word: str, probabilities: bool
) -> None:
    """Refuse outputs that are neither logits nor the last activation's probabilities."""
    logits = getattr(outputs, "_keras_logits", None)
    wrong = probabilities if logits is None else not np.allclose(link(logits), outputs, atol=CLOSE)
    if wrong:
        must = f"end in logits, or in the activation {word!r} as its last operation"
        raise refused(of, "model", must, f"outputs {np.asarray(outputs)[0].tolist()}")


def _require_shape(of: str, name: str, outputs: tf.Tensor, few: np.ndarray) -> None:
    """Refuse targets that would be combined with outputs by broadcasting; [n] and [n, 1] are the same."""
    shapes = {tuple(x.shape[1:]) for x in (outputs, few)}
    if len(shapes) > 1 and shapes != {(), (1,)}:
        must = f"have the shape of the outputs of model, {_shape(outputs)}"
        raise refused(of, f"dataset[{name!r}]", must, _shape(few))


def _shape(rows: Any) -> str:
    """The shape, with n for the number of observations."""
    return f"[{', '.join(['n', *map(str, rows.shape[1:])])}]"
