"""What can go wrong between a job and its server.

The texts are one line each and say what to do next; whoever knows by which option the value came
names it there.
"""

from typing import ClassVar, Final

from headwater.base.errors import OperatingError
from headwater.client.api.answers import ApiRefusal

UNAVAILABLE: Final = 503
# JetStream is off, for this server or for this account: waiting does not turn it on.
_NOT_ENABLED: Final = (10039, 10076)


class LinkError(OperatingError):
    """Root of what a connection, a request or a read can end in."""

    server_is_away: ClassVar[bool] = False
    """Whether no server has said anything. Otherwise a server is there and lacks something."""


class UnreachableError(LinkError):
    """No server of the list took the connection."""

    server_is_away = True


class UnknownHostError(UnreachableError):
    """No host of the list has an address: a running server would not change that."""


class RefusedError(LinkError):
    """A server was reached and would not have us, or would not let us do this."""


class ConnectionLostError(LinkError):
    """The connection ended in mid-work; the same may succeed on another one."""

    server_is_away = True


class TimedOutError(LinkError):
    """The server did not answer in time; whether it acted is not known."""

    server_is_away = True


class NoRespondersError(LinkError):
    """Nobody listens to this subject; for the API of JetStream that means it is not enabled."""


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
        """Whether the server could not answer just now: a leader is missing, or it starts."""
        return self.code == UNAVAILABLE and self.err_code not in _NOT_ENABLED

    def __reduce__(self) -> tuple[type["ApiRefusedError"], tuple[int, int, str]]:
        # Errors cross process borders; the default would call __init__ with the message alone.
        return type(self), (self.code, self.err_code, self.description)
