"""The sink: rows as messages, exactly once."""
