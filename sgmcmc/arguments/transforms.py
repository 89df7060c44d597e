"""The argument `transforms`, and transforms from a joint distribution of TensorFlow Probability."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import ModuleType
from typing import Any

import numpy as np
import tensorflow as tf

from sgmcmc.arguments import Rule, require_number
from sgmcmc.arguments.trial import require_pure
from sgmcmc.core.errors import attempted, refused
from sgmcmc.core.tracing import trace
from sgmcmc.core.transforms import CLOSE, Transform, Transforms
from sgmcmc.core.trees import Tree
from sgmcmc.dataset.arrays import described
from sgmcmc.run.checkpoint import function_identity, summed


@functools.cache
def tfp() -> ModuleType:
    """TensorFlow Probability, imported without its warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        import tensorflow_probability
    return tensorflow_probability


def may_be_of_tfp(value: Any) -> bool:
    """Whether a base of its class is from TensorFlow Probability, without an import of it."""
    return any(base.__module__.startswith("tensorflow_probability") for base in type(value).__mro__)


@dataclass(frozen=True)
class interval:  # noqa: N801 - reads as a function where it is used
    """The numbers between two bounds, for the argument `transforms`.

    The parameter is ``low + (high - low) / (1 + exp(-u))`` of a real number u, elementwise.

    Parameters
    ----------
    low, high : float
        The bounds, which are not reached.

    Examples
    --------
    >>> import numpy as np
    >>> import tensorflow as tf
    >>> from sgmcmc import interval, sgldcv
    >>> dataset = {"x": np.random.default_rng(0).normal(3.0, 1.0, size=1000)}
    >>> def logLik(params, dataset):
    ...     return -0.5 * tf.reduce_sum((dataset["x"] - params["theta"]) ** 2)
    >>> out = sgldcv(
    ...     logLik, dataset, {"theta": 2.0}, transforms={"theta": interval(0, 10)},
    ...     minibatchSize=100, nIters=1000, verbose=False, seed=1,
    ... )
    >>> bool(abs(out["theta"].mean() - 3.0) < 0.1)
    True
    """

    low: float
    high: float


METHODS = ("forward", "inverse", "forward_log_det_jacobian")
SUPPORTS = {
    "positive": "positive numbers",
    "unit": "numbers between 0 and 1, not 0 or 1 themselves",
    "simplex": "at least 2 positive numbers that sum to 1 over the last axis",
    "ordered": "at least 2 numbers that increase over the last axis",
    "corr_cholesky": "Cholesky factors of correlation matrices: lower triangular, with rows of length 1 and a "
    "positive diagonal",
}
BIJECTORS = {
    "positive": "Exp",
    "unit": "Sigmoid",
    "simplex": "IteratedSigmoidCentered",
    "ordered": "Ascending",
    "corr_cholesky": "CorrelationCholesky",
}
MUST = (
    f"one of {', '.join(map(repr, SUPPORTS))}, interval(low, high), a bijector of TensorFlow Probability, or an object "
    f"with the methods {', '.join(METHODS)}"
)
MOST_DIFFERENTIATED = 64  # elements of a parameter whose Jacobian is computed to check a log determinant
COMPARED, PROBED = (0.0, 0.3), (0.0, 0.1, 1.0)  # distances from the start, for that check and to identify a function


def checked_transforms(of: str, given: Any, params: Mapping[str, np.ndarray]) -> Transforms:
    """The transforms of these parameters, each of which must be in its support."""
    if not isinstance(given, Mapping) or not given or not given.keys() <= params.keys():
        got = f"keys {sorted(map(str, given))}" if isinstance(given, Mapping) else described(given)
        raise refused(of, "transforms", f"be None or a dict for some of params, {sorted(params)}", got)
    each = {}
    for name, value in given.items():
        label = f"transforms[{name!r}] of {of}"
        transform = _checked(label, value, params[name])
        u = unconstrained(f"params[{name!r}] of {of}", transform, params[name])
        _require_log_det(label, transform, u)
        each[name] = transform._replace(identity=_identity(value, transform, u))
    return Transforms(each)


