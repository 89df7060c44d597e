"""fromTfp: the arguments of a sampler from a whole model in TensorFlow Probability."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from types import GeneratorType
from typing import Any

import numpy as np
import tensorflow as tf

from sgmcmc.arguments import require_float_type
from sgmcmc.arguments.data import checked_dataset
from sgmcmc.arguments.transforms import SAME, Joint, is_joint, tfp
from sgmcmc.arguments.trial import remedy
from sgmcmc.core.errors import attempted, refused
from sgmcmc.core.trees import Tree
from sgmcmc.dataset import spaced_rows

NAME = "fromTfp"
MUST = f"model of {NAME} must be a function of a minibatch that returns a joint distribution, or yields its parts"
FEW, MORE = 2, 3  # observations in two minibatches, to find parts that depend on them


def fromTfp(
    model: Callable[[Tree], Any],
    dataset: Mapping[str, Any],
    observed: Sequence[str],
    *,
    transforms: Mapping[str, Any] | None = None,
    integers: Sequence[str] = (),
    dtype: str = "float32",
) -> dict[str, Any]:
    """The arguments of a sampler from a whole model in TensorFlow Probability.

    The log likelihood is the log density of the observed parts, and is scaled by N/n;
    the log prior density is that of all other parts, and is not.

    Parameters
    ----------
    model : callable
        ``model(dataset)``, a function of a minibatch as in `logLik` that yields the
        parts, each with a name, or returns a joint distribution.
    dataset : dict of str to array_like, a table, or an object
        As for the samplers: the observed parts by their names, and everything else that
        the model uses, such as covariates.
    observed : sequence of str
        The names of the observed parts, which have one element or row for each
        observation. They are independent given the parameters.
    transforms : dict, optional
        As for the samplers, in place of the default bijectors of these parts.
    integers : sequence of str, optional
        Entries of `dataset` that are integers, as for the samplers.
    dtype : {"float32", "float64"}, default "float32"
        As for the samplers.

    Returns
    -------
    dict
        `logLik`, `dataset`, `params`, `logPrior`, `transforms`, `integers` and `dtype`,
        for ``sgldcv(**fromTfp(...))``. `params` is the elementwise median of a few draws
        from the prior; `transforms` holds those given, and the default bijectors of all
        other parts.

    Raises
    ------
    ValueError
        If an argument is invalid, or if the model cannot be split because an unobserved
        part depends on the observations or has one element for each.

    Examples
    --------
    A regression with unknown scale:

    >>> import numpy as np
    >>> import tensorflow as tf
    >>> from tensorflow_probability import distributions as tfd
    >>> from sgmcmc import fromTfp, sgldcv
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(1000, 2))
    >>> dataset = {"X": X, "y": X @ [1.0, -1.0] + 0.5 * rng.normal(size=1000)}
    >>> def model(dataset):
    ...     beta = yield tfd.Normal(tf.zeros(2), 10.0, name="beta")
    ...     sd = yield tfd.HalfNormal(5.0, name="sd")
    ...     yield tfd.Normal(tf.linalg.matvec(dataset["X"], beta), sd, name="y")
    >>> arguments = fromTfp(model, dataset, observed=["y"])
    >>> out = sgldcv(**arguments, minibatchSize=100, nIters=2000, verbose=False, seed=1)
    >>> bool(abs(out["sd"].mean() - 0.5) < 0.05)
    True
    """
    float_type = require_float_type(NAME, dtype)
    data = checked_dataset(NAME, dataset, integers, np.dtype(float_type.as_numpy_dtype))
    if isinstance(observed, str) or not isinstance(observed, Collection) or not observed:
        raise refused(NAME, "observed", "be a list of at least one name", repr(observed))
    joints = [_joint(model, spaced_rows(data, n), lambda error: remedy(error, float_type, data)) for n in (FEW, MORE)]
    names, known = joints[0].names, set(data.layout.specs([1]))
    if unknown := sorted(set(observed) - (set(names) & known)):
        must = f"be names of parts of the model, {names}, that are entries of dataset, {sorted(known)}"
        raise refused(NAME, "observed", must, unknown)
    hidden = [name for name in names if name not in observed]
    if not hidden:
        raise refused(NAME, "observed", "leave at least one part of the model", f"all, {names}")
    rows = spaced_rows(data, FEW)
    _require_split(joints, hidden, observed)
    for name in observed:
        if (drawn := joints[0].example[name].shape) != (given := tuple(rows[name].shape)):
            must = f"have the shape that the model draws, {drawn} for {FEW} rows"
            raise refused(NAME, f"dataset[{name!r}]", must, given)

    def log_density(params: Tree, given: Tree, of: Collection[str]) -> tf.Tensor:
        return _joint(model, given).log_density(dict(params) | {name: given[name] for name in observed}, of)

    return {
        "logLik": lambda params, dataset: log_density(params, dataset, observed),
        "dataset": dataset,
        "params": joints[0].start(hidden),
        "logPrior": lambda params: log_density(params, rows, hidden),
        "transforms": joints[0].transforms(transforms, but=observed) or None,
        "integers": integers,
        "dtype": dtype,
    }


def _joint(model: Callable[[Tree], Any], rows: Tree, advice: Callable[[str], str] = lambda error: "") -> Joint:
    made = attempted(f"{MUST}, in TensorFlow operations", lambda: model(dict(rows)), advice)
    if isinstance(made, GeneratorType):
        made.close()
        made = tfp().distributions.JointDistributionCoroutineAutoBatched(lambda: model(dict(rows)))
    if not is_joint(made):
        raise ValueError(f"{MUST}; got {type(made).__name__}.")
    return Joint(f"model of {NAME}", made, advice)


def _require_split(joints: Sequence[Joint], hidden: Sequence[str], observed: Sequence[str]) -> None:
    """Refuse parts of the prior that depend on the minibatch."""
    few, more = (joint.example for joint in joints)
    for name in observed:
        if (few[name].shape[:1], more[name].shape[:1]) != ((FEW,), (MORE,)):
            got = f"{name!r} of shape {few[name].shape} for {FEW} observations"
            raise refused(NAME, "observed", "be parts with one element or row for each observation", got)
    for name in hidden:
        if few[name].shape != more[name].shape:
            shapes = f"{few[name].shape} for {FEW} observations, and {more[name].shape} for {MORE}"
            got = f"{name!r} of shape {shapes}. Integrate it out"
            raise refused(NAME, "model", "have the same parameters for all observations", got)
    params = {name: few[name] for name in hidden}
    each = [
        [float(joint.log_density(params | {o: draw[o] for o in observed}, [name])) for name in hidden]
        for joint, draw in zip(joints, (few, more), strict=True)
    ]
    for name, first, second in zip(hidden, *each, strict=True):
        if not np.isclose(first, second, rtol=SAME, atol=SAME):
            raise ValueError(
                f"model of {NAME} must have a prior that does not depend on the observations; got a part {name!r} that "
                "does, so its density cannot be separated from that of minibatches. Write logLik and logPrior by hand."
            )
