"""The addresses of this machine, as other machines see them."""

import socket
from typing import Final

# Addresses of documentation (RFC 5737 and RFC 3849): they are routed as any other outside address.
_FAR: Final = ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1"))
_PORT: Final = 9


def own_addresses() -> list[str]:
    """The address from which packets to the outside leave, for each version of IP in use.

    A datagram socket that is connected has chosen its own address; nothing is sent.
    """
    found = []
    for family, far in _FAR:
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as probe:
                probe.connect((far, _PORT))
                found.append(str(probe.getsockname()[0]))
        except OSError:
            continue
    return found
