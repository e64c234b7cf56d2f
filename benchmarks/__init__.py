"""Headwater and nats-server, side by side, on the same machine, in the same minutes.

`python -m benchmarks --help` says how to run them; `scenarios` says what is measured.
"""
