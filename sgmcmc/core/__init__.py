"""Shared foundations: random numbers, compilation, trees of arrays, checks and errors."""
