"""Raw files from the internet with known SHA-256, downloaded once and kept."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from sgmcmc.core.warn import warn_user

FOLDER = "SGMCMC_DATA"  # the environment variable with the folder to use in place of the user's cache


@dataclass(frozen=True)
class RawFile:
    """A file in its original format, and where it is published."""

    name: str
    sha256: str
    urls: tuple[str, ...]


FILES = {
    # As scikit-learn fetches it, then the original place.
    "covertype": RawFile(
        name="covtype.data.gz",
        sha256="614360d0257557dd1792834a85a1cdebfadc3c4f30b011d56afee7ffb5b15771",
        urls=(
            "https://ndownloader.figshare.com/files/5976039",
            "https://archive.ics.uci.edu/ml/machine-learning-databases/covtype/covtype.data.gz",
        ),
    ),
    # As Keras fetches it.
    "mnist": RawFile(
        name="mnist.npz",
        sha256="731c5ac602752760c8e48fbffcf8c3b850d9dc2a2aedcf2cc48468fc17b673d1",
        urls=("https://storage.googleapis.com/tensorflow/tf-keras-datasets/mnist.npz",),
    ),
}


def fetch(file: RawFile) -> Path:
    """The path of the file, after a download if it is not there yet."""
    import pooch  # here, so that `import sgmcmc` does not wait for it

    own_folder = os.environ.get(FOLDER)
    folder = Path(own_folder).expanduser() if own_folder else Path(pooch.os_cache("sgmcmc"))
    path = folder / file.name
    if own_folder and path.exists():
        _say_if_another(path, file, pooch.file_hash(str(path)))
        return path
    failures = []
    for url in file.urls:
        try:
            # This downloads to a temporary name, and renames the file if its hash is right.
            return Path(pooch.retrieve(url, f"sha256:{file.sha256}", file.name, folder, progressbar=True))
        except (OSError, ValueError) as error:
            failures.append(f"from {url}: {error}")
    raise OSError(
        f"{file.name} could not be downloaded into {folder}\n  "
        + "\n  ".join(failures)
        + f"\nTry again later; or download it yourself, put it into a folder under the name {file.name}, "
        f"and set the environment variable {FOLDER} to that folder."
    )


def _say_if_another(path: Path, file: RawFile, found: str) -> None:
    # Users may put other files into their own folder, such as the same contents compressed again.
    if found != file.sha256:
        warn_user(
            f"{path} is not the file that was published: its SHA-256 is {found}, that from {file.urls[0]} has "
            f"{file.sha256}. It is read as it is; remove it to download the published file."
        )
