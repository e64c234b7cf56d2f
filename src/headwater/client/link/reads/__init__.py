"""Reads of a range of a stream: the ways to read it, and what is known of it beforehand."""
