"""The set of streams: which streams exist, and the records that create and delete them."""
