"""The extensions with which Sphinx builds the site."""

import importlib
import logging
import re
import sys
from pathlib import Path

import pytest
from docutils import nodes

ROOT = Path(__file__).resolve().parents[2]
STATIC = ROOT / "docs" / "_static"


@pytest.fixture
def mathml(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "_extensions"))
    monkeypatch.delitem(sys.modules, "mathml", raising=False)
    return importlib.import_module("mathml")


@pytest.mark.parametrize("latex", [r"\frac12 N", r"\tfrac12", r"\dfrac 1 2", r"\frac{a}2", r"\frac1{2}"])
def test_a_fraction_without_braces_is_a_warning(mathml, latex, monkeypatch):
    warned = []
    monkeypatch.setattr(mathml.logger, "warning", lambda text, *args, **kwargs: warned.append(text % args))
    mathml.mathml(nodes.math("", latex), as_block=False)
    assert "without braces" in warned[0]


@pytest.mark.parametrize("latex", [r"\frac{1}{2} N", r"\tfrac{\sqrt{2}}{n}", r"\frac {a_{i}} {b}"])
def test_a_fraction_with_braces_is_none(mathml, latex, caplog):
    with caplog.at_level(logging.WARNING):
        found = mathml.mathml(nodes.math("", latex), as_block=False)
    assert "<mfrac" in found and not caplog.records


def test_the_font_of_formulas_is_there_with_its_licence():
    css = (STATIC / "sgmcmc.css").read_text(encoding="utf-8")
    (font,) = re.findall(r'url\("([^"]+)"\)', css)
    assert (STATIC / font).read_bytes().startswith(b"wOF2")
    assert "SIL OPEN FONT LICENSE" in (STATIC / "fonts" / "OFL.txt").read_text(encoding="utf-8")


@pytest.fixture
def pictures(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "_extensions"))
    monkeypatch.delitem(sys.modules, "pictures", raising=False)
    return importlib.import_module("pictures")


PAGE = """Title
=====

.. GENERATED FROM PYTHON SOURCE LINES 1-2

.. code-block:: Python


    print("a")


.. GENERATED FROM PYTHON SOURCE LINES 3-4

Text

.. GENERATED FROM PYTHON SOURCE LINES 5-6

.. code-block:: Python


    draw()


.. _sphx_glr_download_gallery_x.py:
"""


def test_outputs_stand_below_their_cells(pictures):
    cells = [{"printed": "a\n", "figure": False}, {"printed": "", "figure": True}]
    page = pictures.with_outputs(PAGE, cells, "x")
    places = [page.index(part) for part in ('print("a")', "code-block:: none", "Text", "draw()", "figures/x.png")]
    assert places == sorted(places) and page.index("figures/x.png") < page.index("_sphx_glr_download_")
    assert "    a\n" in page and page.count("none") == 1


def test_outputs_of_another_number_of_cells_are_refused(pictures):
    with pytest.raises(ValueError, match="has 1 cells, and the page 2"):
        pictures.with_outputs(PAGE, [{"printed": "", "figure": False}], "x")


def test_the_gallery_has_every_vignette_in_its_order(pictures):
    assert sorted(pictures.ORDER) == sorted(path.stem for path in (ROOT / "vignettes").glob("*.py"))


def test_no_vignette_shows_the_reader_where_its_files_go(pictures):
    for vignette in (ROOT / "vignettes").glob("*.py"):
        shown = re.sub(
            r"# sphinx_gallery_start_ignore\n.*?# sphinx_gallery_end_ignore\n",
            "",
            vignette.read_text(encoding="utf-8"),
            flags=re.DOTALL,
        )
        assert not re.search(r"__file__|Agg|ROOT|FIGURES|environ\b", shown), vignette.name
        assert max(map(len, shown.splitlines())) <= 88, vignette.name
