"""A Keras model as a function of its weights, with readable names."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from sgmcmc.core.errors import attempted, refused
from sgmcmc.core.trees import Tree

REPLACED = {"BatchNormalization": "use LayerNormalization or GroupNormalization in its place"}
LEFT_OUT = "leave it out"
SAME = 1e-3


@dataclass(frozen=True)
class Weights:
    """A built model whose outputs depend on its inputs and its trainable weights alone."""

    model: Any
    variables: Mapping[str, Any]  # its trainable weights, in the model's order
    inputs: tuple[str, ...]  # the entries of the dataset that the model takes
    fixed: Sequence[tuple[Any, tf.Tensor]]  # its other variables, and their values, which never change

    def __reduce__(self) -> tuple:
        # Keras restores a new model with new variables, which must be looked up in it.
        return _restored, (self.model, list(self.variables), self.inputs, [x.numpy() for _, x in self.fixed])

    def values(self) -> dict[str, np.ndarray]:
        return {name: variable.numpy() for name, variable in self.variables.items()}

    def call(self, params: Mapping[str, Any], dataset: Mapping[str, Any]) -> tf.Tensor:
        """The outputs for some observations, [n, ...]."""
        values = [(variable, params[name]) for name, variable in self.variables.items()]
        return _called(self.model, [*values, *self.fixed], _given(self.inputs, dataset), training=False).outputs

    def redrawn(self, n: int, seed: int) -> list[dict[str, np.ndarray]]:
        """The weights of n new models of the same configuration."""
        must = "model of fromKeras must be one that Keras can rebuild from its configuration, for `initial`"
        with _seeded(seed):
            return [attempted(must, self._fresh) for _ in range(n)]

    def _fresh(self) -> dict[str, np.ndarray]:
        model = type(self.model).from_config(self.model.get_config())
        if not model.built:
            model.build_from_config(self.model.get_build_config())
        values = [v.numpy() for v in model.trainable_variables]
        shapes = [tuple(v.shape) for v in self.variables.values()]
        if [x.shape for x in values] != shapes:
            raise TypeError(f"its weights have the shapes {[x.shape for x in values]}, not {shapes}")
        return dict(zip(self.variables, values, strict=True))

    def assign(self, params: Mapping[str, Any]) -> None:
        for name, variable in self.variables.items():
            variable.assign(params[name])


def _restored(model: Any, names: Sequence[str], inputs: tuple[str, ...], fixed: Sequence[np.ndarray]) -> Weights:
    of_fixed = zip(model.non_trainable_variables, map(tf.constant, fixed), strict=True)
    return Weights(model, dict(zip(names, model.trainable_variables, strict=True)), inputs, list(of_fixed))


def read(of: str, model: Any, inputs: tuple[str, ...], rows: Tree, dtype: tf.DType) -> Weights:
    """The weights of a model, which is built if necessary and tried on a few observations."""
    import keras

    if not isinstance(model, keras.Model):
        raise refused(of, "model", "be a model of Keras 3", _class(model))
    if keras.backend.backend() != "tensorflow":
        raise refused(of, "model", "use the backend 'tensorflow'", repr(keras.backend.backend()))
    must = f"model of {of} must be a model that can be called with {' and '.join(f'dataset[{x!r}]' for x in inputs)}"
    if not model.built:
        attempted(must, lambda: model(_given(inputs, rows)))
    variables = model.trainable_variables
    if not variables:
        raise refused(of, "model", "have trainable weights", "none")
    named = dict(zip(_names(model), variables, strict=True))
    policies = {layer.name: layer.dtype_policy.name for layer in _layers(model) if layer.weights}
    if wrong := {name: policy for name, policy in policies.items() if policy != dtype.name}:
        raise refused(of, "model", f"have layers of {dtype.name}, the dtype of {of}", wrong)
    if name := next((name for name, variable in named.items() if variable.constraint is not None), ""):
        raise ValueError(
            f"model of {of} must have no constraints; got one on {name!r}. Leave it out, and give its weights a "
            f"transform, such as network['transforms'] = {{{name!r}: 'positive'}}."
        )
    attempted(must, lambda: _require_fixed(of, model, _given(inputs, rows)))
    weights = Weights(model, named, inputs, _current(model.non_trainable_variables))
    _require_independent(of, weights, rows)
    return weights


def _require_independent(of: str, weights: Weights, rows: Tree) -> None:
    """Refuse outputs for an observation that depend on the others, or on random numbers without a seed."""
    params = {name: tf.constant(x) for name, x in weights.values().items()}
    together = tf.nest.flatten(weights.call(params, rows))
    alone = tf.nest.flatten(weights.call(params, {name: x[-1:] for name, x in rows.items()}))
    for outputs, last in zip(together, alone, strict=True):
        if outputs.shape[1:] != last.shape[1:] or not np.allclose(outputs[-1:], last, rtol=SAME, atol=SAME):
            raise ValueError(
                f"model of {of} must have outputs that depend on its weights and on one observation, not on random "
                "numbers or on the other observations of a minibatch; got different ones for one observation alone."
            )


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Seed Python's generator, from which initializers without a seed take one, and restore it afterwards."""
    before = random.getstate()
    random.seed(seed)
    try:
        yield
    finally:
        random.setstate(before)


