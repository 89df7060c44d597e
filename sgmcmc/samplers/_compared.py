"""The comparison of the posterior of a run with normal distributions at its mode, made when somebody asks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from sgmcmc.core import random
from sgmcmc.core.chains import mapped
from sgmcmc.core.random import Purpose
from sgmcmc.laplace.compared import compared
from sgmcmc.output.compared import Compared

if TYPE_CHECKING:
    from sgmcmc.samplers._sgmcmc import Sgmcmc


@dataclass(frozen=True)
class Comparison:
    """The arguments of a run, with which its model can be made again: draws hold the user's data, and no copy."""

    setup: Callable[..., Sgmcmc]
    arguments: Mapping[str, Any]

    def __call__(self, mode: Mapping[str, Any], seed: int, verbose: bool) -> Compared:
        """What the comparison at this mode shows."""
        posterior = self.setup(**self.arguments).posterior
        at = posterior.flat({name: mode[name] for name in posterior.elements})
        return compared(posterior, at, random.child_seed(seed, Purpose.CURVATURE), verbose)

    def log_lik_terms(self, draws: Mapping[str, np.ndarray]) -> np.ndarray:
        """The log likelihood of each observation at draws {name: [S, *shape]}, [S, N]."""
        sampler = self.setup(**self.arguments)
        posterior, transforms = sampler.posterior, sampler.transforms
        given = {name: tf.constant(draws[name], posterior.model.dtype) for name in posterior.elements}
        at = mapped(transforms.inverse, given) if transforms else given
        thetas = np.concatenate([np.reshape(at[name], (len(at[name]), -1)) for name in posterior.elements], axis=1)
        return posterior.log_lik_terms(thetas) * self.arguments["temperature"]
