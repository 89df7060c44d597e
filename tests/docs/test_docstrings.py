"""Docstrings: their examples run, and their arguments are those of the signature."""

import doctest
import inspect
import re

import pytest

import sgmcmc

PUBLIC = [getattr(module, name) for module in (sgmcmc, sgmcmc.diagnostics, sgmcmc.models) for name in module.__all__]
DOCUMENTED = [thing for thing in PUBLIC if not (inspect.isclass(thing) and issubclass(thing, Exception))]


def sections(thing) -> dict[str, str]:
    """The sections of a numpydoc docstring, by their titles."""
    parts = re.split(r"^([A-Z][A-Za-z ]+)\n-{3,}\n", inspect.getdoc(thing), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def examples(thing) -> list[doctest.Example]:
    return doctest.DocTestParser().get_examples(thing.__doc__)


def name(thing) -> str:
    return thing.__name__


@pytest.mark.parametrize("thing", PUBLIC, ids=name)
def test_begins_with_one_sentence(thing):
    summary, *rest = inspect.getdoc(thing).split("\n")
    assert summary.endswith(".")
    assert not rest or rest[0] == ""


@pytest.mark.parametrize("thing", [thing for thing in PUBLIC if inspect.isclass(thing)], ids=name)
def test_methods_and_properties_have_one(thing):
    own = {key: x for key, x in vars(thing).items() if not key.startswith("_")}
    described = {key: x for key, x in own.items() if isinstance(x, property) or inspect.isroutine(x)}
    assert [key for key, x in described.items() if not inspect.getdoc(x)] == []


@pytest.mark.parametrize("thing", PUBLIC, ids=name)
def test_no_place_for_a_text_is_left_empty(thing):
    assert re.findall(r"^ *\{[a-z -]+\}$", thing.__doc__, re.MULTILINE) == []


@pytest.mark.parametrize("thing", DOCUMENTED, ids=name)
def test_parameters_are_those_of_the_signature(thing):
    entries = re.findall(r"^(\w+(?:, \w+)*)(?: : (.+))?$", sections(thing).get("Parameters", ""), re.MULTILINE)
    documented = [argument for names, _ in entries for argument in names.split(", ")]
    assert documented == list(inspect.signature(thing).parameters)
    assert all(kind for _, kind in entries)


@pytest.mark.parametrize("thing", DOCUMENTED, ids=name)
def test_stated_defaults_are_those_of_the_signature(thing):
    parameters = inspect.signature(thing).parameters
    entries = re.findall(r"^(\w+) : (.+)$", sections(thing).get("Parameters", ""), re.MULTILINE)
    stated = {argument: re.search(r"default (\(.*\)|\S+)$", kind) for argument, kind in entries}
    for argument, match in stated.items():
        if match:
            assert eval(match[1]) == parameters[argument].default, argument
        elif not callable(parameters[argument].default):  # what a function does by default is said in words
            assert parameters[argument].default in (inspect.Parameter.empty, None, ()), argument


@pytest.mark.parametrize("thing", DOCUMENTED, ids=name)
def test_has_an_example_or_points_to_one(thing):
    if not examples(thing):
        pointed = re.search(r"See `(\w+)`", sections(thing)["Examples"])[1]
        assert examples(next(other for other in PUBLIC if name(other) == pointed))


@pytest.mark.parametrize("thing", [thing for thing in DOCUMENTED if examples(thing)], ids=name)
def test_examples_run(thing, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # some write files
    test = doctest.DocTestParser().get_doctest(thing.__doc__, {}, thing.__name__, None, None)
    output = []
    failed, _ = doctest.DocTestRunner(verbose=False).run(test, out=output.append)
    assert failed == 0, "".join(output)
