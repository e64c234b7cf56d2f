"""CRC-32C, the checksum of S2 blocks, as fast as interpreted Python allows.

The standard library has CRC-32 with another polynomial only, and a package would be a dependency of
the server for backups of nats-server alone. A loop over bytes would be a hundred times slower than
the code around it, so the data are cut into lanes of equal length that are processed side by side:
each step takes one byte of every lane, with whole rows of bytes as operands of `bytes.translate`
and of exclusive or. The results of the lanes are then combined pair by pair: as a checksum is
linear, a lane counts as if it were followed by as many zero bytes as there are bytes behind it.
"""

from typing import Final

_POLYNOMIAL: Final = 0x82F63B78
_ONES: Final = 0xFFFFFFFF
_LANE_BYTES: Final = 64
# Fewer lanes than this are faster one byte after the other.
_LANES_MIN: Final = 8
# Four tables, one per byte of a state: the state that each value of the byte becomes.
_Operator = tuple[tuple[int, ...], ...]


def _table() -> tuple[int, ...]:
    states = []
    for byte in range(256):
        state = byte
        for _ in range(8):
            state = state >> 1 ^ (_POLYNOMIAL if state & 1 else 0)
        states.append(state)
    return tuple(states)


_TABLE: Final = _table()
# The table split by byte of the result, for rows of bytes.
_ROW_TABLES: Final = tuple(
    bytes(state >> shift & 0xFF for state in _TABLE) for shift in (0, 8, 16, 24)
)


def _one_by_one(data: bytes, state: int) -> int:
    table = _TABLE
    for byte in data:
        state = state >> 8 ^ table[(state ^ byte) & 0xFF]
    return state


def _apply(operator: _Operator, state: int) -> int:
    first, second, third, fourth = operator
    return (
        first[state & 0xFF]
        ^ second[state >> 8 & 0xFF]
        ^ third[state >> 16 & 0xFF]
        ^ fourth[state >> 24]
    )


def _past_zeros() -> _Operator:
    """The operator from a state to the state after a lane of zero bytes."""
    zeros = bytes(_LANE_BYTES)
    return tuple(
        tuple(_one_by_one(zeros, byte << shift) for byte in range(256)) for shift in (0, 8, 16, 24)
    )


def _twice(operator: _Operator) -> _Operator:
    return tuple(tuple(_apply(operator, state) for state in table) for table in operator)


def _rows_of(operator: _Operator) -> list[list[bytes]]:
    """The tables of an operator by byte of the result and byte of the state, for rows of bytes."""
    return [
        [bytes(state >> shift & 0xFF for state in table) for table in operator]
        for shift in (0, 8, 16, 24)
    ]


# The operators past one lane, two, four and so on, as far as they were needed.
_operators: list[_Operator] = []
_operator_rows: list[list[list[bytes]]] = []


def _rows_past(power: int) -> list[list[bytes]]:
    while len(_operators) <= power:
        operator = _twice(_operators[-1]) if _operators else _past_zeros()
        _operators.append(operator)
        _operator_rows.append(_rows_of(operator))
    return _operator_rows[power]


def crc32c(data: bytes) -> int:
    """The checksum of `data`."""
    lanes = len(data) // _LANE_BYTES
    state = _ONES
    end = 0
    if lanes >= _LANES_MIN:
        end = lanes * _LANE_BYTES
        state = _joined(_lane_states(data, lanes, end), lanes)
    return _one_by_one(data[end:], state) ^ _ONES


def _lane_states(data: bytes, lanes: int, end: int) -> list[bytes]:
    """The states of all lanes: a row of their first bytes, a row of their second, and so on."""
    low, second, third, high = 0xFF, 0xFF, 0xFF, 0xFF
    to_low, to_second, to_third, to_high = _ROW_TABLES
    from_bytes = int.from_bytes
    for place in range(_LANE_BYTES):
        row = from_bytes(data[place:end:_LANE_BYTES], "little") ^ low
        index = row.to_bytes(lanes, "little")
        low = second ^ from_bytes(index.translate(to_low), "little")
        second = third ^ from_bytes(index.translate(to_second), "little")
        third = high ^ from_bytes(index.translate(to_third), "little")
        high = from_bytes(index.translate(to_high), "little")
    return [row.to_bytes(lanes, "little") for row in (low, second, third, high)]


def _joined(rows: list[bytes], lanes: int) -> int:
    """Combine the states of all lanes, two lanes at a time, into one."""
    power = 0
    from_bytes = int.from_bytes
    while lanes > 1:
        if lanes & 1:
            # An empty lane in front changes nothing.
            rows = [b"\0" + row for row in rows]
        lanes = (lanes + 1) // 2
        fronts = [row[::2] for row in rows]
        joined = []
        for back, tables in zip(rows, _rows_past(power), strict=True):
            total = from_bytes(back[1::2], "little")
            for front, table in zip(fronts, tables, strict=True):
                total ^= from_bytes(front.translate(table), "little")
            joined.append(total.to_bytes(lanes, "little"))
        rows = joined
        power += 1
    return rows[0][0] | rows[1][0] << 8 | rows[2][0] << 16 | rows[3][0] << 24
