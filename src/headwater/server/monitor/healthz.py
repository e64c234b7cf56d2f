"""/healthz: whether this server does its work."""

from typing import TYPE_CHECKING, Final

from headwater.server.monitor.documents import View

if TYPE_CHECKING:
    from headwater.server.node import Node

OK: Final = 200
BAD_REQUEST: Final = 400
NOT_READY: Final = 500

_BAD_REQUEST_TYPE: Final = "BAD_REQUEST"
_CONNECTION_TYPE: Final = "CONNECTION"


class HealthzOptions(View, kw_only=True, rename="kebab"):
    """What is asked about. Nothing but connections can be unwell in a server without streams."""

    js_enabled: bool = False
    js_enabled_only: bool = False
    js_server_only: bool = False
    js_meta_only: bool = False
    account: str = ""
    stream: str = ""
    consumer: str = ""
    details: bool = False


class HealthError(View, kw_only=True):
    """One thing that is wrong."""

    type: str
    error: str


class Health(View, kw_only=True):
    """The verdict. HTTP has the code in its status line and not in the document."""

    status: str
    status_code: int = 0
    error: str = ""
    errors: tuple[HealthError, ...] = ()


def healthz(node: "Node", options: HealthzOptions) -> Health:
    """The verdict on this server."""
    if options.stream and not options.account:
        return _unwell(options, BAD_REQUEST, _BAD_REQUEST_TYPE, _missing("account", "stream"))
    if options.consumer and not options.stream:
        return _unwell(options, BAD_REQUEST, _BAD_REQUEST_TYPE, _missing("stream", "consumer"))
    if node.lame_duck:
        text = "failed to be ready for connections after 1ms: server"
        return _unwell(options, NOT_READY, _CONNECTION_TYPE, text)
    return Health(status="ok", status_code=OK)


def _missing(needed: str, checked: str) -> str:
    return f'"{needed}" must not be empty when checking {checked} health'


def _unwell(options: HealthzOptions, code: int, kind: str, text: str) -> Health:
    if options.details:
        return Health(
            status="error", status_code=code, errors=(HealthError(type=kind, error=text),)
        )
    return Health(status="error", status_code=code, error=text)
