"""Vocabulary of every layer: clocks, random numbers, invariants and the three error roots."""
