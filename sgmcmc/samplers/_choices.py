"""The arguments of a sampler that uses gradients, checked and converted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import tensorflow as tf

from sgmcmc.core import process
from sgmcmc.core.checksum import checksum
from sgmcmc.core.schedules import Schedule
from sgmcmc.core.transforms import Transforms
from sgmcmc.model import LogPrior, Model, constrained
from sgmcmc.run.curvature import Curvature
from sgmcmc.run.gibbs import GibbsStep
from sgmcmc.samplers._checks import AUTO, POSITIVE, is_auto, require_number
from sgmcmc.samplers._common import CommonChoices
from sgmcmc.samplers._gibbs import checked_gibbs
from sgmcmc.samplers._indices import check_indices
from sgmcmc.samplers._joint import Joint, is_joint
from sgmcmc.samplers._preconditioner import checked_preconditioner
from sgmcmc.samplers._target import POSTERIOR, SANDWICH, checked_target
from sgmcmc.samplers._transforms import checked_transforms, unconstrained
from sgmcmc.samplers._trial import Trial
from sgmcmc.samplers.subsampling import preferential


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
        """Check those of all samplers, then those of gradients; last the model, by a trial of its functions."""
        super().check()
        _ = self.curvature, self.step_of_user, self.model

    @cached_property
    def joint(self) -> Joint | None:
        """`logPrior`, if it is a joint distribution."""
        return Joint(f"logPrior of {self.sampler}", self.logPrior) if is_joint(self.logPrior) else None

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
        return checked_transforms(self.sampler, asked, self.given)

    @cached_property
    def start(self) -> dict[str, np.ndarray]:
        """`params` as real numbers."""
        return self._unconstrained("params", self.given)

    def _unconstrained(self, argument: str, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        each = self.constraints.each
        return {
            name: unconstrained(f"{argument}[{name!r}] of {self.sampler}", each[name], x) if name in each else x
            for name, x in values.items()
        }

    @cached_property
    def chain_starts(self) -> float | dict[str, np.ndarray] | None:
        """`starts`, with positions as real numbers."""
        starts = super().chain_starts
        if not isinstance(starts, dict) or not self.constraints:
            return starts
        of_chains = [
            self._unconstrained("starts", {name: x[c] for name, x in starts.items()}) for c in range(self.n_chains or 1)
        ]
        return {name: np.stack([one[name] for one in of_chains]) for name in starts}

    @cached_property
    def step_of_user(self) -> GibbsStep | None:
        """`gibbs`, checked by a trial."""
        return None if self.gibbs is None else checked_gibbs(self)

    @property
    def moved_by_gibbs(self) -> frozenset[str]:
        """The parameters that `gibbs` moves, which need no stepsize."""
        return frozenset() if self.step_of_user is None else self.step_of_user.moves

    @property
    def automatic(self) -> bool:
        """Whether the stepsize is to be found."""
        return is_auto(self.stepsize)

    @cached_property
    def curvature(self) -> Curvature:
        """`preconditioner`, `tolerance` and `target`."""
        preconditioner = checked_preconditioner(self.sampler, self.preconditioner, self.start, self.automatic)
        rule = (lambda x: 1e-3 <= x <= 1, "a number from 0.001 to 1")
        tolerance = require_number("tolerance", self.sampler, self.tolerance, rule)
        weighs = isinstance(self.subsampling, preferential) and self.subsampling.weights is None
        to_sandwich = checked_target(self, preconditioner) == SANDWICH
        return Curvature(preconditioner, tolerance if self.automatic else None, weighs, to_sandwich)

    @cached_property
    def stepsizes(self) -> dict[str, float | Schedule]:
        """`stepsize`, one for each parameter; NaN if it is to be found."""
        return dict.fromkeys(self.start, np.nan) if self.automatic else super().stepsizes

    @property
    def _stepsize_must(self) -> str:
        return "'auto', a positive number, or a schedule such as polynomial(h, a, b)"

    @cached_property
    def trial(self) -> Trial:
        """A trial of the user's functions on abstract inputs."""
        process.use()
        if not callable(self.logLik):
            raise self.refuse("logLik", "be a function of (params, dataset)", repr(self.logLik))
        params = {name: tf.TensorSpec(theta.shape, self.float_type) for name, theta in self.given.items()}
        return Trial(self.sampler, self.logLik, self.log_prior, params, self.data, self.minibatches.n, self.float_type)

    @cached_property
    def model(self) -> Model:
        """The posterior, if the trial shows nothing bad."""
        power, trial, log_lik, log_prior = self._power, self.trial, self.logLik, self.log_prior
        returns = trial.returns
        assert log_lik is not None
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
        """1 / `temperature`, which the float type must hold too."""
        temperature = self.each.number("temperature", self.temperature, POSITIVE)
        largest = float(np.finfo(self.float_type.as_numpy_dtype).max)
        if not 1 / temperature < largest:
            raise self.refuse("temperature", f"have an inverse below {largest:.2g}, for {self.dtype}", temperature)
        return 1 / temperature

    def _require_in_range(self) -> None:
        """Check indices now for data in memory, and for other data when they are read."""
        assert self.logLik is not None
        check_indices(self.sampler, "logLik", self.logLik, self.given, self.data)

    def _checksum_of_matrix(self) -> str:
        """The checksum of the given matrix; rounding of its root depends on the machine."""
        given = self.preconditioner
        entries = given if isinstance(given, Mapping) else {"": given}
        return "matrix " + " ".join(checksum(np.asarray(entries[name], np.float64)) for name in sorted(entries))

    @property
    def of_sampler(self) -> dict[str, Any]:
        """Those that all samplers have, and how draws follow from positions."""
        return super().of_sampler | {"transforms": self.constraints}

    @property
    def settings(self) -> dict[str, Any]:
        """What the user chose, by R's names and as JSON."""
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
