"""Judges of a simulated run. Each one states a claim and knows nothing of how the run was made."""
