"""The reasons for which connections end, in the words of /connz."""

from typing import Final, Protocol

from headwater.server.core.client import Client

CLIENT_CLOSED: Final = "Client Closed"
AUTHENTICATION_TIMEOUT: Final = "Authentication Timeout"
AUTHENTICATION_VIOLATION: Final = "Authentication Failure"
SLOW_CONSUMER_PENDING: Final = "Slow Consumer (Pending Bytes)"
SLOW_CONSUMER_DEADLINE: Final = "Slow Consumer (Write Deadline)"
READ_ERROR: Final = "Read Error"
PARSE_ERROR: Final = "Parse Error"
STALE_CONNECTION: Final = "Stale Connection"
PROTOCOL_VIOLATION: Final = "Protocol Violation"
BAD_PROTOCOL_VERSION: Final = "Bad Client Protocol Version"
MAX_CONNECTIONS: Final = "Maximum Connections Exceeded"
MAX_ACCOUNT_CONNECTIONS: Final = "Maximum Account Connections Exceeded"
MAX_PAYLOAD: Final = "Maximum Message Payload Exceeded"
MAX_CONTROL_LINE: Final = "Maximum Control Line Exceeded"
TLS_HANDSHAKE_ERROR: Final = "TLS Handshake Failure"
SERVER_SHUTDOWN: Final = "Server Shutdown"
NO_RESPONDERS_NEED_HEADERS: Final = "No Responders Requires Headers"
KICKED: Final = "Kicked"


class Close(Protocol):
    """The call that ends a connection."""

    def __call__(self, client: Client, reason: str, error_text: str = "") -> None:
        """End a connection; the error, if any, is the last text that the client reads."""
        ...
