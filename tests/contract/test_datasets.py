"""getDataset: small files in the original formats, from a server on this computer; nothing comes from the internet.

It uses the inside of the package: it replaces the readers, so that nothing is downloaded.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_digits, load_wine

from sgmcmc import datasets, getDataset
from sgmcmc.datasets import READERS

DATA = Path(__file__).resolve().parents[2] / "data"
NAMES = {"covertype": "covtype.data.gz", "mnist": "mnist.npz"}

# --- what the published files look like, with fewer rows


def covertype_rows() -> np.ndarray:
    """Two continuous columns, eight constant ones, 44 indicators, the cover type."""
    rows = np.zeros((7, 55), int)
    rows[:, 0] = [2596, 2590, 2804, 2785, 2595, 3858, 1859]
    rows[:, 4] = [0, -6, 65, 118, -1, 601, -173]
    rows[:, 5:10] = 7
    rows[range(7), 10 + np.arange(7) % 4] = 1
    rows[range(7), 14 + np.arange(7) * 6] = 1
    rows[:, 54] = [5, 2, 2, 1, 3, 7, 2]
    return rows


def covertype_file() -> bytes:
    lines = [",".join(map(str, row)) + "\n" for row in covertype_rows()]
    return gzip.compress("".join(lines).encode())


def mnist_arrays() -> dict[str, np.ndarray]:
    draw = np.random.default_rng(1).integers
    images = {f"x_{part}": np.zeros((n, 28, 28), np.uint8) for part, n in [("train", 5_004), ("test", 3)]}
    for array in images.values():
        array[-5:] = draw(0, 256, array[-5:].shape)
        array[-1, 0, :2] = 0, 255
    labels = {f"y_{part}": draw(0, 10, n).astype(np.uint8) for part, n in [("train", 5_004), ("test", 3)]}
    return images | labels


def mnist_file() -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **mnist_arrays())
    return buffer.getvalue()


BODIES = {"covertype": covertype_file(), "mnist": mnist_file()}

# --- the server


@dataclass
class Server:
    """Serves `bodies` by path; `cut` leaves out the end of each; `requested` are the paths asked for."""

    bodies: dict[str, bytes] = field(default_factory=dict)
    cut: int = 0
    requested: list[str] = field(default_factory=list)
    url: str = ""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    state = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            state.requested.append(self.path)
            if self.path not in state.bodies:
                self.send_error(403)
                return
            body = state.bodies[self.path]
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[: len(body) - state.cut])

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        state.url = f"http://127.0.0.1:{http.server_port}"
        thread = Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield state
        http.shutdown()
        thread.join()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder `sgmcmc` of an empty user's cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("SGMCMC_DATA", raising=False)
    return tmp_path / "home" / "sgmcmc"


@pytest.fixture(params=list(NAMES))
def name(request: pytest.FixtureRequest, server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A data set that is published on the server alone."""
    server.bodies[f"/{request.param}"] = BODIES[request.param]
    register(monkeypatch, request.param, f"{server.url}/{request.param}")
    return request.param


def register(monkeypatch: pytest.MonkeyPatch, name: str, *urls: str) -> None:
    sha256 = hashlib.sha256(BODIES[name]).hexdigest()
    monkeypatch.setitem(datasets.DOWNLOADED, name, replace(datasets.DOWNLOADED[name], urls=urls, sha256=sha256))


def arrays_of(data: Any) -> list[np.ndarray]:
    return [data] if isinstance(data, np.ndarray) else [array for part in data.values() for array in part.values()]


def assert_is(name: str, data: Any) -> None:
    """`data` are those of BODIES."""
    number = covertype_rows()[:, 0].sum() if name == "covertype" else mnist_arrays()["x_test"].sum()
    first = data[:, 1] * (3858 - 1859) + 1859 if name == "covertype" else data["test"]["images"] * 255.0
    assert first.sum() == pytest.approx(number)


def assert_helps(error: OSError, name: str, url: str) -> None:
    for part in (url, NAMES[name], "SGMCMC_DATA"):
        assert part in str(error)


# --- what is returned


