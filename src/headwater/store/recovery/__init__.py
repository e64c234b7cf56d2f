"""Opening a store: damage that may be found in it, and the rule for each kind."""
