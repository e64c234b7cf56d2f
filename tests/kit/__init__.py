"""Worlds, drivers, servers and plain second versions that tests of several folders share.

A module stands here when tests of more than one folder use it. It holds no test, and imports no
test module.
"""
