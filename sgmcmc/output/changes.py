"""What changes from one run to another, in Monte Carlo standard errors."""

from __future__ import annotations

from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from sgmcmc.output._table import table

if TYPE_CHECKING:
    import pandas as pd

    from sgmcmc.output.draws import Draws

FALSE_ALARMS = 0.01
MOMENTS = ("mean", "sd")


def changes(at_stepsize: Draws, at_half: Draws) -> pd.DataFrame:
    """The table described in `checkStepsize`."""
    import pandas as pd

    one, half = (table(draws, None, diagnosed=True) for draws in (at_stepsize, at_half))
    columns = {moment: one[moment] for moment in MOMENTS} | {f"{moment}_half": half[moment] for moment in MOMENTS}
    for moment in MOMENTS:
        error = np.hypot(one[f"mcse_{moment}"], half[f"mcse_{moment}"])
        columns[f"{moment}_change"] = (half[moment] - one[moment]) / error
    result = pd.DataFrame(columns)[["mean", "mean_half", "mean_change", "sd", "sd_half", "sd_change"]]
    found = result[[f"{moment}_change" for moment in MOMENTS]].abs().fillna(0.0)  # 0 for what does not move
    label, column = found.stack().idxmax()
    size, moment = float(found.loc[label, column]), column.removesuffix("_change")
    bound = NormalDist().inv_cdf(1 - FALSE_ALARMS / 2 / found.size)  # Bonferroni's
    result.attrs = {
        "changed": size > bound,
        "worst": f"At half the stepsize, the {moment} of {label} changes most: from {result.loc[label, moment]:.4g} to "
        f"{result.loc[label, f'{moment}_half']:.4g}, by {size:.1f} Monte Carlo standard errors (by chance more than "
        f"{bound:.1f} in {FALSE_ALARMS:.0%} of such checks).",
        "seed": at_stepsize.seed,
    }
    return result
