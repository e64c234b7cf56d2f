"""Commands that publish, subscribe and ask."""
