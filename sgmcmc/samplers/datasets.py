"""R's getDataset: data for the examples."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from sgmcmc.sources import bundled, covertype, download, mnist

READERS: dict[str, Callable[[Path], np.ndarray | dict[str, Any]]] = {"covertype": covertype.read, "mnist": mnist.read}


def getDataset(dataset: str) -> np.ndarray | dict[str, Any]:
    """Load a data set to try the samplers on.

    The two large ones, "covertype" and "mnist", are those of R; they are downloaded
    once.

    Parameters
    ----------
    dataset : {"breastCancer", "covertype", "digits", "mnist", "wine"}
        The name of the data set. "covertype" (11 MB) and "mnist" (11 MB) are downloaded
        on first use; the others are installed with the package.

    Returns
    -------
    numpy.ndarray or dict
        "covertype": an array of shape (581012, 55). The first column is the label, 0 or 1, and the others are the
        features, each scaled to [0, 1] by its smallest and largest value.

        "mnist": a dict with "train" and "test". Each is a dict with "images", of shape (55000, 784) and (10000, 784),
        grey values in [0, 1], and "labels", of shape (55000, 10) and (10000, 10), where entry k of a row is 1 for the
        digit k and all others are 0.

        "breastCancer", "digits" and "wine": a dict with the features "X", of shape (N,
        p) and not scaled, the labels "y", N integers from 0, and "names", the names of
        the p features.

    Raises
    ------
    ValueError
        If there is no data set of this name.
    OSError
        If a file can neither be found nor downloaded, if the download is not the
        published file, or if the file cannot be read. The message says what to do.

    Notes
    -----
    The raw files, ``covtype.data.gz`` and ``mnist.npz``, are kept in the user's cache
    folder, or in the folder that the environment variable ``SGMCMC_DATA`` names. Each
    use checks their SHA-256. A file that you put into that folder yourself may differ
    if it has the same format; a warning then says so. ``mnist.npz`` holds the arrays
    ``x_train``, ``y_train``, ``x_test`` and ``y_test``.

    Both have R's form. For the covertype data, R takes the labels, less 1, of LIBSVM's
    `covtype.binary`, which sets lodgepole pine (cover type 2 of 7, 283,301 rows)
    against the rest (297,711 rows). We infer which of the two has the label 1 from a
    published count: 51.2% of the rows have LIBSVM's label 2, so here the rest has the
    label 1. The other choice would only change the sign of the coefficients of a
    logistic regression. LIBSVM prints the scaled features with six digits; here they
    are not rounded.

    MNIST comes with 60,000 training images. R has 55,000 of them from TensorFlow's
    former tutorial reader, which keeps the first 5,000 for validation. We do the same.

    Creators, sources and licences of the installed data are in the file ``README.md``
    next to them. Covertype is by Blackard and Dean (1998),
    https://doi.org/10.24432/C50K5N; MNIST by LeCun, Cortes and Burges.

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
            f"{path} must be a file such as that from {file.urls[0]}; it could not be read ({error}). Remove it so "
            f"that it is downloaded again, or put the right file in its place ({download.FOLDER} names the folder)."
        ) from error