def _given(inputs: Sequence[str], dataset: Mapping[str, Any]) -> Any:
    return dataset[inputs[0]] if len(inputs) == 1 else [dataset[name] for name in inputs]


class _Called(NamedTuple):
    outputs: Any
    state: list[tf.Tensor]  # after the call
    losses: list[tf.Tensor]


def _called(model: Any, values: list[tuple[Any, Any]], given: Any, *, training: bool) -> _Called:
    """Call a model with these values in place of its variables, which do not change."""
    import keras

    with keras.StatelessScope(values, collect_losses=True) as scope:
        outputs = model(given, training=training)
        return _Called(outputs, [scope.get_current_value(v) for v in model.non_trainable_variables], model.losses)


def _require_fixed(of: str, model: Any, given: Any) -> None:
    """Refuse layers with a state, with randomness, or with losses of their own."""
    weights, state = _current(model.trainable_variables), _current(model.non_trainable_variables)
    changed = []
    for training in (True, False):
        called = _called(model, [*weights, *state], given, training=training)
        if called.losses:
            raise ValueError(
                f"model of {of} must have no regularizers and no losses of its own, since `prior` takes their place; "
                f"got {len(called.losses)}. A penalty c * w^2 in a loss that is a mean over N is a prior with "
                "standard deviation (2 * c * N)^-0.5."
            )
        pairs = zip(state, called.state, strict=True)
        changed.append({id(variable) for (variable, before), after in pairs if not np.array_equal(before, after)})
    layers = {}
    for layer in _layers(model):  # the last one that has the variable is the innermost
        for variable in layer.variables:
            if id(variable) in changed[1] or (layer.trainable and id(variable) in changed[0]):
                layers[id(variable)] = layer
    if layers:
        said = {f"{layer.name!r}, {_class(layer)}": REPLACED.get(_class(layer), LEFT_OUT) for layer in layers.values()}
        raise ValueError(
            f"model of {of} must have outputs that depend on its weights and on one observation, not on random numbers "
            f"or on a state; got {'; '.join(f'{layer}: {what}' for layer, what in said.items())}. Layers with "
            "trainable=False are used as for predictions."
        )


def _current(variables: Sequence[Any]) -> list[tuple[Any, tf.Tensor]]:
    return [(variable, tf.convert_to_tensor(variable.value)) for variable in variables]


def _class(value: Any) -> str:
    return type(value).__name__


def _layers(model: Any) -> list[Any]:
    return list(model._flatten_layers(include_self=False))


def _names(model: Any) -> tuple[str, ...]:
    """Paths of the weights, such as "dense.kernel"."""
    # Layers that Keras has named are counted within this model: names do not depend on the models built before.
    named_by_keras = {layer.name: word for layer in _layers(model) if (word := _word(layer)) is not None}
    short, counts, taken, names = {model.name: ""}, Counter[str](), Counter[str](), []
    for variable in model.trainable_variables:
        for segment in variable.path.split("/"):
            if segment not in short:
                word = named_by_keras.get(segment, segment)
                short[segment] = f"{word}_{counts[word]}" if counts[word] else word
                counts[word] += segment in named_by_keras
        name = ".".join(short[segment] for segment in variable.path.split("/") if short[segment])
        names.append(f"{name}_{taken[name]}" if taken[name] else name)
        taken[name] += 1
    return tuple(names)


def _word(layer: Any) -> str | None:
    """Keras's default name for this class of layers, if the layer has such a name."""
    word = re.sub(r"([a-z])([A-Z])", r"\1_\2", re.sub(r"(.)([A-Z][a-z0-9]+)", r"\1_\2", _class(layer))).lower()
    return word if re.fullmatch(rf"{word}(_\d+)?", layer.name) else None
