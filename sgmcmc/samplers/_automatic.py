"""What `stepsize="auto"` requires of the other arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sgmcmc.core.coordinates import LOW_RANK
from sgmcmc.core.types import Dynamics
from sgmcmc.laplace.whitening import MOST_DENSE
from sgmcmc.model import Model
from sgmcmc.samplers._choices import Choices
from sgmcmc.samplers.subsampling import adaptive

MOST_WIDE = 100_000  # elements of the parameters; of more, the directions of the curvature take too much memory


def require_automatic(
    choices: Choices, model: Model, dynamics: Mapping[str, Dynamics], settings: Mapping[str, Any]
) -> None:
    """Refuse arguments with which no stepsize can be found.

    Raises
    ------
    ValueError
        Naming the argument, and what would work.
    """
    of, size = choices.sampler, sum(theta.size for theta in choices.start.values())
    if size > MOST_WIDE:
        raise choices.refuse(
            "stepsize",
            f"be a number if params have more than {MOST_WIDE} elements; tune can find one",
            f"'auto' for {size}",
        )
    if size > MOST_DENSE and not choices.curvature.is_wide:
        must = f"be {LOW_RANK!r} with the stepsize 'auto' for more than {MOST_DENSE} elements of params"
        raise choices.refuse("preconditioner", must, repr(choices.preconditioner))
    if any(one.stationary is None for one in dynamics.values()):
        raise choices.refuse(
            "stepsize",
            "be a number for Dynamics without `stationary`, from which 'auto' computes the variance of the chain",
            "'auto'",
        )
    if of == "sample" and len({id(one) for one in dynamics.values()}) > 1:
        raise choices.refuse("stepsize", "be given if parameters have different dynamics", "'auto'")
    for name, value in settings.items():
        if isinstance(value, Mapping) and len(set(value.values())) > 1:
            raise choices.refuse(name, "be one number if the stepsize is 'auto'", value)
    estimated = {one.covariance for one in dynamics.values()} - {None}
    if estimated and size > 1 and (estimated != {"full"} or len(choices.start) > 1):
        raise choices.refuse(
            "stepsize",
            "be a number unless params are one array and covariance='full': otherwise part of the covariance of the "
            "gradient's noise is not estimated, which heats some directions and cools others",
            "'auto'",
        )
    if isinstance(choices.minibatchSize, adaptive):
        raise choices.refuse("stepsize", "be a number for minibatches of an adaptive size", "'auto'")
    if model.by_rows:
        raise ValueError(
            f"stepsize of {of} must be a number if a minibatch moves only some rows of params, here of "
            f"{sorted(model.by_rows)}; got 'auto'. With preconditioner='diagonal' all rows move, and 'auto' is "
            "possible."
        )
