"""Models with samplers of their own."""

from sgmcmc.models.dp.mixture import Mixture

__all__ = ["Mixture"]
