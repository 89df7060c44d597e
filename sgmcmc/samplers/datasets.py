"""R's getDataset: data for the examples."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from sgmcmc.sources import bundled, covertype, download, mnist

READERS: dict[str, Callable[[Path], np.ndarray | dict[str, Any]]] = {"covertype": covertype.read, "mnist": mnist.read}


def getDataset(dataset: str) -> np.ndarray | dict[str, Any]:
    """Load a data set to try the samplers on; the two large ones, which are R's, are downloaded once.

    Parameters
    ----------
    dataset : {"breastCancer", "covertype", "digits", "mnist", "wine"}
        The name of the data set. "covertype" (11 MB) and "mnist" (11 MB) are downloaded when they are first asked for;
        the others are installed with the package.

    Returns
    -------
    numpy.ndarray or dict
        "covertype": an array of shape (581012, 55). The first column is the label, 0 or 1, and the others are the
        features, each scaled to [0, 1] by its smallest and largest value.

        "mnist": a dict with "train" and "test". Each is a dict with "images", of shape (55000, 784) and (10000, 784),
        grey values in [0, 1], and "labels", of shape (55000, 10) and (10000, 10), where entry k of a row is 1 for the
        digit k and all others are 0.

        "breastCancer", "digits" and "wine": a dict with the features "X", of shape (N, p) and not scaled, the labels
        "y", N integers from 0, and "names", those of the p features.

    Raises
    ------
    ValueError
        If there is no data set of this name.
    OSError
        If a file can neither be found nor downloaded, what was downloaded is not what was published, or it cannot be
        read. The message says what to do.

    Notes
    -----
    The raw files, ``covtype.data.gz`` and ``mnist.npz``, are kept in the user's cache folder, or in the folder that the
    environment variable ``SGMCMC_DATA`` names. They are checked by their SHA-256 at each use; a file that you put
    into that folder yourself may differ, if the format is the same, and a warning says so. ``mnist.npz`` holds the
    arrays ``x_train``, ``y_train``, ``x_test`` and ``y_test``.

    Both have R's form. For the covertype data, R takes the labels, less 1, of LIBSVM's `covtype.binary`, which sets
    lodgepole pine (cover type 2 of 7, 283,301 rows) against the rest (297,711 rows). Which of the two is 1 we infer
    from a published count, by which 51.2% of the rows have LIBSVM's label 2: here 1 is the rest. The other choice
    would only change the sign of the coefficients of a logistic regression. LIBSVM prints the scaled features with six
    digits; here they are not rounded.

    MNIST comes with 60,000 training images. R has 55,000 of them from TensorFlow's former tutorial reader, which sets
    the first 5,000 apart for validation; so do we.

    Creators, sources and licences of the installed data are in the file ``README.md`` beside them. Covertype is by
    Blackard and Dean (1998), https://doi.org/10.24432/C50K5N; MNIST by LeCun, Cortes and Burges.

    Examples
    --------
    >>> from sgmcmc import getDataset
    >>> cancer = getDataset("breastCancer")
    >>> cancer["X"].shape, cancer["names"][0]
    ((569, 30), 'mean_radius')
    >>> dataset = {"X": cancer["X"], "y": cancer["y"]}  # for a sampler
    """
    names = sorted([*READERS, *bundled.FILES])
    if not isinstance(dataset, str) or dataset not in names:
        raise ValueError(f"dataset of getDataset must be one of {names}; got {dataset!r}.")
    if dataset in bundled.FILES:
        return bundled.read(dataset)
    file = download.FILES[dataset]
    path = download.fetch(file)
    try:
        return READERS[dataset](path)
    except Exception as error:
        raise OSError(
            f"{path} must be a file such as that from {file.urls[0]}; it could not be read ({error}). Remove it to "
            f"have that downloaded, or put the right file in its place ({download.FOLDER} names the folder)."
        ) from error
