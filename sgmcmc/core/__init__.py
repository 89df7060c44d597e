"""What every other room builds on: random numbers, compilation, trees of arrays, checks and errors."""
