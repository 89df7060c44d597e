"""Complete models, which need only data."""

from sgmcmc.models.dp.mixture import Mixture
from sgmcmc.models.lda.topics import Topics

__all__ = ["Mixture", "Topics"]
