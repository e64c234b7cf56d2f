"""Work behind the log: checkpoints, compaction, journals that are written again."""
