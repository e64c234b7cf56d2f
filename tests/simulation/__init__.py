"""Whole servers and real clients in the simulated world, judged by checkers."""
