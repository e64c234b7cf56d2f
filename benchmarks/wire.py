"""The part of the client protocol that a load generator needs, on blocking sockets."""

import socket
from typing import Final

READ_BYTES: Final = 1 << 18
SOCKET_BUFFER_BYTES: Final = 1 << 22
# A round that stands still this long has lost a message.
STALL_S: Final = 60.0

CONNECT: Final = (
    b'CONNECT {"verbose":false,"pedantic":false,"headers":true,"no_responders":true,'
    b'"lang":"benchmark","version":"0","protocol":0}\r\n'
)
PING: Final = b"PING\r\n"
PONG: Final = b"PONG\r\n"


def dial(port: int, before_ping: bytes = b"") -> socket.socket:
    """A connection on which the server has answered, with `before_ping` already processed."""
    connection = socket.create_connection(("127.0.0.1", port), timeout=STALL_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SOCKET_BUFFER_BYTES)
    read_until(connection, b"\r\n")
    connection.sendall(CONNECT + before_ping + PING)
    read_until(connection, PONG)
    return connection


def read_until(connection: socket.socket, end: bytes) -> bytes:
    """All bytes up to and including `end`, which must be the last that arrive."""
    received = b""
    while not received.endswith(end):
        chunk = connection.recv(READ_BYTES)
        if not chunk:
            raise ConnectionError(f"the server closed the connection: {received[-200:]!r}")
        received += chunk
    return received


def subscribe(subjects: tuple[str, ...]) -> bytes:
    """SUB operations, numbered from 1."""
    return b"".join(
        f"SUB {subject} {number}\r\n".encode() for number, subject in enumerate(subjects, 1)
    )
