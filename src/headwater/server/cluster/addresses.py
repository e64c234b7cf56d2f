"""Addresses of other servers, as servers tell each other of them.

Pure: texts and their parts; nothing is resolved.
"""

from typing import Final

from headwater.server.configuration.options import PORT_MAX
from headwater.server.configuration.reading import split_host_port
from headwater.subjects.grammar import has_blank_or_control

# The longest name of a host in the DNS; addresses are shorter.
HOST_CHARS_MAX: Final = 253
_PORT_DIGITS_MAX: Final = 5


def joined_address(host: str, port: int) -> str:
    """`host:port`, with brackets around an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def parsed_address(text: str) -> tuple[str, int] | None:
    """Host and port of an address that a server can be told to connect to, else None."""
    address = split_host_port(text)
    if address is None:
        return None
    host, digits = address
    if not host or len(host) > HOST_CHARS_MAX or has_blank_or_control(host):
        return None
    # Other scripts have digits too, and a number of thousands of digits is not read at all.
    if not digits.isascii() or not digits.isdigit() or len(digits) > _PORT_DIGITS_MAX:
        return None
    port = int(digits)
    return (host, port) if port <= PORT_MAX else None
