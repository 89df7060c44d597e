"""The three functions of the R package for the user's own loop: initSess, sgmcmcStep and getParams.

saveSess and restoreSess save and continue a chain.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sgmcmc.arguments import require_counter
from sgmcmc.arguments.sampler import Sgmcmc
from sgmcmc.core.errors import require_count
from sgmcmc.core.files import write_whole
from sgmcmc.run.session import Session


def initSess(sgmcmc: Sgmcmc, verbose: bool = True) -> Session:
    """Begin a chain.

    With control variates, this searches for the mode and passes once over the data.

    Parameters
    ----------
    sgmcmc : Sgmcmc
        The result of a Setup function. Its `params` are set to the start of the chain.
    verbose : bool, default True
        Show the progress of the search for the mode, unless the Setup function has
        ``verbose=False``.

    Returns
    -------
    Session
        The session, for `sgmcmcStep` and `getParams`. Each call begins the same chain
        again and ends the previous session.

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
    """Run one or more iterations, which set ``sgmcmc.params`` to the new position.

    Parameters
    ----------
    sgmcmc : Sgmcmc
        The result of a Setup function.
    sess : Session
        The result of `initSess` for `sgmcmc`.
    nSteps : int, default 1
        Number of iterations. One call gives the same draws as `nSteps` calls with one
        iteration each, in less time.

    Raises
    ------
    DivergenceError
        If the chain reaches NaN or infinity; ``sgmcmc.params`` then hold the position
        from before this call.

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
        The result of a Setup function.
    sess : Session
        The result of `initSess` for `sgmcmc`.

    Returns
    -------
    dict of numpy.ndarray
        An array for each parameter, of its shape, or (nChains, *shape) given `nChains`.

    Examples
    --------
    See `sgldSetup`.
    """
    _require_session(sgmcmc, sess, "getParams")
    return sess.params()


def saveSess(sgmcmc: Sgmcmc, sess: Session, path: str | Path) -> None:
    """Save the state of a chain to a file, so that `restoreSess` can continue it.

    Parameters
    ----------
    sgmcmc : Sgmcmc
        The result of a Setup function.
    sess : Session
        The result of `initSess` for `sgmcmc`.
    path : str or Path
        The name of the file. If the file exists it is replaced atomically, so that
        there is a complete file at any time.

    Raises
    ------
    OSError
        If the file cannot be written.

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
    if path.is_dir():
        raise ValueError(f"path of saveSess must be the name of a file; got {str(path)!r}, which is a folder.")
    if not path.absolute().parent.is_dir():
        raise ValueError(f"path of saveSess must be in a folder that exists; got {str(path)!r}.")
    write_whole(path, sgmcmc.save(sess))


def restoreSess(sgmcmc: Sgmcmc, path: str | Path) -> Session:
    """Continue a chain from the state that `saveSess` saved, also in another process.

    Further steps are those that the saved chain would have made. With control variates,
    the mode and the gradient there are read from the file, not computed again.

    Parameters
    ----------
    sgmcmc : Sgmcmc
        The result of the same Setup function for the same arguments. Without a `seed`,
        the seed of the file is used.
    path : str or Path
        The name of the file.

    Returns
    -------
    Session
        The session, for `sgmcmcStep` and `getParams`, in place of one from `initSess`.

    Raises
    ------
    ValueError
        If `saveSess` did not write the file, or if a setting of the sampler has
        changed; the message names the setting.

    Examples
    --------
    See `saveSess`.
    """
    _require(sgmcmc, "restoreSess")
    path = _require_path("restoreSess", path)
    if not path.is_file():
        raise ValueError(
            f"path of restoreSess must be a file that saveSess wrote; got {str(path)!r}, where there is no file."
        )
    return sgmcmc.restore(path.read_bytes(), str(path))


def _require_path(function: str, path: str | Path) -> Path:
    if not isinstance(path, str | Path) or path == "":
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
