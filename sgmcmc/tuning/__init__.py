"""Searches for settings: stepsizes, temperatures, candidates by successive halving, and modes."""
