"""Underdamped Langevin dynamics with adaptive time steps: samadams and samadamsSetup."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Unpack

from sgmcmc.arguments import DECAY, FRACTION, POSITIVE, Rule
from sgmcmc.arguments.choices import Choices
from sgmcmc.arguments.common import PerParameter, Stepsize
from sgmcmc.arguments.gradient import Estimator
from sgmcmc.arguments.minibatch import adaptive
from sgmcmc.arguments.sampler import Sgmcmc, set_up
from sgmcmc.arguments.signatures import Options, SetupOptions, one_call, public
from sgmcmc.draws.draws import Draws
from sgmcmc.dynamics.samadams import samadams as samadams_dynamics
from sgmcmc.model import LogLik, LogPrior

LEAST: Rule = (lambda m: 0 < m <= 1, "a number in (0, 1]")
MOST: Rule = (lambda m: m >= 1, "a number of at least 1")


@public
def samadams(
    logLik: LogLik,
    dataset: Mapping[str, Any],
    params: Mapping[str, Any],
    stepsize: Stepsize,
    logPrior: LogPrior | None = None,
    minibatchSize: float | str | adaptive = 0.01,
    alpha: PerParameter = 0.1,
    nIters: int | str = 10**4,
    verbose: bool = True,
    seed: int | None = None,
    *,
    beta: float = 0.9,
    m: float = 0.1,
    M: float = 10.0,
    r: float = 0.25,
    s: float = 2.0,
    scale: float | None = None,
    gradient: Estimator | None = None,
    **options: Unpack[Options],
) -> Draws:
    """Underdamped Langevin dynamics whose time steps adapt to the size of the gradients (SamAdams).

    With h^2 the `stepsize`, an iteration is one of `baoab` with step length psi h and
    friction 1 - (1 - alpha)^psi, where psi is small while gradients are large::

        zeta = beta zeta + (1 - beta) (|gradient| / scale)^s
        psi = m (zeta^r + M) / (zeta^r + m)

    with the norm over all parameters (Leimkuhler, Lohmann and Whalley [1]_). It is
    meant for posteriors that are steep in some places and flat in others, where a fixed
    step is too large for the former or too small for the latter. Gradient noise adds to
    the norm.

    **The draws have weights**, the time psi h that each of them represents:
    ``out.sampleStats["time"]``. ``out.summary()`` uses them. Your own averages need
    them too, such as ``numpy.average(x, weights=time)``; `reduce`, `predict`, `check`,
    ``nIters="auto"`` and the plots do not use them.

    References
    ----------
    .. [1] Leimkuhler, B., Lohmann, R. and Whalley, P. A. (2025). A Langevin sampling algorithm inspired by the Adam
       optimizer. arXiv 2504.18911.
    """
    return one_call(samadamsSetup, **locals())


@public
def samadamsSetup(
    logLik: LogLik,
    dataset: Mapping[str, Any],
    params: Mapping[str, Any],
    stepsize: Stepsize,
    logPrior: LogPrior | None = None,
    minibatchSize: float | str | adaptive = 0.01,
    alpha: PerParameter = 0.1,
    seed: int | None = None,
    *,
    beta: float = 0.9,
    m: float = 0.1,
    M: float = 10.0,
    r: float = 0.25,
    s: float = 2.0,
    scale: float | None = None,
    gradient: Estimator | None = None,
    **options: Unpack[SetupOptions],
) -> Sgmcmc:
    """Set up Langevin dynamics with adaptive time steps, to run step by step; see `samadams`."""
    choices = Choices(
        "samadams", dataset, params, stepsize, minibatchSize, seed, logLik=logLik, logPrior=logPrior, **options
    )
    number = choices.each.number
    frictions = choices.each.numbers("alpha", alpha, FRACTION)
    beta, m, M = number("beta", beta, DECAY), number("m", m, LEAST), number("M", M, MOST)
    r, s = number("r", r, POSITIVE), number("s", s, POSITIVE)
    scale = None if scale is None else number("scale", scale, POSITIVE)
    dynamics = {name: samadams_dynamics(friction, beta, m, M, r, s, scale) for name, friction in frictions.items()}
    own = {"alpha": frictions, "beta": beta, "m": m, "M": M, "r": r, "s": s, "scale": scale}
    return set_up(choices, dynamics, gradient, own)
