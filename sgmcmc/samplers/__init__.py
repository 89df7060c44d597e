"""The public samplers, one file each, and the step-by-step interface."""
