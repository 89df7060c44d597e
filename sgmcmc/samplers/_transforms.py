"""The argument `transforms`, checked at the values that the user gives."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from sgmcmc.core.checks import attempted
from sgmcmc.core.probability import may_be_of_tfp, tfp
from sgmcmc.core.tracing import trace
from sgmcmc.core.transforms import CLOSE, Transform, Transforms
from sgmcmc.dataset.entry import described
from sgmcmc.run.identity import function_identity, summed
from sgmcmc.samplers._checks import Rule, require_number
from sgmcmc.samplers._trial import require_pure
from sgmcmc.samplers.transforms import interval

METHODS = ("forward", "inverse", "forward_log_det_jacobian")
SUPPORTS = {
    "positive": "positive numbers",
    "unit": "numbers between 0 and 1, not 0 or 1 themselves",
    "simplex": "at least 2 positive numbers that sum to 1 over the last axis",
    "ordered": "at least 2 numbers that increase over the last axis",
    "corr_cholesky": "Cholesky factors of correlation matrices: lower triangular, with rows of length 1 and a "
    "positive diagonal",
}
MUST = (
    f"one of {', '.join(map(repr, SUPPORTS))}, interval(low, high), a bijector of TensorFlow Probability, or an object "
    f"with the methods {', '.join(METHODS)}"
)
MOST_DIFFERENTIATED = 64  # elements of a parameter whose Jacobian is computed to check a log determinant
COMPARED, PROBED = (0.0, 0.3), (0.0, 0.1, 1.0)  # distances from the start at which it is, and that identify a function


def checked_transforms(of: str, given: Any, params: Mapping[str, np.ndarray]) -> Transforms:
    """The transforms of these parameters.

    Raises
    ------
    ValueError
        If one is invalid, or if a parameter is not in its support.
    """
    if given is None:
        return Transforms()
    if not isinstance(given, Mapping) or not given or not given.keys() <= params.keys():
        got = f"keys {sorted(map(str, given))}" if isinstance(given, Mapping) else described(given)
        raise ValueError(f"transforms of {of} must be None or a dict for some of params, {sorted(params)}; got {got}.")
    each = {}
    for name, value in given.items():
        label = f"transforms[{name!r}] of {of}"
        transform = _checked(label, value, params[name])
        u = unconstrained(f"params[{name!r}] of {of}", transform, params[name])
        _require_log_det(label, transform, u)
        each[name] = transform._replace(identity=_identity(value, transform, u))
    return Transforms(each)


def unconstrained(label: str, transform: Transform, value: np.ndarray) -> np.ndarray:
    """Where a chain stands if its parameter has this value.

    Raises
    ------
    ValueError
        If the value is not in the support, or on its boundary.
    """
    theta = tf.constant(value)
    try:
        holds = bool(transform.holds(theta))
    except Exception:  # bijectors that check their arguments
        holds = False
    if not holds:
        raise ValueError(f"{label} must have {transform.support}; got {_shown(value)}.")
    return np.asarray(transform.inverse(theta))


def _shown(value: np.ndarray) -> str:
    if not value.ndim:
        return f"{value:.4g}"
    return np.array2string(value, precision=4, threshold=8, edgeitems=2, separator=", ").replace("\n", "")


def _checked(label: str, value: Any, like: np.ndarray) -> Transform:
    """The transform, whose functions keep to types and shapes."""
    must = f"{label} must have {', '.join(METHODS)} in TensorFlow operations of {like.dtype} tensors"
    transform: Transform = attempted(must, lambda: _transform(label, value, like))
    attempted(must, lambda: _try(label, transform, like))
    return transform


def _transform(label: str, value: Any, like: np.ndarray) -> Transform:
    if isinstance(value, str) and value in SUPPORTS:
        _require_room(label, value, like)
        bijectors = tfp().bijectors
        words = {
            "positive": bijectors.Exp,
            "unit": bijectors.Sigmoid,
            "simplex": bijectors.IteratedSigmoidCentered,
            "ordered": bijectors.Ascending,
            "corr_cholesky": bijectors.CorrelationCholesky,
        }
        return _of_bijector(words[value](), like, SUPPORTS[value])
    if isinstance(value, interval):
        finite: Rule = (lambda x: bool(np.isfinite(x)), "a pair of numbers")
        low, high = (require_number(label, "interval", x, finite) for x in (value.low, value.high))
        bounds = np.array([low, high], like.dtype)
        if not bounds[0] < bounds[1]:
            raise ValueError(f"{label} must have low below high in {like.dtype}; got {value!r}.")
        return _of_bijector(
            tfp().bijectors.Sigmoid(*bounds), like, f"numbers between {low:g} and {high:g}, not the bounds"
        )
    if may_be_of_tfp(value) and isinstance(value, tfp().bijectors.Bijector):
        return _of_bijector(value, like, f"values that the bijector {value.name} returns")
    if isinstance(value, str | type) or not all(callable(getattr(value, method, None)) for method in METHODS):
        raise ValueError(f"{label} must be {MUST}; got {value!r}.")
    return Transform(
        _afresh(value.forward),
        _afresh(value.inverse),
        _afresh(lambda u: tf.reduce_sum(value.forward_log_det_jacobian(u))),
        f"values that {type(value).__name__} returns",
    )


def _require_room(label: str, word: str, like: np.ndarray) -> None:
    axes = {"simplex": 1, "ordered": 1, "corr_cholesky": 2}.get(word, 0)
    square = axes < 2 or (like.ndim >= 2 and like.shape[-1] == like.shape[-2])
    if axes and (like.ndim < axes or like.shape[-1] < 2 or not square):
        raise ValueError(f"{label} is {word!r}, so that params must have {SUPPORTS[word]}; got shape {like.shape}.")


def _of_bijector(bijector: Any, like: np.ndarray, support: str) -> Transform:
    """The log determinant is that of all elements together, not one for each."""
    rank = len(bijector.inverse_event_shape(like.shape))
    return Transform(
        _afresh(bijector.forward),
        _afresh(bijector.inverse),
        _afresh(lambda u: tf.reshape(bijector.forward_log_det_jacobian(u, event_ndims=rank), [])),
        support,
    )


def _afresh(function: Callable[[tf.Tensor], tf.Tensor]) -> Callable[[tf.Tensor], tf.Tensor]:
    """The function of a tensor of its own in each call.

    Bijectors remember their results, also in an object of the user's: what is remembered has no gradient in another
    tape, and an inverse that is remembered checks nothing.
    """
    return lambda x: function(tf.identity(x))


def _try(label: str, transform: Transform, value: np.ndarray) -> None:
    """Trace all functions, and refuse other types and random numbers."""

    def trial(x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        u = transform.inverse(x)
        theta, log_det = transform.forward(u), transform.log_det(u)
        types = {u.dtype, theta.dtype, log_det.dtype}
        if not u.shape.is_fully_defined() or theta.shape != x.shape or types != {x.dtype}:
            made = ", ".join(f"{t.dtype.name}{t.shape}" for t in (u, theta, log_det))
            raise TypeError(f"from {x.dtype.name}{x.shape} they made {made}")
        return u, theta, log_det

    traced = trace(trial, tf.TensorSpec(value.shape, value.dtype))
    require_pure(label, traced.graph, "A transform is a function of its argument alone.")
    if traced.variables:
        raise TypeError(f"they depend on the tf.Variable {traced.variables[0].name!r}, which may change")


def _require_log_det(label: str, transform: Transform, at: np.ndarray) -> None:
    """Compare the log determinant with that of the derivatives, where the matrix is square and not large."""
    if at.size > MOST_DIFFERENTIATED:
        return
    for u in _around(at, COMPARED):
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(u)
            theta = transform.forward(u)
        jacobian = np.reshape(
            tape.jacobian(theta, u, unconnected_gradients="zero", experimental_use_pfor=False), [-1, at.size]
        ).astype(np.float64)
        if len(jacobian) != at.size:  # such as a simplex, whose last element follows from the others
            return
        right, got = np.linalg.slogdet(jacobian)[1], float(transform.log_det(u))
        if not np.isclose(got, right, rtol=CLOSE, atol=CLOSE * at.size):
            raise ValueError(
                f"{label} must have a forward_log_det_jacobian that is the logarithm of the determinant of its "
                f"derivatives, here {right:.4g} for {theta.dtype.name}{theta.shape}; got {got:.4g}."
            )


def _identity(value: Any, transform: Transform, at: np.ndarray) -> Any:
    if isinstance(value, str):
        return value
    if isinstance(value, interval):
        return [float(value.low), float(value.high)]

    def both(u: tf.Tensor) -> Any:
        return transform.forward(u), transform.log_det(u)

    values = [x for u in _around(at, PROBED) for x in summed(both(u))]
    return function_identity(values, both, tf.TensorSpec(at.shape, at.dtype))


def _around(at: np.ndarray, distances: Iterable[float]) -> list[tf.Tensor]:
    rng = np.random.default_rng(0)
    return [tf.constant(at + at.dtype.type(s) * rng.normal(size=at.shape).astype(at.dtype)) for s in distances]
