"""One blocking connection to a server: a socket, a decoder, requests.

A connection serves one thread, which either sends requests (`request`) or receives messages as fast
as it can (`subscribe`, `receive`). No thread runs beside it: a PING is answered by the next call
that waits, so a server closes a connection on which no call has waited for a while, and the next
call finds it lost.

A connection that was lost stays lost until `reconnect`, which keeps no subscriptions. Only the
caller knows which requests may be repeated: `retry` repeats the action that it is given.
"""

import contextlib
import re
import secrets
import socket
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import msgspec

from headwater.base.errors import PeerError
from headwater.client.link.errors import (
    ApiRefusedError,
    ConnectionLostError,
    LinkError,
    NoRespondersError,
    RefusedError,
    TimedOutError,
    UnknownHostError,
    UnreachableError,
)
from headwater.client.link.login import NO_CREDENTIALS, Login, connect_document
from headwater.client.link.outage import Outage
from headwater.client.link.server_urls import Server
from headwater.client.link.tls import alert_of, needs_tls, secured
from headwater.wire import frames
from headwater.wire.info import decode_object
from headwater.wire.server_decoder import (
    Deliveries,
    Info,
    ServerDecoder,
    ServerError,
    ServerPing,
    ServerPong,
)

# The most bytes of one read: large enough that a Python call per read costs nothing, small enough
# to stay in a core's cache until they are decoded.
READ_BYTES: Final = 1 << 18
RECEIVE_BUFFER_BYTES: Final = 4 << 20
NO_RESPONDERS: Final = 503
# Errors that end a connection for reasons of the moment: another connection may succeed.
PASSING_COMPLAINTS: Final = (
    "Authentication Timeout",
    "Connection throttling",
    "Server Shutdown",
    "Slow Consumer",
    "Stale Connection",
)

