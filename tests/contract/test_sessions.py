"""Sessions that are saved in one process and go on in another, step for step the same.

It uses the inside of the package: it makes the search for the mode fail.
"""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import sgmcmc
from sgmcmc.run import mode
from sgmcmc.run import product as sampler_module
from tests.catalogue import EVERY

ROOT = Path(__file__).parents[2]

Tree = dict[str, Any]


def log_lik(params: Tree, dataset: Tree) -> tf.Tensor:
    return -0.5 * tf.reduce_sum((dataset["x"] - params["theta"]) ** 2 + 0.05 * params["phi"] ** 2)


X = np.random.default_rng(0).normal(1.0, 1.0, size=(100, 2))
MODEL = {"logLik": log_lik, "dataset": {"x": X}, "params": {"theta": [0.0, 0.0], "phi": 1.0}, "minibatchSize": 10}
COUNTED = {
    "suffStats": lambda params, dataset: {"theta": tf.reduce_sum(dataset["x"], axis=0)},
    "dataset": {"x": np.abs(X)}, "params": {"theta": [0.3, 0.7]}, "minibatchSize": 10,
}  # fmt: skip
ENTRIES = {entry.name: entry for entry in EVERY}
SAVED: dict[str, Tree] = {
    "sgld": {}, "sghmccv": {"nChains": 2, "starts": 0.1}, "sgnht": {"dtype": "float64"}, "scir": {"nChains": 2},
}  # fmt: skip


def set_up(name: str, **changes: Any) -> Any:
    entry = ENTRIES[name]
    quiet = {"verbose": False} if "optStepsize" in entry.settings else {}
    given = {"stepsize": entry.stepsize, "seed": 4} | quiet | entry.settings | SAVED.get(name, {})
    return entry.setup(**(COUNTED if "simplex" in entry.problems else MODEL) | given | changes)


def restore_and_step(folder: str) -> None:
    """What the other process does; a mode that is sought again is an error."""

    def computed_again(*args: Any) -> None:
        raise AssertionError("computed again")

    tf.config.threading.set_intra_op_parallelism_threads(1)
    sampler_module.find_mode = mode.full_gradient = computed_again
    for name in SAVED:
        sampler = set_up(name, seed=None)
        sess = sgmcmc.restoreSess(sampler, Path(folder) / f"{name}.sess")
        contents = {f"at_{key}": theta for key, theta in sgmcmc.getParams(sampler, sess).items()}
        sgmcmc.sgmcmcStep(sampler, sess)
        sgmcmc.sgmcmcStep(sampler, sess, nSteps=6)
        contents |= {f"after_{key}": theta for key, theta in sgmcmc.getParams(sampler, sess).items()}
        for attribute in ("paramsOpt", "logPostOptGrad"):
            if hasattr(sampler, attribute):
                contents |= {f"{attribute}_{k}": theta.numpy() for k, theta in getattr(sampler, attribute).items()}
        np.savez(Path(folder) / f"{name}.npz", **contents, seed=sampler.seed)


def test_another_process_goes_on_with_the_same_steps(tmp_path: Path) -> None:
    here = {}
    for name in SAVED:
        sampler = set_up(name)
        sess = sgmcmc.initSess(sampler, verbose=False)
        sgmcmc.sgmcmcStep(sampler, sess, nSteps=5)
        sgmcmc.saveSess(sampler, sess, str(tmp_path / f"{name}.sess"))
        contents = {f"at_{key}": theta for key, theta in sgmcmc.getParams(sampler, sess).items()}
        sgmcmc.sgmcmcStep(sampler, sess, nSteps=7)
        contents |= {f"after_{key}": theta for key, theta in sgmcmc.getParams(sampler, sess).items()}
        for attribute in ("paramsOpt", "logPostOptGrad"):
            if hasattr(sampler, attribute):
                contents |= {f"{attribute}_{k}": theta.numpy() for k, theta in getattr(sampler, attribute).items()}
        here[name] = contents | {"seed": 4}
    assert {path.name for path in tmp_path.iterdir()} == {f"{name}.sess" for name in SAVED}
    code = f"from tests.contract.test_sessions import restore_and_step; restore_and_step({str(tmp_path)!r})"
    environment = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for name, contents in here.items():
        with np.load(tmp_path / f"{name}.npz") as there:
            assert set(there) == set(contents)
            for key, theta in contents.items():
                np.testing.assert_array_equal(there[key], theta, err_msg=f"{name}: {key}")
            assert (there["at_theta"] != there["after_theta"]).all()
    assert "paramsOpt_theta" in here["sghmccv"] and here["sghmccv"]["at_theta"].shape == (2, 2)


