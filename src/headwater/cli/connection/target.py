"""The servers that a command talks to, and the credentials and TLS it talks with.

Must not know: click, rich, nats.
"""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from headwater.client.link.login import Login


@dataclass(frozen=True)
class Target:
    """Which servers to talk to, as whom, and how the connection is secured.

    `repr` shows no password, token or seed: the servers may have the first two in their URLs, and
    a seed may stand where a path is expected.
    """

    servers: tuple[str, ...] = field(repr=False)
    connect_timeout_s: float
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    credentials_path: str | None = field(default=None, repr=False)
    nkey_path: str | None = field(default=None, repr=False)
    tls: bool = False
    tls_ca_path: str | None = None
    tls_cert_path: str | None = None
    tls_key_path: str | None = None

    @property
    def text(self) -> str:
        """The servers as a person may see them: URLs without credentials. Raises LoginError."""
        return self.login.shown_url.replace(",", ", ")

    @cached_property
    def login(self) -> Login:
        """The login with one way to log in: options go before the URLs. Raises LoginError.

        A `tls://` among the servers asks for TLS of them all, as it does in other clients: a
        connection that was lost must not come back in plain text.
        """
        url = ",".join(self.servers)
        servers = Login(url).servers()
        login = Login(
            url=url,
            tls=self.tls or any(server.tls for server in servers),
            tls_ca=self.tls_ca_path,
            tls_cert=self.tls_cert_path,
            tls_key=self.tls_key_path,
            connect_timeout_s=self.connect_timeout_s,
        )
        way = self._way
        if way:
            return replace(login, url=login.shown_url, **way)
        if any(server.has_credentials for server in servers):
            return login
        return replace(login, password=self.password)

    @property
    def _way(self) -> dict[str, Any]:
        """The first login that the options give: a variable may have set another."""
        if self.credentials_path is not None:
            return {"creds": self.credentials_path}
        if self.nkey_path is not None:
            return {"nkey": self.nkey_path}
        if self.user is not None:
            return {"user": self.user, "password": self.password}
        if self.token is not None:
            return {"token": self.token}
        return {}
