"""Files and their layout: segments, journals, the write-ahead file, encryption, room."""
