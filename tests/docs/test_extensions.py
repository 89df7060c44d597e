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
