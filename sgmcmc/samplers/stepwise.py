"""R's three functions for a loop of one's own, initSess, sgmcmcStep and getParams; and two to interrupt it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sgmcmc.core.files import write_whole
from sgmcmc.run.session import Session
from sgmcmc.samplers._checks import require_count, require_counter
from sgmcmc.samplers._sgmcmc import Sgmcmc


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
        If the search for the mode reaches NaN or infinity.

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
        If the chain reaches NaN or infinity; ``sgmcmc.params`` then hold the position before this call.

    Examples
    --------
    See `sgldSetup`.
    """
    _require_session(sgmcmc, sess, "sgmcmcStep")
    n_steps = require_count("nSteps", "sgmcmcStep", nSteps, 1)
    require_counter("nSteps", "sgmcmcStep", sess.iteration + n_steps, sess.leaps)
    sess.step(n_steps)


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


def saveSess(sgmcmc: Sgmcmc, sess: Session, path: str | Path) -> None:
    """Write to a file where a chain stands, so that `restoreSess` can go on from there, in another process too.

    Parameters
    ----------
    sgmcmc : Sgmcmc
    sess : Session
        What `initSess` returned for it.
    path : str or Path
        Of the file; replaced in one stroke if it exists, so that there is a whole one at any moment.

    Raises
    ------
    OSError
        If it cannot be written.

    Examples
    --------
    >>> import os, tempfile
    >>> import tensorflow as tf
    >>> from sgmcmc import getParams, initSess, restoreSess, saveSess, sgldSetup, sgmcmcStep
    >>> def logLik(params, dataset):
    ...     return -0.5 * tf.reduce_sum((dataset["x"] - params["theta"]) ** 2)
    >>> sampler = sgldSetup(logLik, {"x": [1.0, 2.0, 3.0]}, {"theta": 0.0}, 0.01, minibatchSize=2, seed=1)
    >>> sess = initSess(sampler)
    >>> sgmcmcStep(sampler, sess, nSteps=10)
    >>> path = os.path.join(tempfile.mkdtemp(), "chain.sess")
    >>> saveSess(sampler, sess, path)
    >>> sgmcmcStep(sampler, sess, nSteps=10)
    >>> after = getParams(sampler, sess)["theta"]
    >>> sess = restoreSess(sampler, path)
    >>> sgmcmcStep(sampler, sess, nSteps=10)
    >>> bool(getParams(sampler, sess)["theta"] == after)
    True
    """
    _require_session(sgmcmc, sess, "saveSess")
    path = _require_path("saveSess", path)
    if not path.absolute().parent.is_dir():
        raise ValueError(f"path of saveSess must be in a folder that exists; got {str(path)!r}.")
    write_whole(path, sgmcmc.save(sess))


def restoreSess(sgmcmc: Sgmcmc, path: str | Path) -> Session:
    """Go on from where `saveSess` left a chain; the steps are those that it would have made.

    For control variates, the mode and the gradient there are read, not computed.

    Parameters
    ----------
    sgmcmc : Sgmcmc
        What the same Setup function returned for the same arguments. Without a seed, it takes that of the file.
    path : str or Path

    Returns
    -------
    Session
        For `sgmcmcStep` and `getParams`, in place of what `initSess` would return.

    Raises
    ------
    ValueError
        If the file is none that `saveSess` wrote, or of a sampler with another setting, which is named.

    Examples
    --------
    See `saveSess`.
    """
    _require(sgmcmc, "restoreSess")
    path = _require_path("restoreSess", path)
    if not path.is_file():
        raise ValueError(f"path of restoreSess must be a file that saveSess wrote; got {str(path)!r}, which is none.")
    return sgmcmc.restore(path.read_bytes(), str(path))


def _require_path(function: str, path: str | Path) -> Path:
    if not isinstance(path, str | Path):
        raise ValueError(f"path of {function} must be a file name; got {path!r}.")
    return Path(path).expanduser()


def _require(sgmcmc: Sgmcmc, function: str) -> None:
    if not isinstance(sgmcmc, Sgmcmc):
        raise ValueError(
            f"sgmcmc of {function} must be the result of a Setup function such as sgldSetup; got {sgmcmc!r}."
        )


def _require_session(sgmcmc: Sgmcmc, sess: Session, function: str) -> None:
    _require(sgmcmc, function)
    if not isinstance(sess, Session) or sess is not sgmcmc.session:
        raise ValueError(
            f"sess of {function} must be the latest result of initSess or restoreSess for this sampler; got {sess!r}."
        )
