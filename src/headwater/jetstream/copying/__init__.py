"""Mirrors and sources: how the messages of one stream become those of another."""