def test_covertype(server, cache, monkeypatch):
    server.bodies["/file"] = BODIES["covertype"]
    register(monkeypatch, "covertype", f"{server.url}/file")
    rows, table = covertype_rows(), getDataset("covertype")
    assert table.shape == (7, 55)
    assert table.dtype == np.float64
    np.testing.assert_array_equal(table[:, 0], [1, 0, 0, 1, 1, 1, 0])  # 0 for cover type 2
    np.testing.assert_allclose(table[:, 1], (rows[:, 0] - 1859) / (3858 - 1859), rtol=1e-15)
    np.testing.assert_allclose(table[:, 5], (rows[:, 4] + 173) / (601 + 173), rtol=1e-15)
    np.testing.assert_array_equal(table[:, 6:11], 0)  # constant columns
    np.testing.assert_array_equal(table[:, 11:], rows[:, 10:54])
    assert table[:, 1:].min() == 0 and table[:, 1:].max() == 1


def test_mnist(server, cache, monkeypatch):
    server.bodies["/file"] = BODIES["mnist"]
    register(monkeypatch, "mnist", f"{server.url}/file")
    raw, data = mnist_arrays(), getDataset("mnist")
    assert list(data) == ["train", "test"]
    assert [list(part) for part in data.values()] == [["images", "labels"]] * 2
    for part, kept in [("train", slice(5_000, None)), ("test", slice(None))]:
        images, digits = raw[f"x_{part}"][kept], raw[f"y_{part}"][kept]
        assert data[part]["images"].shape == (len(images), 784)
        assert data[part]["labels"].shape == (len(images), 10)
        np.testing.assert_allclose(data[part]["images"], images.reshape(-1, 784) / 255.0, rtol=1e-6)
        assert data[part]["images"].min() == 0 and data[part]["images"].max() == 1
        np.testing.assert_array_equal(data[part]["labels"].argmax(axis=1), digits)
        np.testing.assert_array_equal(data[part]["labels"].sum(axis=1), 1)
        assert np.isin(data[part]["labels"], [0, 1]).all()


@pytest.mark.parametrize(
    ("name", "source", "label"),
    [
        ("breastCancer", load_breast_cancer(), lambda target: 1 - target),
        ("digits", load_digits(), lambda target: target),
        ("wine", load_wine(), lambda target: target),
    ],
)
def test_bundled_equal_the_copies_of_scikit_learn(name, source, label):
    data = getDataset(name)
    assert list(data) == ["X", "y", "names"]
    np.testing.assert_array_equal(data["X"], source.data)
    np.testing.assert_array_equal(data["y"], label(source.target))
    assert data["y"].dtype == np.int64
    assert data["names"] == [re.sub("[ /]", "_", column) for column in source.feature_names]


