"""Errors between a job and its server.

Their texts are one line each and say what to do next; a caller that knows the option at fault names
it there.
"""

from typing import ClassVar, Final

from headwater.base.errors import OperatingError
from headwater.client.api.answers import ApiRefusal

UNAVAILABLE: Final = 503
# JetStream is off, for this server or for this account: waiting does not turn it on.
_NOT_ENABLED: Final = (10039, 10076)


class LinkError(OperatingError):
    """Root of the errors of a connection, a request or a read."""

    server_is_away: ClassVar[bool] = False
    """Whether no server has answered. Otherwise a server is there and lacks something."""


class UnreachableError(LinkError):
    """No server of the list accepted the connection."""

    server_is_away = True


class UnknownHostError(UnreachableError):
    """No host of the list has an address: a running server would not change that."""


class RefusedError(LinkError):
    """A server was reached and refused the login, or a permission."""


class ConnectionLostError(LinkError):
    """The connection ended during the work, which may succeed on another one."""

    server_is_away = True


class TimedOutError(LinkError):
    """The server did not answer in time; it may have acted on the request."""

    server_is_away = True


class NoRespondersError(LinkError):
    """No client listens to this subject; for the API, JetStream is not enabled."""


class ApiRefusedError(LinkError):
    """The server's own refusal, with the codes of its API."""

    def __init__(self, code: int, err_code: int, description: str) -> None:
        super().__init__(f"{description} ({err_code or code})")
        self.code = code
        self.err_code = err_code
        self.description = description

    @classmethod
    def of(cls, refusal: ApiRefusal) -> "ApiRefusedError":
        return cls(refusal.code, refusal.err_code, refusal.description)

    @property
    def is_passing(self) -> bool:
        """Whether the refusal may pass: the stream has no leader, or the server starts."""
        return self.code == UNAVAILABLE and self.err_code not in _NOT_ENABLED

    def __reduce__(self) -> tuple[type["ApiRefusedError"], tuple[int, int, str]]:
        # Errors cross process borders; the default would call __init__ with the message alone.
        return type(self), (self.code, self.err_code, self.description)
