"""The arguments of a sampler that uses gradients."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import tensorflow as tf

from sgmcmc.arguments import AUTO, POSITIVE, is_auto, require_number
from sgmcmc.arguments.common import CommonChoices
from sgmcmc.arguments.data import check_indices
from sgmcmc.arguments.minibatch import preferential
from sgmcmc.arguments.transforms import Joint, checked_transforms, is_joint, unconstrained
from sgmcmc.arguments.trial import Trial, require_pure
from sgmcmc.core import compilation
from sgmcmc.core.errors import attempted
from sgmcmc.core.files import checksum
from sgmcmc.core.schedules import Schedule
from sgmcmc.core.tracing import trace
from sgmcmc.core.transforms import DENSE, DIAGONAL, LOW_RANK, Transforms
from sgmcmc.core.trees import Tree, numbered
from sgmcmc.dataset.arrays import described, numeric
from sgmcmc.dataset.bundles import Bundles
from sgmcmc.kernel.user_steps import GibbsStep, Update
from sgmcmc.laplace.whitening import MOST_DENSE
from sgmcmc.model import LogLik, LogPrior, Model, constrained
from sgmcmc.run import CurvatureUse

USUALLY_DENSE = 500  # the most parameter elements for which "auto" is "dense"
SYMMETRIC = 1e-5  # relative
WORDS = (DIAGONAL, LOW_RANK, DENSE)
FORMS = f"None, {', '.join(map(repr, WORDS))}, a matrix over all elements of params, or a dict with an array for each"


def checked_preconditioner(
    of: str, value: Any, start: Mapping[str, np.ndarray], automatic: bool
) -> str | np.ndarray | None:
    """None, "dense", "diagonal", "lowRank", or a root of the matrix, [D, D] or [D]."""
    size = sum(theta.size for theta in start.values())
    if value is None or (is_auto(value) and not automatic):
        return None
    if is_auto(value):
        return DENSE if size <= USUALLY_DENSE else DIAGONAL if size <= MOST_DENSE else LOW_RANK
    if isinstance(value, str):
        if value not in WORDS:
            raise ValueError(f"preconditioner of {of} must be {FORMS}; got {value!r}.")
        if value == DENSE and size > MOST_DENSE:
            raise ValueError(
                f"preconditioner of {of} must be {LOW_RANK!r} or {DIAGONAL!r} for more than {MOST_DENSE} elements of "
                f"params; got {DENSE!r} for {size}."
            )
        return value
    if isinstance(value, Mapping):
        return _of_each(of, value, start)
    if not isinstance(value, np.ndarray | tf.Tensor | list | tuple):
        raise ValueError(f"preconditioner of {of} must be {FORMS}; got {described(value)}.")
    matrix = numeric("preconditioner", of, value).astype(np.float64)
    if matrix.shape != (size, size):
        raise ValueError(
            f"preconditioner of {of} must have shape ({size}, {size}), with all elements of "
            f"{list(numbered({name: theta.shape for name, theta in start.items()}))} in this order; got {matrix.shape}."
        )
    return _root(f"preconditioner of {of}", matrix)


def _of_each(of: str, value: Mapping[str, Any], start: Mapping[str, np.ndarray]) -> np.ndarray:
    if set(value) != set(start):
        raise ValueError(
            f"preconditioner of {of} must have the keys of params, {sorted(start)}; got keys {sorted(map(str, value))}."
        )
    roots = []
    for name in numbered({name: theta.shape for name, theta in start.items()}):
        label, size = f"preconditioner[{name!r}] of {of}", start[name].size
        array = numeric(f"preconditioner[{name!r}]", of, value[name]).astype(np.float64)
        if array.shape == start[name].shape:
            if not (np.isfinite(array).all() and (array > 0).all()):
                raise ValueError(f"{label} must be positive and finite; got a smallest element of {array.min()}.")
            roots.append(np.sqrt(array).ravel())
        elif array.shape == (size, size):
            roots.append(_root(label, array))
        else:
            raise ValueError(
                f"{label} must have the shape of the parameter, {start[name].shape}, or be a matrix over its elements, "
                f"({size}, {size}); got shape {array.shape}."
            )
    if all(root.ndim == 1 for root in roots):
        return np.concatenate(roots)
    total = sum(len(root) for root in roots)
    joined, at = np.zeros((total, total)), 0
    for root in roots:
        end = at + len(root)
        joined[at:end, at:end] = root if root.ndim == 2 else np.diag(root)
        at = end
    return joined


def _root(label: str, matrix: np.ndarray) -> np.ndarray:
    """A matrix A with A A^T = `matrix`."""
    if not np.isfinite(matrix).all():
        raise ValueError(f"{label} must be finite; got {matrix[~np.isfinite(matrix)][0]}.")
    if not np.allclose(matrix, matrix.T, rtol=SYMMETRIC, atol=SYMMETRIC * np.abs(matrix).max() * 1e-3):
        raise ValueError(f"{label} must be symmetric; got differences up to {np.abs(matrix - matrix.T).max():.3g}.")
    scale = np.sqrt(np.diag(matrix)) if (np.diag(matrix) > 0).all() else np.ones(len(matrix))
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2 / scale[:, None] / scale)
    if values.min() <= len(matrix) * np.finfo(np.float64).eps * values.max():
        raise ValueError(f"{label} must be positive definite; got a smallest eigenvalue of {values.min():.3g}.")
    return scale[:, None] * (vectors * np.sqrt(values)) @ vectors.T


POSTERIOR, SANDWICH = "posterior", "sandwich"


def checked_gibbs(choices: Choices) -> GibbsStep:
    function, name, dtype = choices.gibbs, choices.sampler, choices.float_type
    if not callable(function):
        raise choices.refuse("gibbs", "be None or a function of (params, dataset, seed)", repr(function))
    params = {key: tf.TensorSpec(theta.shape, dtype) for key, theta in choices.given.items()}
    data = choices.data.layout.specs([choices.minibatches.n])

    def update(params: Tree, data: Tree, seed: tf.Tensor) -> Tree:
        new = function(dict(params), dict(data), seed)
        if not isinstance(new, dict) or not new or not new.keys() <= params.keys():
            raise TypeError(f"it must return a dict with new values for some of {sorted(params)}, not {new!r}")
        return {key: tf.convert_to_tensor(x, dtype_hint=dtype) for key, x in new.items()}

    must = f"gibbs of {name} must be a function of (params, dataset, seed) in TensorFlow operations"
    traced = attempted(must, lambda: trace(update, params, data, tf.TensorSpec([2], tf.int32)))
    require_pure(f"gibbs of {name}", traced.graph, "Use seed with tf.random.stateless_normal and similar functions.")
    returned = traced.structured_outputs
    for key, value in returned.items():
        like = params[key]
        if (value.shape, value.dtype) != (like.shape, like.dtype):
            raise choices.refuse(
                "gibbs", f"return {key!r} as {like.dtype.name}{like.shape}", f"{value.dtype.name}{value.shape}"
            )
    if returned.keys() == params.keys():
        raise choices.refuse("gibbs", "leave at least one of params to the gradients", "new values for all")

    return GibbsStep(_of_positions(update, choices.constraints), frozenset(returned))


def _of_positions(update: Update, transforms: Transforms) -> Update:
    """The step on the unconstrained scale; values outside a support become NaN, which raises an error."""
    if not transforms:
        return update

    def of_positions(params: Tree, data: Tree, seed: tf.Tensor) -> Tree:
        new = update(transforms.forward(params), data, seed)
        return {
            name: tf.where(transforms.each[name].holds(new[name]), u, np.nan) if name in transforms.each else u
            for name, u in transforms.inverse(new).items()
        }

    return of_positions


@dataclass(frozen=True)
class Choices(CommonChoices):
    """The choices of model, minibatch, gradient and dynamics."""

    logLik: Callable | None
    logPrior: Any
    preconditioner: Any
    tolerance: float
    temperature: float
    gibbs: Callable | None
    transforms: Any
    target: str = POSTERIOR

    def check(self) -> None:
        """Check the common choices, then those of gradients, and last the model, by a trial of its functions."""
        super().check()
        _ = self.curvature, self.gibbs_step, self.model

    @cached_property
    def joint(self) -> Joint | None:
        """`logPrior`, if it is a joint distribution."""
        asked = self.logPrior
        return Joint(f"logPrior of {self.sampler}", asked) if asked is not None and is_joint(asked) else None

    @property
    def log_prior(self) -> LogPrior | None:
        """`logPrior` as a function of the parameters."""
        if self.joint is not None:
            return self.joint.log_prior
        if self.logPrior is not None and not callable(self.logPrior):
            must = "be None, a function of params, or a joint distribution of TensorFlow Probability"
            raise self.refuse("logPrior", must, repr(self.logPrior))
        return self.logPrior

    @cached_property
    def given(self) -> dict[str, np.ndarray]:
        """`params` as arrays of the float type; for None, from the joint distribution of the prior."""
        if self.joint is None and self.params is None:
            raise self.refuse("params", "be a dict unless logPrior is a joint distribution", "None")
        if self.joint is None:
            return super().given
        if self.params is None:
            return {
                name: self._start_of(f"params[{name!r}]", x) for name, x in self.joint.start(self.joint.names).items()
            }
        given = super().given
        if given.keys() != set(self.joint.names):
            got = f"a joint distribution of {self.joint.names}"
            raise self.refuse("logPrior", f"be over the names of params, {sorted(given)}", got)
        for name, drawn in self.joint.example.items():
            if given[name].shape != drawn.shape:
                must = f"have the shape that logPrior draws, {drawn.shape}"
                raise self.refuse(f"params[{name!r}]", must, given[name].shape)
        return given

    @cached_property
    def constraints(self) -> Transforms:
        """`transforms`, checked at `params`."""
        asked = self.transforms
        if self.joint is not None and (asked is None or isinstance(asked, Mapping)):
            asked = self.joint.transforms(asked) or None
        return Transforms() if asked is None else checked_transforms(self.sampler, asked, self.given)

    @cached_property
    def start(self) -> dict[str, np.ndarray]:
        """`params` on the unconstrained scale."""
        return self._unconstrained("params", self.given)

    def _unconstrained(self, argument: str, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        each = self.constraints.each
        return {
            name: unconstrained(f"{argument}[{name!r}] of {self.sampler}", each[name], x) if name in each else x
            for name, x in values.items()
        }

    @cached_property
    def chain_starts(self) -> float | dict[str, np.ndarray] | None:
        """`starts`, with positions on the unconstrained scale."""
        starts = super().chain_starts
        if not isinstance(starts, dict) or not self.constraints:
            return starts
        of_chains = [
            self._unconstrained("starts", {name: x[c] for name, x in starts.items()}) for c in range(self.n_chains or 1)
        ]
        return {name: np.stack([one[name] for one in of_chains]) for name in starts}

    @cached_property
    def gibbs_step(self) -> GibbsStep | None:
        """`gibbs`, checked by a trial."""
        return None if self.gibbs is None else checked_gibbs(self)

    @property
    def moved_by_gibbs(self) -> frozenset[str]:
        """The parameters that `gibbs` moves, which need no stepsize."""
        return frozenset() if self.gibbs_step is None else self.gibbs_step.moves

    @property
    def automatic(self) -> bool:
        return is_auto(self.stepsize)

    @cached_property
    def curvature(self) -> CurvatureUse:
        """`preconditioner`, `tolerance` and `target`."""
        preconditioner = checked_preconditioner(self.sampler, self.preconditioner, self.start, self.automatic)
        rule = (lambda x: 1e-3 <= x <= 1, "a number from 0.001 to 1")
        tolerance = require_number("tolerance", self.sampler, self.tolerance, rule)
        weighs = isinstance(self.subsampling, preferential) and self.subsampling.weights is None
        if not isinstance(self.target, str) or self.target not in (POSTERIOR, SANDWICH):
            raise self.refuse("target", f"be {POSTERIOR!r} or {SANDWICH!r}", repr(self.target))
        return CurvatureUse(preconditioner, tolerance if self.automatic else None, weighs, self.target == SANDWICH)

    @cached_property
    def stepsizes(self) -> dict[str, float | Schedule]:
        """`stepsize`, one for each parameter; NaN if it is to be found."""
        return dict.fromkeys(self.start, np.nan) if self.automatic else super().stepsizes

    @property
    def _stepsize_must(self) -> str:
        return "'auto', a positive number, or a schedule such as polynomial(h, a, b)"

    @property
    def may_bundle(self) -> bool:
        return self.gibbs is None and (isinstance(self.subsampling, str) or self.curvature.weighs)

    @cached_property
    def log_lik(self) -> LogLik:
        """`logLik` as a function of observations."""
        if not callable(self.logLik):
            raise self.refuse("logLik", "be a function of (params, dataset)", repr(self.logLik))
        return self.data.summed(self.logLik) if isinstance(self.data, Bundles) else self.logLik

    @cached_property
    def trial(self) -> Trial:
        """A trial of the user's functions on abstract inputs."""
        compilation.use()
        params = {name: tf.TensorSpec(theta.shape, self.float_type) for name, theta in self.given.items()}
        return Trial(self.sampler, self.log_lik, self.log_prior, params, self.data, self.minibatches.n, self.float_type)

    @cached_property
    def model(self) -> Model:
        """The posterior, once the trial has passed."""
        power, trial, log_lik, log_prior = self._power, self.trial, self.log_lik, self.log_prior
        returns = trial.returns
        if power != 1:
            log_lik, log_prior = _times(power, log_lik), log_prior and _times(power, log_prior)
        trial.uses_all_parameters(but=self.moved_by_gibbs)
        if trial.whole.gathers:
            self._require_in_range()
        gathered = trial.gathered - self.constraints.each.keys()  # the log determinant depends on all rows
        if self.constraints:
            log_lik, log_prior = constrained(log_lik, log_prior, self.constraints)
        shown = self.constraints.forward
        return Model(log_lik, log_prior, self.data, returns, self.float_type, gathered=gathered, shown=shown)

    @property
    def _power(self) -> float:
        """1 / `temperature`, which the float type must be able to represent."""
        temperature = self.each.number("temperature", self.temperature, POSITIVE)
        largest = float(np.finfo(self.float_type.as_numpy_dtype).max)
        if not 1 / temperature < largest:
            raise self.refuse("temperature", f"have an inverse below {largest:.2g}, for {self.dtype}", temperature)
        return 1 / temperature

    def _require_in_range(self) -> None:
        """Check indices now for data in memory, and for other data when they are read."""
        check_indices(self.sampler, "logLik", self.log_lik, self.given, self.data)

    def _checksum_of_matrix(self) -> str:
        """The checksum of the given matrix, not of its root, whose rounding depends on the machine."""
        given = self.preconditioner
        entries = given if isinstance(given, Mapping) else {"": given}
        return "matrix " + " ".join(checksum(np.asarray(entries[name], np.float64)) for name in sorted(entries))

    @property
    def sampler_fields(self) -> dict[str, Any]:
        return super().sampler_fields | {"transforms": self.constraints}

    @property
    def settings(self) -> dict[str, Any]:
        given = self.curvature.preconditioner
        settings = super().settings | {
            "tolerance": self.curvature.tolerance,
            "temperature": float(self.temperature),
            "preconditioner": self._checksum_of_matrix() if isinstance(given, np.ndarray) else given,
        }
        if self.target != POSTERIOR:
            settings["target"] = self.target
        if self.constraints:
            settings["transforms"] = {name: one.identity for name, one in self.constraints.each.items()}
        return settings | {"stepsize": AUTO} if self.automatic else settings


def _times(power: float, function: Callable) -> Callable:
    return lambda *given: power * function(*given)
