"""The traffic through a server, as monitoring shows it."""

from typing import final


@final
class Counters:
    """Messages and bytes through this server since it started, of clients that have left; those
    that are here count their own."""

    __slots__ = ("in_bytes", "in_msgs", "out_bytes", "out_msgs", "stalled_clients")

    def __init__(self) -> None:
        self.in_msgs = 0
        self.in_bytes = 0
        self.out_msgs = 0
        self.out_bytes = 0
        self.stalled_clients = 0
