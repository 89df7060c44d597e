"""What the Setup functions return: a sampler with R's documented fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from sgmcmc.core.schedules import Schedule
from sgmcmc.output.draws import Draws
from sgmcmc.run.checkpoint import Checkpoint, require_same
from sgmcmc.run.sampler import Sampler
from sgmcmc.run.session import Session
from sgmcmc.samplers._arguments import require_flag
from sgmcmc.samplers._keeping import checked_run


class Sgmcmc:
    """A sampler ready to run step by step; made by the Setup functions and passed to `initSess`.

    Attributes
    ----------
    params : dict of tf.Variable
        The current position of the chain, or of all chains, (nChains, *shape), usable in your own tensors and functions
        at once. Assign to them between steps and the chain goes on from there.
    N : int
        Number of observations.
    n : int
        Observations per minibatch.
    stepsize : dict of float or schedule
        One for each parameter.
    seed : int
        The seed in use.
    alpha, L : dict of float, int
        Friction and leaps, for SGHMC.
    a : dict of float
        Diffusion factors, for SGNHT.
    paramsOpt, logPostOptGrad : dict of tf.Variable
        The mode and the gradient of the log posterior there, summed over all N, for control variates; computed by
        `initSess`.
    """

    def __init__(self, sampler: Sampler, settings: dict[str, Any], seeded: bool) -> None:
        self._sampler, self._settings, self._seeded = sampler, settings, seeded
        self.N = sampler.model.data.size
        self.n = sampler.minibatch.size
        self.stepsize: dict[str, float | Schedule] = dict(sampler.stepsize)
        self.seed = sampler.seed
        self.session: Session | None = None  # the latest, whose position `params` are
        self.params = _variables(sampler.first_positions())
        if sampler.search is not None:
            self.paramsOpt = _variables(sampler.start)
            self.logPostOptGrad = _variables({name: np.zeros_like(theta) for name, theta in sampler.start.items()})
        for name, value in settings.items():
            setattr(self, name, value)

    def __repr__(self) -> str:
        settings = "".join(f", {name}={value}" for name, value in self._settings.items())
        parameters = ", ".join(self.params)
        return (
            f"<{self._sampler.name}: N={self.N}, n={self.n}, stepsize={self.stepsize}{settings}; params {parameters}>"
        )

    @property
    def data(self) -> dict[str, np.ndarray]:
        """The dataset as the sampler holds it, {name: [N, ...]}: views, not copies."""
        return self._sampler.model.data.arrays()

    def run(self, **arguments: Any) -> Draws:
        """A whole chain, for the one-call functions, whose other arguments these are."""
        return checked_run(self._sampler, seeded=self._seeded, **arguments).draws()

    def start(self, verbose: bool) -> Session:
        """A new session at the beginning of the chain, for `initSess`."""
        self.session = self._sampler.session(self.params, require_flag("verbose", "initSess", verbose))
        self._show_mode()
        return self.session

    def save(self, session: Session) -> bytes:
        """Where the session stands, for `saveSess`."""
        return self._sampler.saved_session(session).encode()

    def restore(self, data: bytes, path: str) -> Session:
        """A session that goes on from there, for `restoreSess`."""
        try:
            saved = Checkpoint.decode(data)
        except ValueError as error:
            raise ValueError(f"path of restoreSess must be a file that saveSess wrote; got {path!r}.") from error
        sampler, seed = self._sampler, saved.settings.get("seed", self.seed)
        if not self._seeded and seed != self.seed:
            sampler = sampler.with_seed(seed)
        require_same(sampler.name, sampler.identity, saved.settings, f"{path!r} was saved")
        self._sampler, self.seed = sampler, sampler.seed
        self.session = self._sampler.restored_session(self.params, saved)
        self._show_mode()
        return self.session

    def _show_mode(self) -> None:
        centre = self._sampler.centre()
        if centre is not None:
            for name in self.params:
                self.paramsOpt[name].assign(centre["centre"][name][0])
                self.logPostOptGrad[name].assign(centre["full"][name][0])


def _variables(values: Mapping[str, np.ndarray]) -> dict[str, tf.Variable]:
    return {name: tf.Variable(value, name=name) for name, value in values.items()}