# --- in one process -----------------------------------------------------------------------------------------------


def params_of(sampler: Any) -> Tree:
    return {name: theta.copy() for name, theta in sgmcmc.getParams(sampler, sampler.session).items()}


def assert_same(params: Tree, others: Tree) -> None:
    assert params.keys() == others.keys()
    for name, theta in params.items():
        np.testing.assert_array_equal(theta, others[name])


@cache
def stepped() -> Any:
    """A sampler whose compiled loop the tests share; each begins or restores a session of its own."""
    return set_up("sgldcv", seed=None)


def test_saving_is_no_step_and_restoring_goes_back(tmp_path: Path) -> None:
    sampler, path = stepped(), tmp_path / "chain.sess"
    sess = sgmcmc.initSess(sampler)
    begin = params_of(sampler)
    sgmcmc.sgmcmcStep(sampler, sess, nSteps=10)
    straight = params_of(sampler)

    sess = sgmcmc.initSess(sampler)
    sgmcmc.sgmcmcStep(sampler, sess, nSteps=3)
    for _ in range(2):  # the second replaces the first
        sgmcmc.sgmcmcStep(sampler, sess)
        sgmcmc.saveSess(sampler, sess, path)
    at_five = params_of(sampler)
    for _ in range(2):
        sgmcmc.sgmcmcStep(sampler, sampler.session, nSteps=5)
        assert_same(params_of(sampler), straight)
        again = sgmcmc.restoreSess(sampler, path)
        assert again is sampler.session and again.iteration == 5
        assert_same(params_of(sampler), at_five)
    with pytest.raises(ValueError, match="sess of sgmcmcStep must be the latest result of initSess or restoreSess"):
        sgmcmc.sgmcmcStep(sampler, sess)
    with pytest.raises(ValueError, match="sess of saveSess must be the latest result of initSess or restoreSess"):
        sgmcmc.saveSess(sampler, sess, path)

    sess = sgmcmc.initSess(sampler)  # begins anew, not where the restored session stood
    assert_same(params_of(sampler), begin)
    sgmcmc.sgmcmcStep(sampler, sess, nSteps=10)
    assert_same(params_of(sampler), straight)


def test_a_chain_begun_after_restoring_begins_at_the_beginning(tmp_path: Path) -> None:
    """With a sampler of which `restoreSess` made the first session."""
    first, path = stepped(), tmp_path / "chain.sess"
    sgmcmc.initSess(first)
    begin = params_of(first)
    sgmcmc.sgmcmcStep(first, first.session, nSteps=4)
    sgmcmc.saveSess(first, first.session, path)
    second = set_up("sgldcv", seed=None)
    sgmcmc.restoreSess(second, path)
    for name in MODEL["params"]:
        np.testing.assert_array_equal(second.paramsOpt[name], first.paramsOpt[name])
    assert second.seed == first.seed
    sgmcmc.initSess(second)
    assert_same(params_of(second), begin)


def test_the_position_saved_is_that_of_params(tmp_path: Path) -> None:
    sampler, path = stepped(), tmp_path / "chain.sess"
    sess = sgmcmc.initSess(sampler)
    sgmcmc.sgmcmcStep(sampler, sess, nSteps=2)
    sampler.params["theta"].assign([3.0, -3.0])
    sgmcmc.saveSess(sampler, sess, path)
    sgmcmc.sgmcmcStep(sampler, sess)
    moved = params_of(sampler)
    sgmcmc.restoreSess(sampler, path)
    np.testing.assert_array_equal(params_of(sampler)["theta"], [3.0, -3.0])
    sgmcmc.sgmcmcStep(sampler, sampler.session)
    assert_same(params_of(sampler), moved)


