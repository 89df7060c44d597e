"""The site: every public name has a page, examples run, links lead somewhere, and Sphinx builds it without warnings."""

import html.parser
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote, urlparse

import numpy as np
import pytest
import sphinx.cmd.build
import tensorflow as tf
import tensorflow_probability as tfp

import sgmcmc

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "CONTRIBUTING.md", *sorted(DOCS.glob("*.md")), *sorted((DOCS / "guide").glob("*.md"))]
INCLUDED = [ROOT / f"{name}.md" for name in ("CHANGELOG", "CODE_OF_CONDUCT", "SECURITY")]  # in pages of the site
VIGNETTES = sorted((ROOT / "vignettes").glob("*.py"))
PLAIN = {name: value for name, value in os.environ.items() if not name.startswith("TF_")} | {"PYTHONPATH": str(ROOT)}
FOLDERS = ("benchmarks", "docs", "sgmcmc", "vignettes")


def python_blocks(text: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def test_the_reference_has_every_public_name():
    listed = re.findall(r"^   (\w+)$", "\n".join(map(read, (DOCS / "reference").glob("*.md"))), re.MULTILINE)
    for module in (sgmcmc, sgmcmc.diagnostics, sgmcmc.models):
        assert sorted(set(listed) & set(module.__all__)) == module.__all__
    assert len(listed) == len(set(listed))


def test_the_first_example_is_that_of_the_readme():
    """Which is executed, and judged, in test_readme.py."""
    assert python_blocks(read(DOCS / "index.md")) == python_blocks(read(ROOT / "README.md"))


@pytest.mark.parametrize("vignette", VIGNETTES, ids=lambda path: path.stem)
def test_every_vignette_has_its_figure(vignette):
    assert (ROOT / "vignettes" / "figures" / f"{vignette.stem}.png").exists()


def test_the_guide_on_usage_keeps_its_promises(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "__main__"}
    one_call, chains, steps, averages, from_r = python_blocks(read(DOCS / "guide" / "usage.md"))
    exec(one_call, namespace)
    exact = namespace["dataset"]["x"].mean()
    exec(chains, namespace)
    assert namespace["out"]["theta"].shape == (4, 2000)
    assert (abs(namespace["out"]["theta"].mean(axis=1) - exact) < 0.003).all()
    exec(steps, namespace)
    exec(averages, namespace)
    ways = [namespace["total"] / 10_000, namespace["out"]["theta"].values.mean()]
    assert np.ptp(ways) < 1e-5 and abs(ways[0] - exact) < 0.003
    exec(from_r, namespace)


def test_the_page_on_models_keeps_its_promises():
    """Within 3 standard errors of the mean, and 10% of the sd."""
    namespace = {"__name__": "__main__"}
    normal, table, joint, groups, *_ = python_blocks(read(DOCS / "guide" / "yourModel.md"))
    exec(normal, namespace)
    assert abs(namespace["out"]["sd"].mean() - namespace["dataset"]["x"].std()) < 0.003
    assert abs(namespace["out"]["sd"].std() / (2 / np.sqrt(2 * 10_000)) - 1) < 0.15
    exec(table, namespace)
    means = namespace["out"].summary("mean")["mean"]
    assert list(means.index) == ["mean[AA]", "mean[DL]", "mean[UA]"]
    assert abs(means - [5.0, 2.0, 8.0]).max() < 0.15  # sd 0.04
    exec(joint, namespace)
    assert abs(namespace["out"]["sd"].mean() - namespace["dataset"]["x"].std()) < 0.003
    exec(groups, namespace)
    out = namespace["out"]
    assert abs(out["beta"].mean(axis=0) - [1.0, -0.5]).max() < 0.05 and abs(out["sd"].mean() - 1.5) < 0.03
    assert 0.6 < out["scale"].mean() < 1.05 and abs(out["mean"].mean() - 2.0) < 0.4
    assert out.summary(["mean", "scale", "effect"])["ess_bulk"].min() > 300  # of 1500


def test_the_page_on_models_keeps_its_promises_of_networks_and_counts():
    namespace = {"__name__": "__main__", "np": np, "tf": tf, "sghmc": sgmcmc.sghmc, "sgldcv": sgmcmc.sgldcv}
    network, ensemble, scores, counts = python_blocks(read(DOCS / "guide" / "yourModel.md"))[4:8]
    exec(network, namespace)
    right = namespace["probabilities"].argmax(axis=1) == namespace["testset"]["y"]
    assert right.mean() > 0.96  # sd 0.8% over test images
    exec(ensemble, namespace)
    exec(scores, namespace)
    assert namespace["predicted"]["r_hat"].shape == (297, 10)
    assert namespace["ensemble"].nChains == 5 and 1e-6 < namespace["found"] < 1e-2
    exec(counts, namespace)
    rate, shape = namespace["out"]["rate"], 1 + namespace["counts"]["count"].sum()
    assert abs(rate.mean() - shape / 1000) < 0.1 and abs(rate.std() / (np.sqrt(shape) / 1000) - 1) < 0.15


def test_the_page_on_models_keeps_its_promise_of_loops():
    """The truth within 4 standard deviations, of 0.04 and at most 0.02."""
    namespace = {"__name__": "__main__", "np": np, "tf": tf, "sgldcv": sgmcmc.sgldcv}
    exec(python_blocks(read(DOCS / "guide" / "yourModel.md"))[-1], namespace)
    means = namespace["out"].summary()["mean"]
    assert abs(means["logit"] - np.log(9)) < 0.16 and abs(means[["mean[0]", "mean[1]"]] - [-1.0, 1.5]).max() < 0.08


def test_the_filters_of_the_page_on_time_series_are_those_of_tfp():
    level, counts = (block for block in python_blocks(read(DOCS / "guide" / "timeSeries.md")) if "tf.scan" in block)
    namespace = {"tf": tf}
    exec(level + counts, namespace)
    rng, tfd = np.random.default_rng(0), tfp.distributions
    y, n = tf.constant(rng.normal(size=(4, 30)), tf.float32), tf.constant(rng.poisson(3.0, size=(4, 30)), tf.float32)

    def normal(sd):
        return tfd.MultivariateNormalDiag(tf.zeros(1), tf.constant([sd], tf.float32))

    level = {"phi": 0.8, "stateSd": 0.5, "noiseSd": 1.2}
    one = tf.ones([1, 1])
    kalman = tfd.LinearGaussianStateSpaceModel(30, 0.8 * one, normal(0.5), one, normal(1.2), normal(0.5 / 0.6))
    markov = tfd.HiddenMarkovModel(
        tfd.Categorical(probs=[0.75, 0.25]),
        tfd.Categorical(probs=[[0.9, 0.1], [0.3, 0.7]]),
        tfd.Poisson([1.0, 5.0]),
        30,
    )
    of_level = kalman.log_prob(y[..., None]) + 15 * np.log(2 * np.pi)  # which the page leaves out
    for name, params, x, expected in [
        ("logLikOfLevel", level, y, of_level),
        ("logLikOfCounts", {"leave": [0.1, 0.3], "rate": [1.0, 5.0]}, n, markov.log_prob(n)),
    ]:
        given = {key: tf.constant(value, tf.float32) for key, value in params.items()}
        found = namespace[name](given, {"y": x, "inside": tf.ones_like(x)})
        np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_every_picture_of_a_page_is_there():
    for page in PAGES:
        pictures = re.findall(r"!\[[^]]*\]\(([^)]+)\)", read(page))
        assert [picture for picture in pictures if not (page.parent / picture).exists()] == []


@pytest.mark.parametrize("page", [*PAGES, *INCLUDED], ids=lambda path: path.stem)
def test_links_to_files_exist(page):
    """In the repository; the site leads those to vignettes to their pages."""
    text = re.sub(r"^```.*?^```$", "", read(page), flags=re.DOTALL | re.MULTILINE)
    links = re.findall(r"\]\((?!https?:)([^)#\s]+)(?:#[^)]*)?\)", text)
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_the_versions_agree():
    assert f"\nversion: {sgmcmc.__version__}\n" in read(ROOT / "CITATION.cff")
    assert f"version = {{{sgmcmc.__version__}}}" in read(DOCS / "index.md")
    assert re.search(r"^## \[(\d\S*)\]", read(ROOT / "CHANGELOG.md"), re.MULTILINE)[1] == sgmcmc.__version__


def test_the_changelog_is_kept_as_keep_a_changelog_says():
    versions = re.split(r"^## ", read(ROOT / "CHANGELOG.md"), flags=re.MULTILINE)[1:]
    kinds = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"]
    for version in versions:
        assert re.match(r"\[Unreleased\]$|\[\d+\.\d+\.\d+\] - (\d{4}-\d\d-\d\d|unreleased)$", version, re.MULTILINE)
        sections = re.findall(r"^### (.*)$", version, re.MULTILINE)
        assert sections == [kind for kind in kinds if kind in sections]


def test_the_example_of_contributing_is_in_its_diff():
    diff = read(DOCS / "addingDynamics.diff").splitlines()
    blocks = re.findall(r"^```diff\n(.*?)^```$", read(ROOT / "CONTRIBUTING.md"), re.DOTALL | re.MULTILINE)
    assert blocks
    for line in "".join(blocks).splitlines():
        assert line in diff or line == "...", line


def test_the_diff_of_contributing_applies(tmp_path):
    ignore = shutil.ignore_patterns("__pycache__", "_build", "generated", "gallery")
    for folder in ("docs", "sgmcmc", "tests"):
        shutil.copytree(ROOT / folder, tmp_path / folder, symlinks=True, ignore=ignore)
    apply = ["git", "apply", str(DOCS / "addingDynamics.diff")]
    applied = subprocess.run(apply, cwd=tmp_path, capture_output=True, text=True)
    assert applied.returncode == 0, applied.stderr
    code = "from tests.catalogue import CATALOGUE as all; import sgmcmc; print(sgmcmc, [e.setup for e in all])"
    run = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert str(tmp_path) in run.stdout and "sglmSetup" in run.stdout, run.stderr[-2000:]


@pytest.mark.parametrize(
    "page",
    [
        page for page in PAGES if python_blocks(read(page)) and page.stem not in ("index", "usage", "yourModel")
    ],  # see above
    ids=lambda path: path.stem,
)
def test_python_blocks_run_in_order(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "__main__"}
    for i, block in enumerate(python_blocks(read(page))):
        exec(compile(block, f"{page.name}, Python block {i + 1}", "exec"), namespace)


LOUD = """
import numpy as np
import tensorflow as tf
from sgmcmc import sghmc

for k in range(6):  # TensorFlow speaks of retracing from the fifth map over chains on
    sghmc(
        lambda params, dataset: -(1.0 + 0.1 * k) * tf.reduce_sum((dataset["x"] - params["theta"]) ** 2),
        {"x": np.ones(20)}, {"theta": 1.0}, 1e-4, minibatchSize=5, nIters=2, nChains=2, verbose=False, seed=1,
    )
"""


def test_the_advice_against_messages_silences_them(tmp_path):
    """Of docs/install.md: with sgmcmc imported first only some lines remain, all of TensorFlow's import."""

    def lines_of(text, **environment):
        program = tmp_path / "program.py"
        program.write_text(text, encoding="utf-8")
        run = {"cwd": ROOT, "capture_output": True, "text": True, "env": PLAIN | environment}
        return subprocess.run([sys.executable, program], check=True, **run).stderr.splitlines()

    quiet, loud = lines_of("import sgmcmc" + LOUD), lines_of("import tensorflow" + LOUD)
    assert len(quiet) == len(lines_of("import tensorflow", TF_CPP_MIN_LOG_LEVEL="3")) < len(loud)
    assert "Compiled cluster using XLA" in "".join(loud)
    assert "retracing" not in "".join(loud)


class Links(html.parser.HTMLParser):
    """The places in a page that can be linked to, and its links and pictures."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.anchors, self.links = set(), []
        self.feed(read(page))

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.anchors |= {attrs["id"]} if attrs.get("id") else set()
        self.links += [attrs[key] for key in ("href", "src") if attrs.get(key)]


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::PendingDeprecationWarning")  # of its extensions
def test_the_site_is_built_without_a_warning_and_its_links_lead_somewhere(tmp_path, monkeypatch, capfd):
    for folder in FOLDERS:
        ignore = shutil.ignore_patterns("__pycache__", "_build", "generated", "gallery")
        shutil.copytree(ROOT / folder, tmp_path / folder, symlinks=folder == "sgmcmc", ignore=ignore)
    for name in ("CHANGELOG.md", "CODE_OF_CONDUCT.md", "CONTRIBUTING.md", "LICENSE", "SECURITY.md"):
        shutil.copy(ROOT / name, tmp_path)
    monkeypatch.chdir(tmp_path)
    assert sphinx.cmd.build.main(["-W", "--keep-going", "-q", "docs", "html"]) == 0, capfd.readouterr().err[-3000:]

    pages = {page: Links(page) for page in (tmp_path / "html").rglob("*.html")}
    assert len(pages) > len(sgmcmc.__all__) + len(VIGNETTES)
    broken = []
    for page, found in pages.items():
        for link in found.links:
            url = urlparse(link)
            if url.scheme or url.netloc or link == "#":
                continue
            target = (page.parent / unquote(url.path)).resolve() if url.path else page
            anchored = not url.fragment or target.suffix != ".html" or unquote(url.fragment) in pages[target].anchors
            if not target.exists() or not anchored:
                broken.append(f"{page.relative_to(tmp_path)}: {link}")
    assert broken == []
