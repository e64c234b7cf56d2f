"""Checkers of a simulated run. Each one states a claim and does not know how the run was made."""
