"""`headwater store`: the files of a server, read without it."""