def test_every_table_in_data_is_served_and_described():
    tables = sorted(path.name for path in DATA.glob("*.csv"))
    assert sorted(datasets.BUNDLED.values()) == tables
    described = re.findall(r"^## (.+)$", (DATA / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert described == tables


def test_each_call_returns_arrays_of_its_own(name):
    for array in arrays_of(getDataset(name)):
        array[:] = 99
    assert_is(name, getDataset(name))
    getDataset("wine")["X"][:] = 99
    assert getDataset("wine")["X"][0, 0] == 14.23


@pytest.mark.parametrize("wrong", ["Covertype", "", None, 1, ["mnist"], np.array(["mnist"])])
def test_an_unknown_name_is_refused(wrong):
    names = ["breastCancer", "covertype", "digits", "mnist", "wine"]
    with pytest.raises(ValueError, match=r"^dataset of getDataset must be one of ") as error:
        getDataset(wrong)
    assert str(error.value) == f"dataset of getDataset must be one of {names}; got {wrong!r}."


# --- downloads


def test_the_published_files_are_named_in_full():
    assert {name: file.name for name, file in datasets.DOWNLOADED.items()} == NAMES
    assert set(READERS) == set(NAMES)
    for file in datasets.DOWNLOADED.values():
        assert re.fullmatch("[0-9a-f]{64}", file.sha256)
        assert file.urls and all(url.startswith("https://") for url in file.urls)


def test_a_file_is_downloaded_once_into_the_cache_with_progress_shown(name, server, cache, capsys):
    assert_is(name, getDataset(name))
    assert "100%" in capsys.readouterr().err
    assert (cache / NAMES[name]).read_bytes() == BODIES[name]
    server.bodies.clear()
    assert_is(name, getDataset(name))
    assert server.requested == [f"/{name}"]


@pytest.mark.parametrize("fault", ["corrupt", "truncated", "other length"])
def test_a_faulty_download_is_an_error_and_leaves_nothing(fault, name, server, cache):
    whole = BODIES[name]
    if fault == "truncated":
        server.cut = len(whole) // 2  # of what Content-Length promises
    else:
        server.bodies[f"/{name}"] = whole[:-1] if fault == "other length" else whole[:-1] + bytes([whole[-1] ^ 1])
    with pytest.raises(OSError) as error:
        getDataset(name)
    assert_helps(error.value, name, f"{server.url}/{name}")
    assert list(cache.iterdir()) == []

    server.cut, server.bodies[f"/{name}"] = 0, whole
    assert_is(name, getDataset(name))


def test_half_a_file_in_the_cache_is_replaced(name, server, cache):
    cache.mkdir(parents=True)
    (cache / NAMES[name]).write_bytes(BODIES[name][:100])
    assert_is(name, getDataset(name))
    assert (cache / NAMES[name]).read_bytes() == BODIES[name]


def test_without_a_server_the_error_says_what_to_do(name, cache, monkeypatch):
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as closed:
        url = f"http://127.0.0.1:{closed.server_port}/file"
    register(monkeypatch, name, url)
    with pytest.raises(OSError) as error:
        getDataset(name)
    assert_helps(error.value, name, url)
    assert list(cache.iterdir()) == []


def test_the_second_source_is_asked_when_the_first_refuses(name, server, monkeypatch):
    urls = [f"{server.url}/refused", f"{server.url}/{name}"]
    register(monkeypatch, name, *urls)
    assert_is(name, getDataset(name))
    assert server.requested == ["/refused", f"/{name}"]


def test_the_error_names_every_source(name, server, monkeypatch):
    urls = [f"{server.url}/refused", f"{server.url}/alsoRefused"]
    register(monkeypatch, name, *urls)
    with pytest.raises(OSError) as error:
        getDataset(name)
    for url in urls:
        assert_helps(error.value, name, url)


# --- a folder of one's own


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: Path) -> Path:
    monkeypatch.setenv("SGMCMC_DATA", str(tmp_path / "own"))
    return tmp_path / "own"


def test_a_file_in_the_folder_needs_no_network(name, server, folder, cache):
    folder.mkdir()
    (folder / NAMES[name]).write_bytes(BODIES[name])
    assert_is(name, getDataset(name))
    assert server.requested == []
    assert not cache.exists()


def test_a_file_not_in_the_folder_is_downloaded_into_it(name, server, folder, cache):
    assert_is(name, getDataset(name))
    assert (folder / NAMES[name]).read_bytes() == BODIES[name]
    assert not cache.exists()


def test_a_wrong_file_in_the_folder_is_an_error_and_stays(name, server, folder):
    folder.mkdir()
    (folder / NAMES[name]).write_bytes(b"not the data")
    with (
        pytest.warns(UserWarning, match=hashlib.sha256(b"not the data").hexdigest()),
        pytest.raises(OSError) as error,
    ):
        getDataset(name)
    assert_helps(error.value, name, f"{server.url}/{name}")
    assert (folder / NAMES[name]).read_bytes() == b"not the data"
    assert server.requested == []


def test_a_file_packed_anew_is_read_with_a_warning(name, server, folder):
    folder.mkdir()
    if name == "mnist":
        with np.load(io.BytesIO(BODIES[name])) as arrays:
            np.savez(folder / NAMES[name], **arrays)
    else:
        (folder / NAMES[name]).write_bytes(gzip.compress(gzip.decompress(BODIES[name]), 1, mtime=1))
    with pytest.warns(UserWarning, match="is not the published file: its SHA-256 is"):
        assert_is(name, getDataset(name))
    assert server.requested == []


def test_an_empty_variable_means_the_cache(name, cache, monkeypatch):
    monkeypatch.setenv("SGMCMC_DATA", "")
    assert_is(name, getDataset(name))
    assert (cache / NAMES[name]).exists()
