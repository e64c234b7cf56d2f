"""The log of one stream: its messages and journal, in files or in memory."""
