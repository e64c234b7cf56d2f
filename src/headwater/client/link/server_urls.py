"""Servers as a url names them: addresses, TLS, and credentials before the host.

Invariant: `repr` and error messages show no password or token, nor text that may hold one, for
example the part of a url that did not parse.
"""

import ipaddress
import re
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote

from headwater.client.link.option_files import LoginError

DEFAULT_URL: Final = "nats://127.0.0.1:4222"
DEFAULT_PORT: Final = 4222
PORT_MAX: Final = 65535

_SCHEMES: Final = {"nats": False, "tls": True}
_WEBSOCKETS: Final = frozenset({"ws", "wss"})
_HOST_AND_PORT: Final = re.compile(
    r"(?:\[(?P<ipv6>[^\[\]]*)\]|(?P<host>[^\[\]:/?#\s]+))(?::(?P<port>[0-9]{1,5}))?/?"
)


@dataclass(frozen=True)
class Server:
    """One server of the url, with the credentials written into it."""

    host: str
    port: int = DEFAULT_PORT
    tls: bool = False
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)

    @property
    def address(self) -> str:
        """The server as a url that may be shown."""
        scheme = "tls" if self.tls else "nats"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{scheme}://{host}:{self.port}"

    @property
    def has_credentials(self) -> bool:
        return self.user is not None or self.token is not None


def parse_servers(url: str, wants_tls: bool) -> tuple[Server, ...]:
    """The servers of a url in their order, all with TLS if `wants_tls`. Raises LoginError."""
    parts = [part.strip() for part in url.split(",") if part.strip()]
    if not parts:
        raise LoginError("url", f"names no server; write for example {DEFAULT_URL}")
    return tuple(
        _parse_server(part, _which(index, len(parts)), wants_tls)
        for index, part in enumerate(parts)
    )


def _which(index: int, count: int) -> str:
    return f"server {index + 1} of {count}: " if count > 1 else ""


def _parse_server(text: str, which: str, tls: bool) -> Server:
    """One server of the url. `which` begins messages, which quote nothing that may be a secret."""
    scheme, separator, rest = text.partition("://")
    if not separator:
        scheme, rest = "nats", text
    scheme = scheme.lower()
    if scheme in _WEBSOCKETS:
        raise LoginError("url", f"{which}websockets are not supported; use nats:// or tls://")
    if scheme not in _SCHEMES:
        raise LoginError("url", f"{which}the scheme must be nats:// or tls://")
    # The last @ ends the credentials: a password may have one, a host may not.
    userinfo, at, address = rest.rpartition("@")
    host, port = _parse_address(address, which)
    user, password, token = _parse_userinfo(userinfo, which) if at else (None, None, None)
    return Server(host, port, tls or _SCHEMES[scheme], user, password, token)


def _parse_address(text: str, which: str) -> tuple[str, int]:
    found = _HOST_AND_PORT.fullmatch(text)
    if found is None:
        advice = "wants host or host:port after the scheme"
        if text.count(":") > 1 and "[" not in text:
            advice += "; an IPv6 address goes in brackets, as in [::1]:4222"
        raise LoginError("url", which + advice)
    port = int(found["port"] or DEFAULT_PORT)
    if not 0 < port <= PORT_MAX:
        raise LoginError("url", f"{which}the port must be from 1 to {PORT_MAX}")
    if found["ipv6"] is None:
        try:
            found["host"].encode("idna")
        except UnicodeError:
            raise LoginError("url", f"{which}no host can have this name") from None
        return found["host"], port
    try:
        return str(ipaddress.IPv6Address(found["ipv6"])), port
    except ValueError:
        raise LoginError("url", f"{which}what is in brackets is not an IPv6 address") from None


def _parse_userinfo(text: str, which: str) -> tuple[str | None, str | None, str | None]:
    """User and password, or a token: a name without a colon after it."""
    user, colon, password = (unquote(part) for part in text.partition(":"))
    if not user:
        raise LoginError("url", f"{which}there is no user or token before the @")
    return (user, password, None) if colon else (None, None, user)
