"""fromKeras: the arguments of a sampler from a network."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np
import tensorflow as tf

from sgmcmc.arguments import POSITIVE, require_float_type, require_number, require_seed
from sgmcmc.arguments.data import checked_dataset
from sgmcmc.bridges.keras_weights import Weights, read
from sgmcmc.bridges.losses import LOSSES, SAME_AS, Loss, own
from sgmcmc.core import random
from sgmcmc.core.errors import attempted, refused, require_count
from sgmcmc.core.trees import Tree
from sgmcmc.dataset import spaced_rows
from sgmcmc.dataset.arrays import as_columns, described, is_categorical, is_on_disk
from sgmcmc.dataset.memory import InMemory
from sgmcmc.parallel.serialization import by_value

NAME = "fromKeras"
ROWS = 3  # observations on which a model is tried


class KerasNetwork(dict[str, Any]):
    """The arguments of a sampler for a network, and functions of its weights.

    `fromKeras` returns it. It is a dict with `logLik`, `dataset`, `params`, `logPrior`,
    `transforms`, `integers` and `dtype`, for ``sgld(**network, ...)``, and with
    `temperature` if that is not 1. The names of `params` are paths such as "dense.kernel".

    Parameters
    ----------
    arguments : dict
        The arguments of a sampler.
    weights : Weights
        The model as a function of its weights.
    loss : Loss
        The distribution of the targets, given the outputs of the model.

    Examples
    --------
    See `fromKeras`.
    """

    def __init__(self, arguments: Mapping[str, Any], weights: Weights, loss: Loss) -> None:
        super().__init__(arguments)
        self._weights, self._loss = weights, loss

    def __reduce__(self) -> tuple:
        return by_value(self, vars(self))

    def __repr__(self) -> str:
        shapes = {name: np.shape(x) for name, x in self["params"].items()}
        listed = ", ".join(f"{name} {list(shape)}" for name, shape in shapes.items())
        return textwrap.fill(f"KerasNetwork of {sum(map(math.prod, shapes.values())):,} parameters: {listed}", 80)

    def outputs(self, params: Mapping[str, Any], dataset: Mapping[str, Any]) -> tf.Tensor:
        """The mean of the targets for each observation, such as the probabilities of the classes.

        Use it as in ``out.predict(network.outputs, dataset)``. For a loss of your own it
        returns the outputs of the model.

        Parameters
        ----------
        params : dict of str to tf.Tensor
            One draw.
        dataset : dict of str to tf.Tensor
            Observations, of which the inputs of the model are used.

        Returns
        -------
        tf.Tensor
            In the shape of the targets, or [n, K] for K classes.
        """
        return self._loss.mean(self._weights.call(params, dataset))

    def likelihoods(self, params: Mapping[str, Any], dataset: Mapping[str, Any]) -> tf.Tensor:
        """The probability, or the density, of the target of each observation.

        The log score of the predictive distribution is
        ``numpy.log(out.predict(network.likelihoods, testset, quantiles=())["mean"]).mean()``.

        Parameters
        ----------
        params : dict of str to tf.Tensor
            One draw.
        dataset : dict of str to tf.Tensor
            Observations, with their targets.

        Returns
        -------
        tf.Tensor
            One for each observation, [n].

        Raises
        ------
        ValueError
            If the loss is a function of your own that returns a sum.
        """
        of_each = self["logLik"](params, dataset)
        if of_each.shape.rank != 1:
            raise ValueError("loss of fromKeras must return a term for each observation, for likelihoods; got a sum.")
        return tf.exp(of_each)

    def setWeights(self, params: Mapping[str, Any]) -> None:
        """Give the model the weights of a draw.

        Parameters
        ----------
        params : dict of str to array_like
            One draw, such as ``{name: x[-1] for name, x in out.items()}``, or
            ``getParams(sampler, sess)``. Parameters that are not weights are ignored.

        Raises
        ------
        ValueError
            If a weight is missing or has another shape.
        """
        own = self._weights.values()
        shapes = {name: np.shape(params[name]) if name in params else None for name in own}
        if wrong := {name: shape for name, shape in shapes.items() if shape != own[name].shape}:
            name = min(wrong)
            raise ValueError(
                f"params of setWeights must be one draw of {sorted(own)}; got {name!r} "
                f"{'missing' if wrong[name] is None else f'of shape {wrong[name]} for {own[name].shape}'}."
            )
        self._weights.assign(params)

    def initial(self, n: int, seed: int | None = None) -> list[dict[str, np.ndarray]]:
        """Untrained networks, each with weights drawn by the layers of the model.

        Use them as the `starts` of `train`, or of a sampler.

        Parameters
        ----------
        n : int
            Number of networks.
        seed : int, optional
            The same seed gives the same networks. Layers with their own seed have the
            same weights in all of them.

        Returns
        -------
        list of dict of str to numpy.ndarray
            Arrays as in `params`. Parameters that are not weights have their values there.

        Raises
        ------
        ValueError
            If `n` or `seed` is invalid, or the model cannot be rebuilt from its
            configuration.
        """
        number = require_count("n", "initial", n, 1)
        drawn = self._weights.redrawn(number, random.fresh_seed() if seed is None else require_seed("initial", seed))
        return [{**self["params"], **one} for one in drawn]


def fromKeras(
    model: Any,
    dataset: Mapping[str, Any],
    loss: str | Callable[[tf.Tensor, Tree], tf.Tensor],
    *,
    prior: float | Mapping[str, Any] | Callable[[Tree], tf.Tensor] = 1.0,
    temperature: float = 1.0,
    inputs: str | Sequence[str] = "X",
    targets: str = "y",
    integers: Sequence[str] = (),
    dtype: str = "float32",
) -> KerasNetwork:
    """The arguments of a sampler from a Keras model.

    The parameters are its trainable weights, and a chain starts at their current values.

    Parameters
    ----------
    model : keras.Model
        A model of Keras 3 with the TensorFlow backend, trained or not. Layers such as
        Dropout and BatchNormalization, whose outputs depend on random numbers, on a state
        or on the other observations of a minibatch, are refused; so are regularizers and
        constraints. Layers with ``trainable=False`` stay as they are.
    dataset : dict of str to array_like, a table, or an object
        As for the samplers.
    loss : {"categorical", "bernoulli", "gaussian"} or callable
        The distribution of the targets. "categorical": K classes, as integers from 0 to
        K - 1 or as rows with K proportions, and K outputs; "bernoulli": zeros and ones,
        and as many outputs. The outputs are logits, or the model's last operation is
        the activation "softmax" or "sigmoid". "gaussian": normal targets with the
        outputs as means, and an additional positive parameter "sd", one for each column
        of the targets. A function ``loss(outputs, dataset)`` returns the log likelihood
        of a minibatch, as a sum or with one term for each observation.
    prior : float, distribution, dict or callable, default 1.0
        A number is the standard deviation of independent normal priors of all weights,
        with mean 0; a distribution of TensorFlow Probability is the prior of each of them.
        A dict gives one or the other for some of the parameters, or for all those of a
        layer by its name, such as "dense"; all others have the default. A function
        ``prior(params)`` returns the log prior density of all. The default for "sd" is
        the half-Cauchy distribution with scale 1.
    temperature : float, default 1.0
        The chains sample the posterior raised to the power 1/temperature. Below 1 it is
        narrower, as is often used for networks.
    inputs : str or sequence of str, default "X"
        The entry of `dataset` that the model takes, or a list of them.
    targets : str, default "y"
        The entry with the distribution `loss`; not used if that is a function.
    integers : sequence of str, optional
        Entries of `dataset` that are integers, as for the samplers. Targets with an
        integer type need not be named.
    dtype : {"float32", "float64"}, default "float32"
        The type of the weights.

    Returns
    -------
    KerasNetwork
        A dict with `logLik`, `dataset`, `params`, `logPrior`, `transforms`, `integers` and
        `dtype`, and with `temperature` if that is not 1, for ``sgld(**network, ...)``. It
        has the methods `outputs`, `likelihoods`, `setWeights` and `initial`.

    Raises
    ------
    ValueError
        If an argument is invalid; the message names it.

    Examples
    --------
    >>> import keras
    >>> import numpy as np
    >>> from sgmcmc import fromKeras, getDataset, sgld
    >>> digits = getDataset("digits")
    >>> dataset = {"X": digits["X"] / 16, "y": digits["y"]}
    >>> model = keras.Sequential(
    ...     [keras.Input([64]), keras.layers.Dense(20, "relu"), keras.layers.Dense(10)]
    ... )
    >>> network = fromKeras(model, dataset, "categorical")
    >>> sorted(network["params"])
    ['dense.bias', 'dense.kernel', 'dense_1.bias', 'dense_1.kernel']
    >>> out = sgld(**network, stepsize=1e-3, minibatchSize=100, nIters=3000, burnIn=2000, verbose=False, seed=1)
    >>> probabilities = out.predict(network.outputs, dataset, quantiles=())["mean"]
    >>> bool(np.mean(probabilities.argmax(axis=1) == dataset["y"]) > 0.95)
    True
    """
    float_type = require_float_type(NAME, dtype)
    names = (inputs,) if isinstance(inputs, str) else inputs
    if not isinstance(names, Sequence) or not names or not all(isinstance(name, str) for name in names):
        raise refused(NAME, "inputs", "be a name in dataset or a list of them", repr(inputs))
    dataset = as_columns(NAME, dataset)
    _require_no_loss_of_keras(loss)
    used = [("inputs", name) for name in names]
    if isinstance(loss, str) and loss in LOSSES:
        used.append(("targets", targets))
        if isinstance(dataset, Mapping) and _is_integers(dataset.get(targets)):
            integers = sorted({*integers, targets})
    elif not callable(loss):
        must = f"be one of {', '.join(map(repr, LOSSES))}, or a function of (outputs, dataset)"
        raise refused(NAME, "loss", must, described(loss))
    data = checked_dataset(NAME, dataset, integers, np.dtype(float_type.as_numpy_dtype))
    rows = spaced_rows(data, ROWS)
    for argument, name in used:
        if name not in rows:
            raise refused(NAME, argument, f"be in dataset, {sorted(rows)}", repr(name))
    weights = read(NAME, model, tuple(names), rows, float_type)
    outputs = _outputs_of(weights, rows, min(ROWS, data.size), float_type)
    if isinstance(loss, str):
        few = rows[targets].numpy()
        every = data.arrays()[targets] if isinstance(data, InMemory) else few
        what = LOSSES[loss](NAME, targets, outputs, few, every)
    else:
        what = own(loss)
    if twice := sorted(weights.variables.keys() & what.params.keys()):
        must = "have no weights with the names of parameters of the loss"
        raise refused(NAME, "model", must, f"{twice}. Give the weight another name")

    def log_lik(params: Tree, dataset: Tree) -> tf.Tensor:
        return what.log_lik(params, weights.call(params, dataset), dataset)

    arguments = {
        "logLik": log_lik,
        "dataset": dataset,
        "params": weights.values() | what.params,
        "logPrior": prior if callable(prior) else _log_prior(prior, weights.values(), what),
        "transforms": what.transforms,
        "integers": integers,
        "dtype": dtype,
    }
    if (tempered := require_number("temperature", NAME, temperature, POSITIVE)) != 1:
        arguments["temperature"] = tempered
    return KerasNetwork(arguments, weights, what)


def _outputs_of(weights: Weights, rows: Tree, n: int, dtype: tf.DType) -> tf.Tensor:
    outputs = weights.call({name: tf.constant(x) for name, x in weights.values().items()}, rows)
    if not isinstance(outputs, tf.Tensor) or outputs.shape[:1] != [n] or outputs.dtype != dtype:
        got = f"{outputs.dtype.name} {outputs.shape}" if isinstance(outputs, tf.Tensor) else type(outputs).__name__
        must = f"return one {dtype.name} tensor with a row for each observation"
        raise refused(NAME, "model", must, f"{got} for {n}")
    return outputs


def _is_integers(entry: Any) -> bool:
    """Whether it is an array, a column or a list of integers, in memory or on disk."""
    if entry is None or is_categorical(entry) or isinstance(entry, tf.data.Dataset):
        return False
    try:
        dtype = entry.dtype if is_on_disk(entry) else np.asarray(entry).dtype
    except ValueError:  # such as rows of different lengths, which the check of the dataset refuses
        return False
    return np.dtype(dtype).kind in "iu"


def _require_no_loss_of_keras(loss: Any) -> None:
    """Refuse a loss of Keras, or its name, and suggest the matching distribution."""
    name = loss if isinstance(loss, str) else str(getattr(loss, "name", getattr(loss, "__name__", "")))
    is_of_keras = isinstance(loss, str) or "keras" in getattr(loss, "__module__", type(loss).__module__)
    same = SAME_AS.get(name.lower().replace("_", "")) if is_of_keras else None
    if same is not None:
        must = "be the distribution of an observation, not a loss of Keras, which is a mean over observations"
        raise refused(NAME, "loss", must, f"{name!r}. Use loss={same!r}")


def _log_prior(prior: Any, weights: Mapping[str, np.ndarray], loss: Loss) -> Callable[[Tree], tf.Tensor]:
    """The log prior density, from `prior` and the defaults of parameters that it does not name."""
    known = {**weights, **loss.params}
    given = _of_each(prior, known) if isinstance(prior, Mapping) else dict.fromkeys(weights, prior)
    each = {name: _density(name, given.get(name, 1.0), x) for name, x in known.items() if name in {*weights, *given}}
    others = None if loss.params.keys() <= given.keys() else loss.log_prior

    def log_prior(params: Tree) -> tf.Tensor:
        value = tf.add_n([density(params[name]) for name, density in each.items()])
        return value if others is None else value + others(params)

    return log_prior


def _of_each(prior: Mapping[str, Any], known: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """The priors by parameter; one for a layer is that of all its weights without their own."""
    layers: dict[str, list[str]] = {}
    for name in known:
        *path, _ = name.split(".")
        for k in range(len(path)):
            layers.setdefault(".".join(path[: k + 1]), []).append(name)
    if unknown := sorted(str(key) for key in prior if key not in {*known, *layers}):
        raise refused(NAME, "prior", f"be for some of {sorted({*known, *layers})}", unknown)
    of_layers = {name: value for key, value in prior.items() if key not in known for name in layers[key]}
    return of_layers | {name: value for name, value in prior.items() if name in known}


def _density(name: str, prior: Any, like: np.ndarray) -> Callable[[tf.Tensor], tf.Tensor]:
    if isinstance(prior, Real | np.number):
        sd = require_number("prior", NAME, prior, POSITIVE)
        return lambda x: -0.5 * tf.reduce_sum((x / sd) ** 2)
    must = f"prior[{name!r}] of {NAME} must be a positive number, or a distribution of {like.dtype} tensors"
    if not callable(getattr(prior, "log_prob", None)):
        raise ValueError(f"{must}; got {described(prior)}.")
    shape = attempted(must, lambda: prior.log_prob(tf.constant(like))).shape
    if tuple(shape) != like.shape[: len(shape)]:
        raise ValueError(f"{must} of shape {like.shape}; got densities of shape {tuple(shape)}.")
    return lambda x: tf.reduce_sum(prior.log_prob(x))
