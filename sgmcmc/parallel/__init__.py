"""Functions called in other processes: executors, their workers, and serialization."""
