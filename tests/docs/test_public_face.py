"""The public face: what `import sgmcmc` offers, and that its signatures are R's."""

import importlib
import inspect
import os
import pkgutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import sgmcmc
import sgmcmc.samplers
from sgmcmc.arguments.signatures import RUN_DEFAULTS, SETUP_DEFAULTS, CommonOptions, SimplexOptions
from sgmcmc.arguments.texts import TEXTS

ROOT = Path(__file__).resolve().parents[2]
REQUIRED = inspect.Parameter.empty

# R has no defaults for the stepsizes, and must be given numbers; here they can be found.
MODEL = {"logLik": REQUIRED, "dataset": REQUIRED, "params": REQUIRED, "stepsize": "auto"}
MODE = {"optStepsize": "auto"}
COMMON = {"logPrior": None, "minibatchSize": 0.01}
RUN = {"nIters": 10**4, "verbose": True, "seed": None}
TUNING = {"sgld": {}, "sghmc": {"alpha": 0.01, "L": 5}, "sgnht": {"a": 0.01}}

SIGNATURES = {
    "initSess": {"sgmcmc": REQUIRED, "verbose": True},
    "sgmcmcStep": {"sgmcmc": REQUIRED, "sess": REQUIRED, "nSteps": 1},
    "getParams": {"sgmcmc": REQUIRED, "sess": REQUIRED},
    "getDataset": {"dataset": REQUIRED},
}
for _name, _own in TUNING.items():
    SIGNATURES |= {
        _name: MODEL | COMMON | _own | RUN,
        f"{_name}Setup": MODEL | COMMON | _own | {"seed": None},
        f"{_name}cv": MODEL
        | MODE
        | COMMON
        | _own
        | {"nIters": 10**4, "nItersOpt": 10**4, "verbose": True, "seed": None},
        f"{_name}cvSetup": MODEL | MODE | COMMON | _own | {"nItersOpt": 10**4, "verbose": True, "seed": None},
    }

# R has no others; their arguments are those of `sgld` and their own, so that one is changed into the other by its name.
POSITIONAL = SIGNATURES | {"sample": SIGNATURES["sgld"], "sampleSetup": SIGNATURES["sgldSetup"]}
FURTHER = {
    "ccadl": {"a": 0.01},
    "baoab": {"alpha": 0.1},
    "ubu": {"alpha": 0.1},
    "badodab": {"a": 0.1},
    "psgld": {"beta": 0.99, "delta": 1e-5},
    "samadams": {"alpha": 0.1},
    "barker": {},
    "sgzigzag": {},
}
for _name, _own in FURTHER.items():
    _model = MODEL | ({"stepsize": REQUIRED} if _name in ("psgld", "ccadl", "samadams") else {})
    POSITIONAL |= {_name: _model | COMMON | _own | RUN, f"{_name}Setup": _model | COMMON | _own | {"seed": None}}
SAMPLERS = [name for name in POSITIONAL if "logLik" in POSITIONAL[name]]

# Those on the simplex go by counts in place of a log likelihood.
SIMPLEX = ["scir", "scirSetup", "sgrld", "sgrldSetup"]
_counts = dict.fromkeys(["suffStats", "dataset", "params", "stepsize", "alpha"], REQUIRED) | {"minibatchSize": 0.01}
POSITIONAL |= {name: _counts | ({"seed": None} if name.endswith("Setup") else RUN) for name in SIMPLEX}


def parameters_of(name):
    return inspect.signature(getattr(sgmcmc, name)).parameters


@pytest.mark.parametrize("name", POSITIONAL)
def test_positional_arguments_are_those_of_r(name):
    positional = [(p.name, p.default) for p in parameters_of(name).values() if p.kind is p.POSITIONAL_OR_KEYWORD]
    assert positional == list(POSITIONAL[name].items())


@pytest.mark.parametrize("name", POSITIONAL)
def test_all_other_arguments_are_keyword_only_and_optional(name):
    others = [p for p in parameters_of(name).values() if p.name not in POSITIONAL[name]]
    assert all(p.kind is p.KEYWORD_ONLY for p in others)
    assert [p.name for p in others if p.default is REQUIRED] == []


@pytest.mark.parametrize("name", SAMPLERS)
def test_signatures_spell_out_the_options(name):
    options = SETUP_DEFAULTS if name.endswith("Setup") else SETUP_DEFAULTS | RUN_DEFAULTS
    keywords = {p.name: p.default for p in parameters_of(name).values() if p.kind is p.KEYWORD_ONLY}
    assert {option: keywords[option] for option in options} == options
    assert list(keywords)[:3] == ["nChains", "transforms", "integers"]


