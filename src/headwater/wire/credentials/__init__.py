"""The keys and tokens that a client shows to a server, without the files they are kept in.

Every client of the project logs in by these modules: the command line and the link of the Spark
jobs. Neither needs a package that the server does not need as well.
"""