@pytest.mark.parametrize(
    ("setting", "before", "name", "changes", "now"),
    [
        ("sampler", "'sgldcv'", "sgld", {}, "'sgld'"),
        ("stepsize", "{'phi': 0.001, 'theta': 0.001}", "sgldcv", {"stepsize": 2e-3}, "{'theta': 0.002, 'phi': 0.002}"),
        ("seed", None, "sgldcv", {"seed": 5}, "5"),
        ("nChains", "None", "sgldcv", {"nChains": 2}, "2"),
        ("dtype", "'float32'", "sgldcv", {"dtype": "float64"}, "'float64'"),
        ("nItersOpt", "150", "sgldcv", {"nItersOpt": 151}, "151"),
        ("dataset", None, "sgldcv", {"dataset": {"x": -X}}, None),
        ("logPrior", None, "sgldcv", {"logPrior": lambda params: -(params["phi"] ** 2)}, None),
    ],
)
def test_another_sampler_is_refused_by_name(
    setting: str, before: str | None, name: str, changes: Tree, now: str | None, tmp_path: Path
) -> None:
    sampler, path = stepped(), tmp_path / "chain.sess"
    sgmcmc.saveSess(sampler, sgmcmc.initSess(sampler), path)
    other = set_up(name, **{"seed": None} | changes)
    seed = other.seed
    with pytest.raises(ValueError) as refused:
        sgmcmc.restoreSess(other, path)
    message, start = str(refused.value), f"{setting} of {name} must be what it was when {str(path)!r} was saved, "
    assert message.startswith(start) and message.endswith(".")
    was, got = message[len(start) : -1].split("; got ")
    assert was != got
    if before:
        assert eval(was) == eval(before)
    if now:
        assert eval(got) == eval(now)
    assert other.seed == seed and other.session is None  # as it was


def test_a_refused_session_leaves_the_sampler_as_it_was(tmp_path: Path) -> None:
    sampler, path = stepped(), tmp_path / "chain.sess"
    sgmcmc.saveSess(sampler, sgmcmc.initSess(sampler), path)
    other = set_up("sgld", seed=None)
    sess = sgmcmc.initSess(other)
    with pytest.raises(ValueError, match="sampler of sgld must be what it was"):
        sgmcmc.restoreSess(other, path)
    sgmcmc.sgmcmcStep(other, sess)
    sgmcmc.saveSess(other, sess, path)
    position = params_of(other)
    assert_same(sgmcmc.getParams(other, sgmcmc.restoreSess(other, path)), position)


def test_bad_paths_are_named(tmp_path: Path) -> None:
    sampler = stepped()
    sess = sgmcmc.initSess(sampler)
    with pytest.raises(ValueError, match="path of saveSess must be a file name; got ''"):
        sgmcmc.saveSess(sampler, sess, "")
    with pytest.raises(ValueError, match=r"path of saveSess must be the name of a file; got .*, which is a folder"):
        sgmcmc.saveSess(sampler, sess, tmp_path)
    with pytest.raises(ValueError, match="path of saveSess must be a file name; got 5"):
        sgmcmc.saveSess(sampler, sess, 5)
    with pytest.raises(ValueError, match="path of saveSess must be in a folder that exists; got "):
        sgmcmc.saveSess(sampler, sess, tmp_path / "none" / "chain.sess")
    with pytest.raises(ValueError, match="path of restoreSess must be a file name; got None"):
        sgmcmc.restoreSess(sampler, None)
    with pytest.raises(
        ValueError, match=r"path of restoreSess must be a file that saveSess wrote; got .*, where there is no file"
    ):
        sgmcmc.restoreSess(sampler, tmp_path / "chain.sess")
    sgmcmc.saveSess(sampler, sess, tmp_path / "chain.sess")
    np.savez(tmp_path / "arrays.npz", theta=np.zeros(3))
    whole = (tmp_path / "chain.sess").read_bytes()
    for content in (b"", b"garbage", whole[: len(whole) // 2], (tmp_path / "arrays.npz").read_bytes()):
        (tmp_path / "other.sess").write_bytes(content)
        with pytest.raises(
            ValueError, match=r"path of restoreSess must be a file that saveSess wrote; got '.*other\.sess'"
        ):
            sgmcmc.restoreSess(sampler, tmp_path / "other.sess")
    with pytest.raises(ValueError, match="sgmcmc of saveSess must be the result of a Setup function"):
        sgmcmc.saveSess(None, sess, tmp_path / "chain.sess")
    with pytest.raises(ValueError, match="sgmcmc of restoreSess must be the result of a Setup function"):
        sgmcmc.restoreSess(sess, tmp_path / "chain.sess")
