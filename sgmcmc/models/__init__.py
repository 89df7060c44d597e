"""Models for which everything but the data is there."""

from sgmcmc.models.dp.mixture import Mixture
from sgmcmc.models.lda.topics import Topics

__all__ = ["Mixture", "Topics"]
