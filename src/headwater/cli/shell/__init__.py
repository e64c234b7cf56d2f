"""Things all commands share: groups, options, tables, units, exit codes, progress."""
