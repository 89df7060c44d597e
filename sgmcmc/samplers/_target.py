"""The argument `target`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sgmcmc.core.coordinates import DENSE

if TYPE_CHECKING:
    from sgmcmc.samplers._choices import Choices

POSTERIOR, SANDWICH = "posterior", "sandwich"


def checked_target(choices: Choices, preconditioner: Any) -> str:
    """The target, if the other arguments allow it.

    Raises
    ------
    ValueError
        Naming the argument, and what would work.
    """
    target = choices.target
    if not isinstance(target, str) or target not in (POSTERIOR, SANDWICH):
        raise choices.refuse("target", f"be {POSTERIOR!r} or {SANDWICH!r}", repr(target))
    if target == POSTERIOR:
        return target
    if not choices.automatic:
        raise choices.refuse("stepsize", f"be 'auto' for target={target!r}", choices.stepsize)
    if not isinstance(preconditioner, str) or preconditioner != DENSE:
        raise choices.refuse("preconditioner", f"be {DENSE!r} for target={target!r}", repr(choices.preconditioner))
    if choices.temperature != 1:
        raise choices.refuse("temperature", f"be 1 for target={target!r}", choices.temperature)
    if choices.data.shards is not None:
        raise choices.refuse("dataset", f"have no shards for target={target!r}", "shards")
    return target
