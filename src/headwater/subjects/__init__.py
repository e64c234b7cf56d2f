"""Subjects: their grammar, matching, and the index of who listens to what."""
