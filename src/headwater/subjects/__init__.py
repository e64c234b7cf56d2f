"""Subjects: their grammar, matching, and the index of subscriptions."""