def unconstrained(label: str, transform: Transform, value: np.ndarray) -> np.ndarray:
    """The position of the chain at this value of the parameter, which must be inside the support."""
    theta = tf.constant(value)
    try:
        holds = bool(transform.holds(theta))
    except Exception:  # some bijectors check their arguments
        holds = False
    if not holds:
        shown = np.array2string(value, precision=4, threshold=8, edgeitems=2, separator=", ").replace("\n", "")
        raise ValueError(f"{label} must have {transform.support}; got {shown if value.ndim else f'{value:.4g}'}.")
    return np.asarray(transform.inverse(theta))


def _checked(label: str, value: Any, like: np.ndarray) -> Transform:
    must = f"{label} must have {', '.join(METHODS)} in TensorFlow operations of {like.dtype} tensors"
    transform: Transform = attempted(must, lambda: _transform(label, value, like))
    attempted(must, lambda: _try(label, transform, like))
    return transform


def _transform(label: str, value: Any, like: np.ndarray) -> Transform:
    if isinstance(value, str) and value in SUPPORTS:
        _require_room(label, value, like)
        return _of_bijector(getattr(tfp().bijectors, BIJECTORS[value])(), like, SUPPORTS[value])
    if isinstance(value, interval):
        finite: Rule = (lambda x: bool(np.isfinite(x)), "a pair of numbers")
        low, high = (require_number(label, "interval", x, finite) for x in (value.low, value.high))
        bounds = np.array([low, high], like.dtype)
        if not bounds[0] < bounds[1]:
            raise ValueError(f"{label} must have low below high in {like.dtype}; got {value!r}.")
        support = f"numbers between {low:g} and {high:g}, not the bounds"
        return _of_bijector(tfp().bijectors.Sigmoid(*bounds), like, support)
    if may_be_of_tfp(value) and isinstance(value, tfp().bijectors.Bijector):
        return _of_bijector(value, like, f"values that the bijector {value.name} returns")
    if isinstance(value, str | type) or not all(callable(getattr(value, method, None)) for method in METHODS):
        raise ValueError(f"{label} must be {MUST}; got {value!r}.")

    def log_det(u: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(value.forward_log_det_jacobian(u))

    support = f"values that {type(value).__name__} returns"
    return Transform(_afresh(value.forward), _afresh(value.inverse), _afresh(log_det), support)


def _require_room(label: str, word: str, like: np.ndarray) -> None:
    axes = {"simplex": 1, "ordered": 1, "corr_cholesky": 2}.get(word, 0)
    square = axes < 2 or (like.ndim >= 2 and like.shape[-1] == like.shape[-2])
    if axes and (like.ndim < axes or like.shape[-1] < 2 or not square):
        raise ValueError(f"{label} is {word!r}, so params must have {SUPPORTS[word]}; got shape {like.shape}.")


def _of_bijector(bijector: Any, like: np.ndarray, support: str) -> Transform:
    rank = len(bijector.inverse_event_shape(like.shape))

    def log_det(u: tf.Tensor) -> tf.Tensor:  # of all elements together, not one for each
        return tf.reshape(bijector.forward_log_det_jacobian(u, event_ndims=rank), [])

    return Transform(_afresh(bijector.forward), _afresh(bijector.inverse), _afresh(log_det), support)


def _afresh(function: Callable[[tf.Tensor], tf.Tensor]) -> Callable[[tf.Tensor], tf.Tensor]:
    """The function, called with a new tensor each time."""
    # Bijectors cache their results, even within a user's object: a cached result has no gradient in another tape, and a
    # cached inverse checks nothing.
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
    """Compare the log determinant with that of the Jacobian matrix, if this is square and not large."""
    if at.size > MOST_DIFFERENTIATED:
        return
    for u in _around(at, COMPARED):
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(u)
            theta = transform.forward(u)
        jacobian = tape.jacobian(theta, u, unconnected_gradients="zero", experimental_use_pfor=False)
        jacobian = np.reshape(jacobian, [-1, at.size]).astype(np.float64)
        if len(jacobian) != at.size:  # such as a simplex, whose last element follows from the others
            return
        right, got = np.linalg.slogdet(jacobian)[1], float(transform.log_det(u))
        if not np.isclose(got, right, rtol=CLOSE, atol=CLOSE * at.size):
            raise ValueError(
                f"{label} must have a forward_log_det_jacobian that is the log determinant of its Jacobian "
                f"matrix, here {right:.4g} for {theta.dtype.name}{theta.shape}; got {got:.4g}."
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


DRAWS = 31  # from which a start is computed
SAME = 1e-5  # relative difference up to which two bijectors are the same


def is_joint(value: Any) -> bool:
    """TensorFlow Probability is imported only if it may be one."""
    return may_be_of_tfp(value) and isinstance(value, tfp().distributions.JointDistribution)


@dataclass(frozen=True)
class Joint:
    """The parts of a joint distribution."""

    label: str  # for messages: the argument and its function
    distribution: Any
    advice: Callable[[str], str] = lambda error: ""  # from the text of an error to what is added to it

    @cached_property
    def example(self) -> dict[str, np.ndarray]:
        """One draw of all parts, the same in every call."""
        return self._draw(0)

    def _draw(self, k: int) -> dict[str, np.ndarray]:
        def drawn() -> dict[str, np.ndarray]:
            draw = _named(self.distribution.sample(seed=tf.constant([0, k])))
            return {name: np.asarray(x) for name, x in draw.items()}

        must = f"{self.label} must be a joint distribution that can be sampled, with a name for each part"
        return attempted(must, drawn, self.advice)

    @property
    def names(self) -> list[str]:
        return sorted(self.example)

    def log_density(self, values: Tree, of: Collection[str]) -> tf.Tensor:
        """The log density of some of the parts given the others, each summed over its elements."""
        parts = _named(self.distribution.log_prob_parts(**values))
        return tf.add_n([tf.reduce_sum(parts[name]) for name in sorted(of)])

    def log_prior(self, params: Tree) -> tf.Tensor:
        return self.log_density(params, params)

    def transforms(self, given: Mapping[str, Any] | None, but: Collection[str] = ()) -> dict[str, Any]:
        """The given transforms, and the default bijectors of all other constrained parts except `but`."""
        found = dict(given or {})
        first_parts, second_parts = self._parts(0), self._parts(1)
        for name in sorted(self.example.keys() - {*found, *but}):
            first, second = self._bijector(name, first_parts), self._bijector(name, second_parts)
            u = first.inverse(tf.constant(self.example[name]))
            at_first, at_second = first.forward(tf.identity(u)), second.forward(tf.identity(u))
            if not np.allclose(at_first, at_second, rtol=SAME, atol=SAME):
                raise ValueError(
                    f"{self.label} must have parts whose supports do not depend on other parts; got {name!r}, "
                    f"whose support does. Give transforms[{name!r}], or write the model with a fixed support."
                )
            z = np.linspace(-1, 1, int(np.prod(u.shape)), dtype=u.dtype.as_numpy_dtype).reshape(u.shape)
            if u.shape != at_first.shape or not np.array_equal(first.forward(tf.constant(z)), z):
                found[name] = first
        return found

    def start(self, of: Collection[str]) -> dict[str, np.ndarray]:
        """The elementwise median of a few draws of some parts, taken on the unconstrained scale."""
        draws, parts, start = [self._draw(k) for k in range(DRAWS)], self._parts(0), {}
        for name in of:
            bijector, values = self._bijector(name, parts), [draw[name] for draw in draws]
            u = np.nanmedian([bijector.inverse(tf.constant(x)) for x in values], axis=0).astype(values[0].dtype)
            start[name] = np.asarray(bijector.forward(tf.constant(u)))
        return start

    def _parts(self, k: int) -> dict[str, Any]:
        """The distribution of each part, given the k-th draw of the others."""
        return _named(self.distribution.sample_distributions(seed=tf.constant([0, k]))[0])

    def _bijector(self, name: str, parts: Mapping[str, Any]) -> Any:
        """The default bijector of a part, which must not be discrete."""
        bijectors, distributions = tfp().bijectors, tfp().distributions
        inner = parts[name]
        while isinstance(inner, distributions.Independent | distributions.Sample):
            inner = inner.distribution
        if isinstance(inner, distributions.Dirichlet):  # its own cannot be constructed with NumPy 2.4
            return bijectors.IteratedSigmoidCentered()
        bijector = parts[name].experimental_default_event_space_bijector()
        if bijector is None:
            raise ValueError(f"{self.label} must have parts with a density; got the discrete {name!r}.")
        return bijector


def _named(parts: Any) -> dict[str, Any]:
    if hasattr(parts, "_asdict"):
        parts = parts._asdict()
    if not isinstance(parts, Mapping):
        raise TypeError("its parts have no names; use JointDistributionNamed, or JointDistributionCoroutine with name=")
    return dict(parts)
