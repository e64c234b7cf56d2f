"""Vocabulary shared by every layer: clocks, dice, invariants and the three error roots."""
