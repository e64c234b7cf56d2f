"""Work beside a log, partly on another thread; knows files and the index, and no log."""
