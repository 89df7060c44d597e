"""R's three functions for a loop of one's own: initSess, sgmcmcStep, getParams."""

from __future__ import annotations

import numpy as np

from sgmcmc.run.session import Session
from sgmcmc.samplers._arguments import require_count
from sgmcmc.samplers._object import Sgmcmc


def initSess(sgmcmc: Sgmcmc, verbose: bool = True) -> Session:
    """Begin a chain; for control variates, search for the mode and pass once over the data.

    Parameters
    ----------
    sgmcmc : Sgmcmc
        What a Setup function returned. Its `params` are set to the beginning of the chain.
    verbose : bool, default True
        Show the progress of the mode search, unless the Setup function was told otherwise.

    Returns
    -------
    Session
        For `sgmcmcStep` and `getParams`. Each call begins the same chain anew, and ends the session before it.

    Raises
    ------
    ModeSearchError
        If the search for the mode leaves the finite numbers.

    Examples
    --------
    See `sgldSetup`.
    """
    _require(sgmcmc, "initSess")
    return sgmcmc.start(verbose)


def sgmcmcStep(sgmcmc: Sgmcmc, sess: Session, nSteps: int = 1) -> None:
    """Make one iteration, or several; the new position is then in ``sgmcmc.params``.

    Parameters
    ----------
    sgmcmc : Sgmcmc
    sess : Session
        What `initSess` returned for it.
    nSteps : int, default 1
        Iterations to make. They give the same draws as that many calls, in less time.

    Raises
    ------
    DivergenceError
        If the chain leaves the finite numbers; ``sgmcmc.params`` then hold the position before this call.

    Examples
    --------
    See `sgldSetup`.
    """
    _require_session(sgmcmc, sess, "sgmcmcStep")
    sess.step(require_count("nSteps", "sgmcmcStep", nSteps, 1))


def getParams(sgmcmc: Sgmcmc, sess: Session) -> dict[str, np.ndarray]:
    """The current position of the chain as NumPy arrays.

    Parameters
    ----------
    sgmcmc : Sgmcmc
    sess : Session
        What `initSess` returned for it.

    Returns
    -------
    dict of numpy.ndarray
        One array of the parameter's own shape for each, or given `nChains` (nChains, *shape).

    Examples
    --------
    See `sgldSetup`.
    """
    _require_session(sgmcmc, sess, "getParams")
    return sess.params()


def _require(sgmcmc: Sgmcmc, function: str) -> None:
    if not isinstance(sgmcmc, Sgmcmc):
        raise ValueError(
            f"sgmcmc of {function} must be the result of a Setup function such as sgldSetup; got {sgmcmc!r}."
        )


def _require_session(sgmcmc: Sgmcmc, sess: Session, function: str) -> None:
    _require(sgmcmc, function)
    if not isinstance(sess, Session) or sess is not sgmcmc.session:
        raise ValueError(f"sess of {function} must be the latest result of initSess for this sampler; got {sess!r}.")
