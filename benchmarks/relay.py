"""The generator's ceiling: a relay that copies bytes to all other subscribers without reading them.

It knows just enough of the protocol for the generator to connect: INFO, and a PONG for a PING at
the end of the input. All other bytes are copied, back to their sender if it is alone.
"""

import selectors
import socket
import sys
from typing import Final

# Small enough to stay in a core's own cache between reading and writing.
READ_BYTES: Final = 1 << 18
PING: Final = b"PING\r\n"
INFO: Final = b'INFO {"server_id":"relay","version":"0","max_payload":1048576,"headers":true}\r\n'


def serve(listener: socket.socket) -> None:
    """Relay until killed."""
    subscribers: list[socket.socket] = []
    buffer = memoryview(bytearray(READ_BYTES))
    with selectors.DefaultSelector() as selector:
        selector.register(listener, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is listener:
                    connection, _ = listener.accept()
                    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    connection.sendall(INFO)
                    selector.register(connection, selectors.EVENT_READ)
                else:
                    source = key.fileobj
                    assert isinstance(source, socket.socket)
                    if not relay(source, subscribers, buffer):
                        selector.unregister(source)
                        source.close()


def relay(source: socket.socket, subscribers: list[socket.socket], buffer: memoryview) -> bool:
    """Copy bytes from `source` to the others. Returns False once it has closed."""
    try:
        size = source.recv_into(buffer)
    except ConnectionError:
        size = 0
    if not size:
        if source in subscribers:
            subscribers.remove(source)
        return False
    data = buffer[:size]
    if bytes(data[-len(PING) :]) == PING:
        if b"SUB " in bytes(data) and source not in subscribers:
            subscribers.append(source)
        source.sendall(b"PONG\r\n")
        return True
    others = [subscriber for subscriber in subscribers if subscriber is not source]
    for subscriber in others or [source]:
        subscriber.sendall(data)
    return True


def main() -> None:
    """Listen on a free port and print the lines of a server that is ready."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        print(f"Listening for client connections on 127.0.0.1:{port}", file=sys.stderr)
        print("Server is ready", file=sys.stderr, flush=True)
        serve(listener)


if __name__ == "__main__":
    main()
