"""What a run returns: draws with their summary, verdict, exports and plots."""