def test_help_is_as_a_person_would_write_it():
    text = str(inspect.signature(sgmcmc.sgld))
    assert text.startswith(
        "(logLik: LogLik, dataset: Mapping[str, Any], params: Mapping[str, Any], stepsize: Stepsize = "
    )
    assert text.endswith(") -> Draws")


def test_dir_has_public_names_alone():
    assert set(dir(sgmcmc)) == {*sgmcmc.__all__, "__version__", "diagnostics", "models"}


def test_the_log_of_tensorflow_is_quiet_unless_asked_for():
    environment = {name: value for name, value in os.environ.items() if name != "TF_CPP_MIN_LOG_LEVEL"}

    def ran(program, **more):
        run = {"env": environment | more, "capture_output": True, "text": True, "check": True}
        return subprocess.run([sys.executable, "-c", program], **run)

    quiet = ran("import os, sgmcmc; print(os.environ['TF_CPP_MIN_LOG_LEVEL'])")
    assert quiet.stdout.split() == ["3"]
    # No variable silences the lines that remain. How many there are depends on the processor.
    remaining = ran("import tensorflow", TF_CPP_MIN_LOG_LEVEL="3").stderr.splitlines()
    assert len(quiet.stderr.splitlines()) == len(remaining)


@pytest.mark.parametrize("name", SIMPLEX)
def test_signatures_on_the_simplex_spell_out_their_options(name):
    options = (CommonOptions if name.endswith("Setup") else SimplexOptions).__annotations__
    defaults = {option: default for option, default in (SETUP_DEFAULTS | RUN_DEFAULTS).items() if option in options}
    last = [p for p in parameters_of(name).values() if p.name not in POSITIONAL[name]]
    assert {p.name: p.default for p in last} == {"normalise": True, "logScale": False} | defaults


@pytest.mark.parametrize("name", SAMPLERS)
def test_control_variates_are_an_argument_or_in_the_name(name):
    own = {"optStepsize", "optimizer"} if "cv" in name else {"gradient"}
    assert own == {"optStepsize", "optimizer", "gradient"} & set(parameters_of(name))


@pytest.mark.parametrize("name", SAMPLERS + SIMPLEX)
def test_an_unknown_argument_is_named_with_its_function(name):
    with pytest.raises(TypeError, match=rf"^{name}\(\) got an unexpected keyword argument 'minibatchsize'"):
        getattr(sgmcmc, name)(**dict.fromkeys(POSITIONAL[name]), minibatchsize=5)


def test_every_text_of_an_argument_is_used():
    functions = [*SAMPLERS, *SIMPLEX, "train"]
    named = {f"{name.removesuffix('Setup')}.{argument}" for name in functions for argument in parameters_of(name)}
    used = {key if key in TEXTS else key.partition(".")[2] for key in named}
    assert set(TEXTS) == used


def test_every_function_of_r_is_public():
    assert set(SIGNATURES) <= set(sgmcmc.__all__)


@pytest.mark.parametrize("module", [sgmcmc, sgmcmc.diagnostics, sgmcmc.models])
def test_all_is_sorted_by_code_point(module):
    assert module.__all__ == sorted(set(module.__all__))


@pytest.mark.parametrize("module", [sgmcmc, sgmcmc.diagnostics, sgmcmc.models])
def test_all_is_complete(module):
    imported = {name for name, x in vars(module).items() if not name.startswith("_") and not inspect.ismodule(x)}
    assert imported == set(module.__all__)


@pytest.mark.parametrize(("package", "public"), [(sgmcmc.samplers, sgmcmc), (sgmcmc.diagnostics, sgmcmc.diagnostics)])
def test_every_function_is_public(package, public):
    rooms = [room.name for room in pkgutil.iter_modules(package.__path__) if not room.name.startswith("_")]
    defined = set()
    for room in rooms:
        module = importlib.import_module(f"{package.__name__}.{room}")
        functions = inspect.getmembers(module, inspect.isfunction)
        defined |= {name for name, f in functions if f.__module__ == module.__name__ and not name.startswith("_")}
    assert defined and defined <= set(public.__all__)


def test_diagnostics_have_a_name_of_their_own():
    assert not set(sgmcmc.diagnostics.__all__) & set(sgmcmc.__all__)


def test_version_is_that_of_the_project():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert sgmcmc.__version__ == project["version"]


def test_import_needs_tensorflow_only_and_brings_the_diagnostics():
    # Keras, which TensorFlow imports, takes pandas and others where it finds them; so they are hidden here.
    hidden = [
        "tensorflow_probability",
        "xarray",
        "zarr",
        "pooch",
        "tf_keras",
        "pandas",
        "sklearn",
        "scipy",
        "matplotlib",
    ]
    code = f"import sys; sys.modules.update(dict.fromkeys({hidden})); import sgmcmc"
    code += "; print(sgmcmc.diagnostics.ksd.__module__)"
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "sgmcmc.diagnostics.stein"
