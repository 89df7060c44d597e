"""Warnings about draws as the chain moved them: on the scale of the real numbers behind the transforms."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from sgmcmc.core.chains import mapped
from sgmcmc.core.transforms import Transforms
from sgmcmc.core.warn import warn_user
from sgmcmc.output import tuning
from sgmcmc.output.draws import Draws
from sgmcmc.run.prepared import Prepared


def warn_of_positions(name: str, transforms: Transforms, prepared: Prepared, draws: Draws) -> None:
    """Warn if the chain is not as was expected."""
    moved = _positions(draws[-tuning.LONG :], transforms) if transforms else draws
    if rounded := [each for each in sorted(transforms.each) if not np.isfinite(moved[each]).all()]:
        warn_user(
            f"draws of {rounded} by {name} are rounded to the boundary of their support: use dtype='float64', in "
            "which they differ from it."
        )
        return
    tuning.warn_of_shape(moved)
    tuning.warn_of_autocorrelation(moved)
    if prepared.mode is not None:
        tuning.warn_of_places(moved, {each: x.numpy() for each, x in prepared.mode.params.items()})


def _positions(draws: Draws, transforms: Transforms) -> Draws:
    """The draws as the real numbers that the chain moved."""
    posterior = draws.groups["posterior"]
    moved = {}
    for name, transform in transforms.each.items():
        theta = np.asarray(posterior[name])
        u = mapped(transform.inverse, tf.constant(theta.reshape(-1, *theta.shape[2:]))).numpy()
        moved[name] = u.reshape(*theta.shape[:2], *u.shape[1:])
    return Draws(
        draws.groups | {"posterior": posterior | moved},
        nChains=draws.nChains,
        iterations=draws.iterations,
        settings=draws.settings,
    )
