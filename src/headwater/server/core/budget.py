"""The work of one turn of the loop, and the part of it that one connection may ask for.

Work is counted in units of about a microsecond of one core of the machine the figures in
docs/performance.md are from. The counts are estimates, except for requests to the server itself,
whose time is measured: only such requests differ from each other by more than a factor of ten.
"""

from typing import Final, final

# Other connections wait for as long as this when one floods the server, and for the time that the
# turn's last operation takes beyond it. Shorter turns would share writes among fewer messages.
TURN_UNITS: Final = 2_000
# The slice of a connection where several wait: a hundred connections come round in 50 ms.
SLICE_UNITS: Final = 500
# The slice of a connection that had nothing to do before: some operations, or a request. Operations
# beyond it join the queue of the others, to which newcomers leave half a turn.
NEWCOMER_UNITS: Final = 100
NEWCOMERS_UNITS: Final = TURN_UNITS // 2

# Reading and decoding bytes costs next to nothing, but not nothing.
BYTES_PER_UNIT: Final = 1_000
# A subscription, a ping; and a CONNECT besides.
OPERATION_UNITS: Final = 6
CONNECT_UNITS: Final = 100
# A publish, with what a stream does with it when the turn ends.
PUBLISH_UNITS: Final = 4
# A header may ask for more: an id is looked up and remembered.
HEADER_PUBLISH_UNITS: Final = 6
# Deliveries of a run, whose frames are made at once, and of a message to a crowd.
RUN_DELIVERIES_PER_UNIT: Final = 4
CROWD_DELIVERIES_PER_UNIT: Final = 2
# A request to the server itself, where the clock has not moved meanwhile.
REQUEST_UNITS: Final = 20
_NS_PER_UNIT: Final = 1_000


@final
class Budget:
    """The units of work left to the connection that is served now.

    An operation is not cut in two, so the last one may take the units below zero.
    """

    __slots__ = ("units",)

    def __init__(self, units: int = 0) -> None:
        self.units = units

    def charge(self, units: int) -> None:
        """Subtract the units of work that was done."""
        self.units -= units

    def charge_time(self, took_ns: int, units_min: int) -> None:
        """Subtract the time that work took, at least `units_min`: a clock may stand still."""
        self.units -= max(units_min, took_ns // _NS_PER_UNIT)
