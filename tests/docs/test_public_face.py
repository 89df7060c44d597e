"""The public face: what `import sgmcmc` offers, and that its signatures are R's."""

import importlib
import inspect
import pkgutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import sgmcmc
import sgmcmc.samplers

ROOT = Path(__file__).resolve().parents[2]
REQUIRED = inspect.Parameter.empty

MODEL = {"logLik": REQUIRED, "dataset": REQUIRED, "params": REQUIRED, "stepsize": REQUIRED}
MODE = {"optStepsize": REQUIRED}
COMMON = {"logPrior": None, "minibatchSize": 0.01}
TUNING = {"sgld": {}, "sghmc": {"alpha": 0.01, "L": 5}, "sgnht": {"a": 0.01}}

SIGNATURES = {
    "initSess": {"sgmcmc": REQUIRED, "verbose": True},
    "sgmcmcStep": {"sgmcmc": REQUIRED, "sess": REQUIRED, "nSteps": 1},
    "getParams": {"sgmcmc": REQUIRED, "sess": REQUIRED},
    "getDataset": {"dataset": REQUIRED},
}
for _name, _own in TUNING.items():
    SIGNATURES |= {
        _name: MODEL | COMMON | _own | {"nIters": 10**4, "verbose": True, "seed": None},
        f"{_name}Setup": MODEL | COMMON | _own | {"seed": None},
        f"{_name}cv": MODEL
        | MODE
        | COMMON
        | _own
        | {"nIters": 10**4, "nItersOpt": 10**4, "verbose": True, "seed": None},
        f"{_name}cvSetup": MODEL | MODE | COMMON | _own | {"nItersOpt": 10**4, "verbose": True, "seed": None},
    }


@pytest.mark.parametrize("name", SIGNATURES)
def test_positional_arguments_are_those_of_r(name):
    parameters = inspect.signature(getattr(sgmcmc, name)).parameters.values()
    positional = [(p.name, p.default) for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    assert positional == list(SIGNATURES[name].items())


@pytest.mark.parametrize("name", SIGNATURES)
def test_all_other_arguments_are_keyword_only_and_optional(name):
    for p in inspect.signature(getattr(sgmcmc, name)).parameters.values():
        if p.name not in SIGNATURES[name]:
            assert p.kind is p.KEYWORD_ONLY
            assert p.default is not REQUIRED


def test_every_function_of_r_is_public():
    assert set(SIGNATURES) <= set(sgmcmc.__all__)


def test_all_is_sorted_by_code_point():
    assert sgmcmc.__all__ == sorted(set(sgmcmc.__all__))


def test_all_is_complete():
    imported = {name for name, x in vars(sgmcmc).items() if not name.startswith("_") and not inspect.ismodule(x)}
    assert imported == set(sgmcmc.__all__)


def test_every_function_of_samplers_is_public():
    rooms = [room.name for room in pkgutil.iter_modules(sgmcmc.samplers.__path__) if not room.name.startswith("_")]
    defined = set()
    for room in rooms:
        module = importlib.import_module(f"sgmcmc.samplers.{room}")
        functions = inspect.getmembers(module, inspect.isfunction)
        defined |= {name for name, f in functions if f.__module__ == module.__name__ and not name.startswith("_")}
    assert defined <= set(sgmcmc.__all__)


def test_version_is_that_of_the_project():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert sgmcmc.__version__ == project["version"]


def test_import_needs_tensorflow_only():
    # Keras, which TensorFlow imports, takes pandas and others where it finds them; so they are hidden here.
    hidden = ["tensorflow_probability", "pooch", "tf_keras", "pandas", "sklearn", "scipy", "matplotlib"]
    code = f"import sys; sys.modules.update(dict.fromkeys({hidden})); import sgmcmc"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
