"""Headwater and nats-server, side by side, on the same machine, in the same minutes.

`python -m benchmarks --help` shows how to run them; `scenarios` defines what is measured.
"""
