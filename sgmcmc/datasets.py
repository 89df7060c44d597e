"""R's getDataset: the data of the examples."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import files
from pathlib import Path
from typing import Any

import numpy as np

from sgmcmc.core.errors import warn_user

# Their sources and licences are described in data/README.md.
BUNDLED = {"breastCancer": "breast_cancer.csv", "digits": "digits.csv", "wine": "wine.csv"}


def read_bundled(name: str) -> dict[str, Any]:
    with _path(BUNDLED[name]).open(encoding="utf-8") as lines:
        columns = next(lines).rstrip("\n").split(",")
        table = np.loadtxt(lines, delimiter=",")
    return {"X": table[:, 1:].copy(), "y": table[:, 0].astype(np.int64), "names": columns[1:]}


def _path(file: str) -> Path:
    in_checkout = Path(__file__).parents[1] / "data" / file
    if in_checkout.exists():
        return in_checkout
    installed = (Path(str(one.locate())) for one in files("sgmcmc") or [] if one.name == file)
    return next(installed, in_checkout)


LODGEPOLE_PINE = 2  # the most common of the cover types 1 to 7, 48.8% of the rows


def read_covertype(path: Path) -> np.ndarray:
    """Labels in the first column, 1 for all types but lodgepole pine, then every feature scaled by its range."""
    rows = np.loadtxt(path, delimiter=",", dtype=np.int16, ndmin=2)  # [N, 54 features and the cover type]
    features, cover_type = rows[:, :-1], rows[:, -1]
    low, high = features.min(axis=0).astype(float), features.max(axis=0).astype(float)
    table = np.empty(rows.shape)
    table[:, 0] = cover_type != LODGEPOLE_PINE
    np.subtract(features, low, out=table[:, 1:])
    table[:, 1:] /= np.where(high > low, high - low, 1.0)
    return table


N_VALIDATION = 5_000


def read_mnist(path: Path) -> dict[str, dict[str, np.ndarray]]:
    """The parts train and test, each with images and labels."""
    with np.load(path, allow_pickle=False) as arrays:
        train = _part(arrays["x_train"][N_VALIDATION:], arrays["y_train"][N_VALIDATION:])
        test = _part(arrays["x_test"], arrays["y_test"])
    return {"train": train, "test": test}


def _part(images: np.ndarray, digits: np.ndarray) -> dict[str, np.ndarray]:
    flat = images.reshape(len(images), -1) / np.float32(255)
    return {"images": flat, "labels": np.eye(10, dtype=np.float32)[digits]}


FOLDER = "SGMCMC_DATA"  # the environment variable with the folder to use in place of the user's cache


@dataclass(frozen=True)
class RawFile:
    """A file in its original format, and where it is published."""

    name: str
    sha256: str
    urls: tuple[str, ...]


DOWNLOADED = {
    "covertype": RawFile(  # as scikit-learn fetches it, then the original place
        "covtype.data.gz",
        "614360d0257557dd1792834a85a1cdebfadc3c4f30b011d56afee7ffb5b15771",
        (
            "https://ndownloader.figshare.com/files/5976039",
            "https://archive.ics.uci.edu/ml/machine-learning-databases/covtype/covtype.data.gz",
        ),
    ),
    "mnist": RawFile(  # as Keras fetches it
        "mnist.npz",
        "731c5ac602752760c8e48fbffcf8c3b850d9dc2a2aedcf2cc48468fc17b673d1",
        ("https://storage.googleapis.com/tensorflow/tf-keras-datasets/mnist.npz",),
    ),
}


def fetch(file: RawFile) -> Path:
    import pooch  # here, so that `import sgmcmc` does not wait for it

    own_folder = os.environ.get(FOLDER)
    folder = Path(own_folder).expanduser() if own_folder else Path(pooch.os_cache("sgmcmc"))
    path = folder / file.name
    if own_folder and path.exists():
        # Users may put other files into their own folder, such as the same contents compressed again.
        if (found := pooch.file_hash(str(path))) != file.sha256:
            warn_user(
                f"{path} is not the published file: its SHA-256 is {found}, but that of {file.urls[0]} is "
                f"{file.sha256}. It is read as it is; remove it to download the published file."
            )
        return path
    failures = []
    for url in file.urls:
        try:
            # This downloads to a temporary name, and renames the file if its hash is right.
            return Path(pooch.retrieve(url, f"sha256:{file.sha256}", file.name, folder, progressbar=True))
        except (OSError, ValueError) as error:
            failures.append(f"from {url}: {error}")
    failed = "\n  ".join([f"{file.name} could not be downloaded into {folder}", *failures])
    raise OSError(
        f"{failed}\nTry again later; or download it yourself, put it into a folder under the name {file.name}, "
        f"and set the environment variable {FOLDER} to that folder."
    )


READERS: dict[str, Callable[[Path], np.ndarray | dict[str, Any]]] = {"covertype": read_covertype, "mnist": read_mnist}


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
    names = sorted([*READERS, *BUNDLED])
    if not isinstance(dataset, str) or dataset not in names:
        raise ValueError(f"dataset of getDataset must be one of {names}; got {dataset!r}.")
    if dataset in BUNDLED:
        return read_bundled(dataset)
    file = DOWNLOADED[dataset]
    path = fetch(file)
    try:
        return READERS[dataset](path)
    except Exception as error:
        raise OSError(
            f"{path} must be a file such as that from {file.urls[0]}; it could not be read ({error}). Remove it so "
            f"that it is downloaded again, or put the right file in its place ({FOLDER} names the folder)."
        ) from error