# A blank or a line end would end the subject, and the rest would be read as another argument.
_SUBJECT: Final = re.compile("[^ \\t\\r\\n]+")

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to a request. `status` is 0 unless the header block has one."""

    subject: bytes
    header: bytes
    payload: bytes
    status: int


def status_of(header: bytes) -> int:
    """The status in the first line of a header block (`NATS/1.0 404 …`), 0 without one."""
    token = header[9:12]
    return int(token) if header[8:9] == b" " and len(token) == 3 and token.isdigit() else 0


class Connection:
    """A connection of its own to one of the servers of a login."""

    def __init__(self, login: Login, name: str = "headwater-spark") -> None:
        self.login = login
        self.name = name
        self.info: dict[str, Any] = {}
        self._socket: socket.socket | None = None
        self._inbox = self.new_inbox()
        # Never starts again at 0: the answer to a request that was given up may come on the next
        # connection, where no other request may have its number.
        self._requests = 0
        self._reset()
        self.reconnect()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    # --- coming and going ----------------------------------------------------------------------

    def reconnect(self) -> None:
        """Connect again, to the first server of the login that accepts the connection.

        Tries the servers in turn, with growing pauses between the rounds, for as long as the login
        is patient. A refusal is final: the same credentials will not please the same cluster a
        second later.
        """
        self.close()
        outage = Outage(self.login)
        host_was_found = False
        while True:
            reasons: list[str] = []
            for server in self.login.servers():
                try:
                    self._connect(server)
                except RefusedError:
                    raise
                except (OSError, LinkError) as error:
                    reasons.append(f"{server.host}:{server.port}: {_reason(error)}")
                    host_was_found |= not isinstance(error, socket.gaierror)
                else:
                    outage.end()
                    return
            failure = UnreachableError if host_was_found else UnknownHostError
            outage.pause(
                failure(f"no server answers at url {self.login.shown_url}: {'; '.join(reasons)}")
            )

    def close(self) -> None:
        """End the connection; what has not been read is gone."""
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.close()
        self._reset()

    def _reset(self) -> None:
        self._socket = None
        self._decoder = ServerDecoder()
        self._sids = 0
        self._replies_sid = b""
        # Deliveries that came while somebody waited for the answer of a request.
        self._waiting: list[Deliveries] = []

    @property
    def is_open(self) -> bool:
        """Whether nobody has found it lost yet."""
        return self._socket is not None

    def _connect(self, server: Server) -> None:
        try:
            self._greet(server)
        except BaseException:
            self.close()
            raise

    def _greet(self, server: Server) -> None:
        deadline = time.monotonic() + self.login.connect_timeout_s
        connection = socket.create_connection(
            (server.host, server.port), timeout=self.login.connect_timeout_s
        )
        self._socket = connection
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
        self.info = self._wait_for_info(deadline)
        if needs_tls(self.login.tls_files, server, self.info):
            # Nothing of the protocol is under way: the server waits for the handshake now.
            self._socket = secured(connection, self.login.tls_files, server)
            # Bytes that came in the clear behind INFO must not become the beginning of a frame.
            self._decoder = ServerDecoder()
        document = connect_document(self.login, server, self.info) | {"name": self.name}
        try:
            self.send(frames.connect_frame(msgspec.json.encode(document)) + frames.PING)
            self._wait_for_pong(deadline)
        except ConnectionLostError as error:
            if not self.info.get("tls_verify"):
                raise
            # Why it closes may come after the handshake, and be overtaken by the end itself.
            raise ConnectionLostError(f"{error}: see tlsCert and tlsKey") from None

    def _wait_for_info(self, deadline: float) -> dict[str, Any]:
        while True:
            for control in self._read_until(deadline).controls:
                if isinstance(control, Info):
                    return self._document(control)
                if isinstance(control, ServerError):
                    raise self._complaint(control.text)

    def _wait_for_pong(self, deadline: float) -> None:
        while True:
            arrived = self._read_until(deadline)
            self._answer_controls(arrived)
            if any(isinstance(control, ServerPong) for control in arrived.controls):
                return

    # --- bytes ---------------------------------------------------------------------------------

    def send(self, frames: bytes) -> None:
        """Write protocol bytes, all of them. Raises ConnectionLostError."""
        connection = self._opened()
        try:
            connection.settimeout(self.login.request_timeout_s)
            connection.sendall(frames)
        except OSError as error:
            self.close()
            raise ConnectionLostError(f"the connection to the server was lost: {error}") from None

    def receive(self, timeout_s: float) -> Deliveries:
        """The messages of the next read, without answers to requests; empty when time is up.

        Without time, only messages that have arrived already. Raises ConnectionLostError, and
        RefusedError for a permission that the server denies.
        """
        if self._waiting:
            return self._waiting.pop(0)
        deadline = time.monotonic() + timeout_s
        left_s = timeout_s
        while True:
            try:
                arrived = self._read(left_s)
            except TimedOutError:
                return Deliveries()
            if self._replies_sid and self._replies_sid in arrived.sids:
                # Of a request that was given up.
                arrived = self._without_replies(arrived)
            self._answer_controls(arrived)
            left_s = deadline - time.monotonic()
            if len(arrived) or left_s <= 0:
                return arrived

    def _read_until(self, deadline: float) -> Deliveries:
        """One read, if there is time for it. Raises as `_read`."""
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            raise TimedOutError("the server did not answer in time")
        return self._read(left_s)

    def _read(self, timeout_s: float) -> Deliveries:
        """One read, decoded. Raises TimedOutError, ConnectionLostError and RefusedError."""
        connection = self._opened()
        try:
            connection.settimeout(max(timeout_s, 0.0))
            data = connection.recv(READ_BYTES)
        except (TimeoutError, BlockingIOError, ssl.SSLWantReadError):
            raise TimedOutError("the server did not answer in time") from None
        except OSError as error:
            self.close()
            if (alert := alert_of(error)) is not None:
                reason = f"the server ended TLS (see tlsCert and tlsKey): {alert}"
                raise RefusedError(reason) from None
            raise ConnectionLostError(f"the connection to the server was lost: {error}") from None
        if not data:
            self.close()
            raise ConnectionLostError("the server closed the connection")
        try:
            return self._decoder.feed(data)
        except PeerError as error:
            self.close()
            raise ConnectionLostError(error.reply) from None

    def _answer_controls(self, arrived: Deliveries) -> None:
        """Answer a PING; raise what the server complains of, the messages kept for `receive`."""
        complaint: LinkError | None = None
        for control in arrived.controls:
            if isinstance(control, ServerPing):
                self.send(b"PONG\r\n")
            elif isinstance(control, Info):
                self.info |= self._document(control)
            elif isinstance(control, ServerError):
                complaint = self._complaint(control.text)
        if complaint is not None:
            if len(arrived) and self.is_open:
                self._waiting.append(arrived)
            raise complaint

    def _document(self, info: Info) -> dict[str, Any]:
        try:
            return decode_object(info.document)
        except PeerError as error:
            self.close()
            raise ConnectionLostError(f"the server's INFO is {error.reply}") from None

    def _complaint(self, text: str) -> LinkError:
        """The error for an -ERR of the server, which may end the connection."""
        if text.startswith(PASSING_COMPLAINTS):
            self.close()
            return ConnectionLostError(f"the server closed the connection: {text}")
        if not text.startswith("Authorization Violation"):
            return RefusedError(f"the server refused: {text}")
        method = self.login.method
        if method == NO_CREDENTIALS:
            advice = "set user and password, token, nkey or creds"
            return RefusedError(f"the server wants credentials ({text}): {advice}")
        return RefusedError(f"the server refused the credentials given by {method} ({text})")

    def _opened(self) -> socket.socket:
        if self._socket is None:
            raise ConnectionLostError("the connection to the server was lost")
        return self._socket

    # --- subscriptions and requests ------------------------------------------------------------

    def subscribe(self, subject: str) -> bytes:
        """Ask for what is sent to a subject; the id by which `receive` tells it from others."""
        self._sids += 1
        sid = b"%d" % self._sids
        self.send(frames.subscribe_frame(_encoded(subject), sid))
        return sid

    def unsubscribe(self, sid: bytes) -> None:
        """Ask for no more of it; what is under way still arrives."""
        self.send(frames.unsubscribe_frame(sid))

    def new_inbox(self) -> str:
        """A subject that nobody else uses."""
        return f"_INBOX.{secrets.token_hex(11)}"

    def request(
        self,
        subject: str,
        payload: bytes = b"",
        header: bytes = b"",
        timeout_s: float | None = None,
    ) -> Reply:
        """Ask, and wait for the one answer.

        Raises NoRespondersError, TimedOutError, ConnectionLostError and RefusedError.
        """
        size, size_max = len(header) + len(payload), self.info.get("max_payload", 0)
        if size > size_max > 0:
            raise RefusedError(f"{size} bytes are more than the server's max_payload of {size_max}")
        frame_subject = _encoded(subject)
        if not self._replies_sid:
            self._replies_sid = self.subscribe(f"{self._inbox}.*")
        self._requests += 1
        inbox = b"%b.%d" % (self._inbox.encode(), self._requests)
        self.send(frames.publish_frame(frame_subject, inbox, header, payload))
        wait_s = self.login.request_timeout_s if timeout_s is None else timeout_s
        deadline = time.monotonic() + wait_s
        while True:
            try:
                arrived = self._read_until(deadline)
            except TimedOutError:
                raise TimedOutError(f"no answer from {subject} within {wait_s:g} s") from None
            reply = _reply_to(inbox, arrived)
            others = self._without_replies(arrived)
            self._answer_controls(others)
            if len(others):
                self._waiting.append(others)
            if reply is None:
                continue
            if reply.status == NO_RESPONDERS and not reply.payload:
                raise NoRespondersError(f"nobody answers {subject}")
            return reply

    def _without_replies(self, arrived: Deliveries) -> Deliveries:
        """The messages of subscriptions, without answers to requests."""
        others = [at for at, sid in enumerate(arrived.sids) if sid != self._replies_sid]
        return arrived.picked(others)

    def retry(self, action: Callable[[], Answer]) -> Answer:
        """The answer of `action`, which is repeated if the connection is lost or silent.

        Only for actions that may be carried out twice. Each try but the first has a new connection.
        A server may be back before its JetStream is: then there are no responders for a moment.
        """
        outage = Outage(self.login)
        while True:
            try:
                if not self.is_open:
                    self.reconnect()
                answer = action()
            except (ConnectionLostError, TimedOutError) as error:
                self.close()
                outage.pause(error)
            except NoRespondersError as error:
                if not outage.has_begun:
                    raise
                outage.pause(error)
            except ApiRefusedError as error:
                if not error.is_passing:
                    raise
                outage.pause(error)
            else:
                outage.end()
                return answer


def probe_server(login: Login) -> None:
    """Connect once at the start of a job. Raises the LinkError that a task would meet later."""
    Connection(login.at_start).close()


def _reply_to(inbox: bytes, arrived: Deliveries) -> Reply | None:
    if inbox not in arrived.subjects:
        return None
    at = arrived.subjects.index(inbox)
    header = arrived.headers[at]
    return Reply(inbox, header, arrived.payloads[at], status_of(header))


def _encoded(subject: str) -> bytes:
    if not _SUBJECT.fullmatch(subject):
        raise LinkError(f"{subject!r} is not a subject: it is empty or has white space in it")
    return subject.encode()


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, OSError):
        return error.strerror or str(error)
    return str(error)
