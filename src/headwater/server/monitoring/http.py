"""The monitoring port: from the target of a GET to a document of `monitoring.pages`.

Paths, parameters, status codes and texts are those of nats-server, and so are the requests that
/varz counts: some are counted before their parameters are read, and some only if they are valid.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import format_datetime
from html import escape
from typing import Final, final
from urllib.parse import quote, unquote

import msgspec

from headwater.base.clock import NS_PER_S
from headwater.runtime.sockets.http import HttpResponse
from headwater.server.log import Log
from headwater.server.monitoring.facts import Facts
from headwater.server.monitoring.pages.absent import gatewayz, leafz
from headwater.server.monitoring.pages.accountz import (
    AccountStatzOptions,
    AccountzOptions,
    account_statz,
    accountz,
)
from headwater.server.monitoring.pages.connz import STATES, ConnzOptions, connz
from headwater.server.monitoring.pages.documents import Refused, encode, encode_indented
from headwater.server.monitoring.pages.healthz import HealthzOptions, healthz
from headwater.server.monitoring.pages.index_page import index_page
from headwater.server.monitoring.pages.jsz import JszOptions, jsz
from headwater.server.monitoring.pages.query import Query
from headwater.server.monitoring.pages.raftz import RaftzOptions, raftz
from headwater.server.monitoring.pages.routez import RoutezOptions, routez
from headwater.server.monitoring.pages.subsz import SubszOptions, subsz
from headwater.server.monitoring.pages.varz import varz
from headwater.wire.info import NATS_VERSION

JSON: Final = "application/json"
PLAIN: Final = "text/plain; charset=utf-8"
HTML: Final = "text/html; charset=utf-8"

_ANY_ORIGIN: Final = (("Access-Control-Allow-Origin", "*"),)
_NO_SNIFFING: Final = (("X-Content-Type-Options", "nosniff"),)
_NOT_FOUND: Final = HttpResponse(404, PLAIN, b"404 page not found\n", _NO_SNIFFING)
_NO_RAFT: Final = HttpResponse(404, PLAIN, b"No Raft nodes registered")
_NO_GROUPS: Final = HttpResponse(404, PLAIN, b"No Raft nodes returned, check supplied filters")

_ROOT: Final = "/"
_SUBSZ: Final = "/subsz"


@final
class Monitor:
    """Answers to GET on the monitoring port of one server."""

    __slots__ = ("_facts", "_log", "_pages")

    def __init__(self, facts: Facts, log: Log) -> None:
        self._facts = facts
        self._log = log
        self._pages: dict[str, Callable[[Query], HttpResponse]] = {
            _ROOT: self._index,
            "/varz": self._varz,
            "/connz": self._connz,
            _SUBSZ: self._subsz,
            "/subscriptionsz": self._subsz,
            "/healthz": self._healthz,
            "/accountz": self._accountz,
            "/accstatz": self._accstatz,
            "/routez": self._routez,
            "/gatewayz": self._gatewayz,
            "/leafz": self._leafz,
            "/jsz": self._jsz,
            "/ipqueuesz": self._ipqueuesz,
            "/raftz": self._raftz,
        }

    def respond(self, target: str) -> HttpResponse:
        """Answer a request target: a path and perhaps a query."""
        raw_path, _, raw_query = _without_origin(target).partition("?")
        path = unquote(raw_path)
        cleaned = _cleaned(path)
        if path.startswith("/") and cleaned != path:
            response = _redirect(cleaned, raw_query)
        else:
            page = self._pages.get(self._below_base(path))
            response = _NOT_FOUND if page is None else self._page(page, Query(raw_query))
        return response._replace(headers=(*response.headers, ("Date", self._date())))

    def _page(self, page: Callable[[Query], HttpResponse], query: Query) -> HttpResponse:
        try:
            return page(query)
        except Refused as reason:
            return HttpResponse(400, PLAIN, str(reason).encode())

    def _below_base(self, path: str) -> str:
        """The path without the configured base; empty if it is not below it."""
        base = self._base_path
        if not base:
            return path
        if path == base:
            return _ROOT
        below = path.removeprefix(base) if path.startswith(f"{base}/") else ""
        return "" if below == _ROOT else below

    @property
    def _base_path(self) -> str:
        path = self._facts.options.http_base_path
        return _cleaned(f"/{path}").rstrip("/")

    def _date(self) -> str:
        seconds = self._facts.now_ns // NS_PER_S
        return format_datetime(datetime.fromtimestamp(seconds, UTC), usegmt=True)

    def _count(self, path: str) -> None:
        requests = self._facts.requests
        requests[path] = requests.get(path, 0) + 1

    # --- pages ---------------------------------------------------------------------------------

    def _index(self, query: Query) -> HttpResponse:
        self._count(_ROOT)
        return HttpResponse(200, HTML, index_page(self._facts.name, NATS_VERSION, self._base_path))

    def _varz(self, query: Query) -> HttpResponse:
        self._count("/varz")
        return _document(varz(self._facts))

    def _connz(self, query: Query) -> HttpResponse:
        auth = query.boolean("auth")
        subscriptions, detail = query.subscriptions()
        options = ConnzOptions(
            sort=query.text("sort"),
            auth=auth,
            subscriptions=subscriptions,
            subscriptions_detail=detail,
            offset=query.integer("offset"),
            limit=query.integer("limit"),
            cid=query.unsigned("cid"),
            state=_state(query),
            user=query.text("user"),
            acc=query.text("acc"),
            mqtt_client=query.text("mqtt_client"),
        )
        self._count("/connz")
        return _document(connz(self._facts, options))

    def _subsz(self, query: Query) -> HttpResponse:
        self._count(_SUBSZ)
        options = SubszOptions(
            subscriptions=query.boolean("subs"),
            offset=query.integer("offset"),
            limit=query.integer("limit"),
            test=query.text("test"),
            account=query.text("acc"),
        )
        return _document(subsz(self._facts, options))

    def _healthz(self, query: Query) -> HttpResponse:
        self._count("/healthz")
        js_enabled = query.boolean("js-enabled")
        if js_enabled:
            self._log.warn("Healthcheck: js-enabled deprecated, use js-enabled-only instead")
        options = HealthzOptions(
            js_enabled=js_enabled,
            js_enabled_only=query.boolean("js-enabled-only"),
            js_server_only=query.boolean("js-server-only"),
            js_meta_only=query.boolean("js-meta-only"),
            details=query.boolean("details"),
            account=query.text("account"),
            stream=query.text("stream"),
            consumer=query.text("consumer"),
        )
        health = healthz(self._facts, options)
        if health.error:
            self._log.warn(f'Healthcheck failed: "{health.error}"')
        elif health.errors:
            self._log.warn(f"Healthcheck failed: {len(health.errors)} errors")
        document = msgspec.structs.replace(health, status_code=0)
        return HttpResponse(health.status_code, JSON, encode(document), _ANY_ORIGIN)

    def _accountz(self, query: Query) -> HttpResponse:
        self._count("/accountz")
        return _document(accountz(self._facts, AccountzOptions(account=query.text("acc"))))

    def _accstatz(self, query: Query) -> HttpResponse:
        self._count("/accstatz")
        options = AccountStatzOptions(include_unused=query.boolean("unused"))
        return _document(account_statz(self._facts, options))

    def _routez(self, query: Query) -> HttpResponse:
        subscriptions, detail = query.subscriptions()
        options = RoutezOptions(subscriptions=subscriptions, subscriptions_detail=detail)
        self._count("/routez")
        return _document(routez(self._facts, options))

    def _gatewayz(self, query: Query) -> HttpResponse:
        self._count("/gatewayz")
        query.subscriptions()
        query.boolean("accs")
        return _document(gatewayz(self._facts))

    def _leafz(self, query: Query) -> HttpResponse:
        self._count("/leafz")
        query.boolean("subs")
        return _document(leafz(self._facts))

    def _jsz(self, query: Query) -> HttpResponse:
        self._count("/jsz")
        # In this order, because the first parameter that cannot be read is refused.
        options = JszOptions(
            accounts=query.boolean("accounts"),
            streams=query.boolean("streams"),
            consumer=query.boolean("consumers"),
            direct_consumer=query.boolean("direct-consumers"),
            config=query.boolean("config"),
            offset=query.integer("offset"),
            limit=query.integer("limit"),
            leader_only=query.boolean("leader-only"),
            raft=query.boolean("raft"),
            stream_leader_only=query.boolean("stream-leader-only"),
            account=query.text("acc"),
        )
        return _document(jsz(self._facts, options))

    def _raftz(self, query: Query) -> HttpResponse:
        if self._facts.get_consensus() is None:
            return _NO_RAFT
        options = RaftzOptions(account=query.text("acc"), group=query.text("group"))
        groups = raftz(self._facts, options)
        return _NO_GROUPS if groups is None else _document(groups)

    def _ipqueuesz(self, query: Query) -> HttpResponse:
        """Queues between threads, of which there are none."""
        query.boolean("all")
        return _document({})


def _document(view: object) -> HttpResponse:
    return HttpResponse(200, JSON, encode_indented(view), _ANY_ORIGIN)


def _state(query: Query) -> int:
    name = query.text("state")
    state = STATES.get(name.lower())
    if state is None:
        raise Refused(f"Error decoding state for {name}")
    return state


def _without_origin(target: str) -> str:
    """The path and query of a target that may name the server too, as in requests to proxies."""
    scheme, separator, rest = target.partition("://")
    if not separator or scheme.lower() not in ("http", "https"):
        return target
    _, slash, path = rest.partition("/")
    return slash + path or _ROOT


def _cleaned(path: str) -> str:
    """The path without empty parts, `.` and `..`."""
    parts: list[str] = []
    for part in path.split("/"):
        if part == "..":
            del parts[-1:]
        elif part not in ("", "."):
            parts.append(part)
    cleaned = "/" + "/".join(parts)
    return f"{cleaned}/" if parts and path.endswith("/") else cleaned


def _redirect(path: str, raw_query: str) -> HttpResponse:
    location = quote(path) + (f"?{raw_query}" if raw_query else "")
    body = f'<a href="{escape(location)}">Temporary Redirect</a>.\n\n'
    return HttpResponse(307, HTML, body.encode(), (("Location", location),))
