"""Models for which everything but the data is there."""

from sgmcmc.models.lda.topics import Topics

__all__ = ["Topics"]
