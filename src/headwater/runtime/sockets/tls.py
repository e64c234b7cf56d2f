"""TLS between a socket and its protocol, on memory buffers.

    socket ─▶ TlsTransport ─▶ protocol          WAITING ──▶ HANDSHAKE ──▶ SECURED ──▶ CLOSED
           ◀──     │      ◀── write                └── the peer speaks plainly, and may

A `TlsTransport` is the protocol of the transport below it, and the transport of the protocol above.
It lets clear text pass until the peer begins a handshake, so that INFO can precede it.

A handshake signs and verifies, which takes up to some milliseconds. Its steps therefore run in a
few threads of their own (`Handshakes`): the loop and the threads that sync files never wait for
them, and a peer that is slow or hostile costs its own connection only. Encryption of an open
connection runs on the loop.

Must not know: the protocol above, nor the time that a handshake may take. The protocol above ends
the connection when a handshake is late.
"""

import asyncio
import ssl
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC
from enum import Enum
from typing import Any, Final, Protocol, cast, final

from headwater.base.clock import NS_PER_S
from headwater.runtime.tls import CIPHERS, CURVES, TlsError, TlsSettings, TlsState

# The first byte of a handshake.
HANDSHAKE_RECORD: Final = 0x16
# More bytes than any client needs for its part of a handshake, with a long chain of certificates.
HANDSHAKE_BYTES_MAX: Final = 256 * 1024
# So many reads of a socket wait for a thread; the rest stays in the socket.
HELD_READS_MAX: Final = 4
# Handshakes that are worked on at once. Others wait in the order of their arrival.
HANDSHAKE_THREADS: Final = 2
# So many certificates of a peer are kept: more than the authorities of any chain.
PEER_CERTIFICATES_MAX: Final = 16
# A record has at most 16 KiB of text.
READ_BYTES: Final = 16 * 1024

NOT_TLS: Final = "tls: first record does not look like a TLS handshake"
TOO_LONG: Final = "tls: handshake message is too long"

# Texts of nats-server for the reasons that OpenSSL gives.
_REASONS: Final = {
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "tls: client didn't provide a certificate",
    "UNSUPPORTED_PROTOCOL": "tls: client offered only unsupported versions",
    "NO_SHARED_CIPHER": "tls: no cipher suite supported by both client and server",
    "UNEXPECTED_EOF_WHILE_READING": "EOF",
}
_GO_CIPHERS: Final = {openssl: go for go, openssl in reversed([*CIPHERS.items()])}


class Phase(Enum):
    """The state of a connection on its way to TLS."""

    # The peer has not sent anything. Clear text may be written.
    WAITING = 1
    HANDSHAKE = 2
    SECURED = 3
    CLOSED = 4


class TlsUser(Protocol):
    """The protocol above, which gets clear text. It is a protocol of asyncio, and this besides."""

    def data_received(self, data: bytes) -> None: ...

    def connection_lost(self, error: Exception | None) -> None: ...

    def pause_writing(self) -> None: ...

    def resume_writing(self) -> None: ...

    def handshake_begun(self) -> None:
        """The peer has begun a handshake."""
        ...

    def secured(self, state: TlsState) -> None:
        """The handshake is complete; text that is written from now on is encrypted."""
        ...

    def waived(self, transport: asyncio.Transport) -> None:
        """The peer speaks plainly, and may: `transport` is its socket from now on."""
        ...

    def handshake_failed(self, reason: str) -> None:
        """The handshake has failed. The connection is to be closed."""
        ...


class Handshakes:
    """The threads in which handshakes are made, for all connections of a process."""

    __slots__ = ("_executor",)

    def __init__(self) -> None:
        self._executor: ThreadPoolExecutor | None = None

    def run(self, work: Callable[[], object], done: Callable[["Future[Any]"], object]) -> None:
        """Run `work` in a thread, then `done` on the loop with its result."""
        if self._executor is None:
            self._executor = ThreadPoolExecutor(HANDSHAKE_THREADS, "tls")
        loop = asyncio.get_running_loop()
        future = self._executor.submit(work)
        future.add_done_callback(lambda ended: _call_on(loop, done, ended))


def _call_on(
    loop: asyncio.AbstractEventLoop,
    done: Callable[["Future[Any]"], object],
    ended: "Future[Any]",
) -> None:
    try:
        loop.call_soon_threadsafe(done, ended)
    except RuntimeError:
        # The loop was closed meanwhile, and the connection with it.
        pass


_HANDSHAKES: Final = Handshakes()


@final
class SystemTlsContext:
    """A context of OpenSSL, and what is known of its certificate."""

    __slots__ = ("not_after_ns", "ssl_context")

    def __init__(self, ssl_context: ssl.SSLContext, not_after_ns: int) -> None:
        self.ssl_context = ssl_context
        self.not_after_ns = not_after_ns


# --- certificates ------------------------------------------------------------------------------


def load_context(settings: TlsSettings) -> SystemTlsContext:
    """Read the files of a listener. Raises TlsError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    only_tls_1_3 = settings.only_tls_1_3
    context.minimum_version = ssl.TLSVersion.TLSv1_3 if only_tls_1_3 else ssl.TLSVersion.TLSv1_2
    not_after_ns = _load_chain(context, settings) if settings.cert_file else 0
    if settings.cipher_suites:
        suites = (CIPHERS.get(name, "") for name in settings.cipher_suites)
        if named := ":".join(suite for suite in suites if suite):
            context.set_ciphers(named)
        else:
            # No suite of TLS 1.2 was named.
            context.minimum_version = ssl.TLSVersion.TLSv1_3
    if settings.curve:
        context.set_ecdh_curve(CURVES[settings.curve])
    if settings.ca_file:
        _load_authorities(context, settings.ca_file)
    elif settings.verify:
        context.load_default_certs(ssl.Purpose.CLIENT_AUTH)
    if settings.verify:
        context.verify_mode = ssl.CERT_REQUIRED
        # A ticket does not hold the certificates of its client: a connection that is resumed by one
        # would have none.
        context.options |= ssl.OP_NO_TICKET
        context.num_tickets = 0
    else:
        context.verify_mode = ssl.CERT_NONE
    return SystemTlsContext(context, not_after_ns)


def _load_chain(context: ssl.SSLContext, settings: TlsSettings) -> int:
    """Load certificate and key. Returns the end of the certificate's validity."""
    # Only servers with TLS spend the time for this import.
    from cryptography import x509

    about = "error parsing X509 certificate/key pair"
    for path in (settings.cert_file, settings.key_file):
        _check_readable(path, f"{about}: ")
    try:
        with open(settings.cert_file, "rb") as file:
            leaf = x509.load_pem_x509_certificates(file.read())[0]
    except ValueError:
        reason = "tls: failed to find any PEM data in certificate input"
        raise TlsError(f"{about}: {reason}") from None
    try:
        context.load_cert_chain(settings.cert_file, settings.key_file, password=_no_password)
    except ssl.SSLError as error:
        reason = "tls: private key does not match public key"
        if error.reason != "KEY_VALUES_MISMATCH":
            reason = "tls: failed to find any PEM data in key input"
        raise TlsError(f"{about}: {reason}") from None
    not_after = leaf.not_valid_after_utc.astimezone(UTC)
    return int(not_after.timestamp()) * NS_PER_S


def _no_password() -> str:
    raise TlsError(
        "error parsing X509 certificate/key pair: the key is encrypted, store it plainly"
    )


def _load_authorities(context: ssl.SSLContext, path: str) -> None:
    _check_readable(path)
    try:
        context.load_verify_locations(path)
    except ssl.SSLError:
        raise TlsError("failed to parse root ca certificate") from None


def _check_readable(path: str, about: str = "") -> None:
    try:
        with open(path, "rb"):
            pass
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise TlsError(f"{about}open {path}: {reason}") from None


# --- connections -------------------------------------------------------------------------------


@final
class TlsTransport(asyncio.Transport, asyncio.Protocol):
    """One connection on its way to TLS, and in it. `allows_plain`: the peer may do without."""

    __slots__ = (
        "_allows_plain",
        "_given_bytes",
        "_held",
        "_incoming",
        "_is_working",
        "_lower",
        "_object",
        "_outgoing",
        "_user",
        "phase",
    )

    def __init__(
        self,
        lower: asyncio.Transport,
        user: TlsUser,
        context: SystemTlsContext,
        allows_plain: bool = False,
    ) -> None:
        super().__init__()
        self._lower = lower
        self._user = user
        self._allows_plain = allows_plain
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._object = context.ssl_context.wrap_bio(
            self._incoming, self._outgoing, server_side=True
        )
        # Bytes that arrived while a thread was at work.
        self._held: list[bytes] = []
        # Bytes that the handshake has taken.
        self._given_bytes = 0
        # Whether a thread works on the handshake, and owns the object and both buffers.
        self._is_working = False
        self.phase = Phase.WAITING
        lower.set_protocol(self)

    # --- called by the loop --------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """Called by the loop with bytes of the peer."""
        if self.phase is Phase.SECURED:
            self._incoming.write(data)
            self._read()
        elif self.phase is Phase.HANDSHAKE:
            self._hold(data)
        elif self.phase is Phase.WAITING:
            self._begin(data)

    def connection_lost(self, error: Exception | None) -> None:
        """Called by the loop when the socket is closed."""
        self.phase = Phase.CLOSED
        self._held.clear()
        self._user.connection_lost(error)

    def pause_writing(self) -> None:
        """Called by the loop when the peer reads more slowly than we write."""
        self._user.pause_writing()

    def resume_writing(self) -> None:
        """Called by the loop when the peer has caught up."""
        self._user.resume_writing()

    # --- the handshake -------------------------------------------------------------------------

    def _begin(self, data: bytes) -> None:
        if data[0] == HANDSHAKE_RECORD:
            self.phase = Phase.HANDSHAKE
            self._user.handshake_begun()
            if self.phase is Phase.HANDSHAKE:
                self._hold(data)
        elif self._allows_plain:
            self.phase = Phase.CLOSED
            # The protocol above is one of asyncio, and has its own socket again.
            self._lower.set_protocol(self._user)  # type: ignore[arg-type]
            self._user.waived(self._lower)
            self._user.data_received(data)
        else:
            self._fail(NOT_TLS)

    def _hold(self, data: bytes) -> None:
        self._held.append(data)
        if not self._is_working:
            self._work()
        elif len(self._held) == HELD_READS_MAX:
            # A client may send text right behind its part of the handshake.
            self._lower.pause_reading()

    def _work(self) -> None:
        """Have a thread go on with the handshake."""
        self._given_bytes += self._feed_held()
        self._is_working = True
        _HANDSHAKES.run(self._object.do_handshake, self._worked)

    def _worked(self, ended: "Future[Any]") -> None:
        """A thread has used up the bytes of the peer."""
        self._is_working = False
        if self.phase is not Phase.HANDSHAKE:
            return
        error = ended.exception()
        if reply := self._outgoing.read():
            self._lower.write(reply)
        if error is None:
            self.phase = Phase.SECURED
            self._user.secured(self._state())
            self._feed_held()
            self._read()
        elif not isinstance(error, ssl.SSLWantReadError):
            self._fail(_reason(error))
        elif self._given_bytes > HANDSHAKE_BYTES_MAX:
            self._fail(TOO_LONG)
        elif self._held:
            self._work()

    def _feed_held(self) -> int:
        """Hand on the bytes that arrived while a thread was at work. Returns their size."""
        is_paused = len(self._held) >= HELD_READS_MAX
        held = b"".join(self._held)
        self._held.clear()
        self._incoming.write(held)
        if is_paused:
            self._lower.resume_reading()
        return len(held)

    def _fail(self, reason: str) -> None:
        self._user.handshake_failed(reason)

    def _state(self) -> TlsState:
        version = (self._object.version() or "").removeprefix("TLSv")
        cipher = self._object.cipher()
        name = "" if cipher is None else cipher[0]
        chain: tuple[bytes, ...] = ()
        if self._object.context.verify_mode is ssl.CERT_REQUIRED:
            chain = _presented_chain(self._object)[:PEER_CERTIFICATES_MAX]
        return TlsState(version, _GO_CIPHERS.get(name, name), chain)

    # --- text ----------------------------------------------------------------------------------

    def _read(self) -> None:
        """Hand on the text that has arrived."""
        read, parts = self._object.read, []
        is_ended = False
        try:
            while part := read(READ_BYTES):
                parts.append(part)
            is_ended = True
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError:
            is_ended = True
        if self._outgoing.pending:
            self._lower.write(self._outgoing.read())
        if parts:
            self._user.data_received(parts[0] if len(parts) == 1 else b"".join(parts))
        if is_ended and self.phase is not Phase.CLOSED:
            self.close()

    def write(self, data: Any) -> None:
        """Encrypt text and queue it; before the handshake it is queued as it is."""
        if self.phase is Phase.WAITING:
            self._lower.write(data)
        if self.phase is not Phase.SECURED:
            return
        write, left = self._object.write, memoryview(data)
        try:
            while left:
                left = left[write(left) :]
        except ssl.SSLError:
            self.abort()
            return
        self._lower.write(self._outgoing.read())

    # --- the transport of the protocol above ---------------------------------------------------

    def get_write_buffer_size(self) -> int:
        """Bytes queued and not yet written to the operating system."""
        return self._lower.get_write_buffer_size()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Set the marks at which writing is paused and resumed."""
        self._lower.set_write_buffer_limits(high=high, low=low)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Facts about the socket."""
        return self._lower.get_extra_info(name, default)

    def is_reading(self) -> bool:
        """Whether bytes of the peer are read."""
        return self._lower.is_reading()

    def pause_reading(self) -> None:
        """Leave the peer's bytes in the socket."""
        self._lower.pause_reading()

    def resume_reading(self) -> None:
        """Read again."""
        self._lower.resume_reading()

    def is_closing(self) -> bool:
        """Whether the connection is closed, or about to be."""
        return self._lower.is_closing()

    def close(self) -> None:
        """Tell the peer, write the queued bytes, then close."""
        if self.phase is Phase.SECURED:
            try:
                self._object.unwrap()
            except ssl.SSLError:
                # The peer has not told us of its end, and need not.
                pass
            if self._outgoing.pending:
                self._lower.write(self._outgoing.read())
        self.phase = Phase.CLOSED
        self._lower.close()

    def abort(self) -> None:
        """Close at once."""
        self.phase = Phase.CLOSED
        self._lower.abort()


@final
class SecuredProtocol(asyncio.Protocol):
    """A connection that begins with a handshake, and then is one of another protocol."""

    __slots__ = ("_context", "_inner", "_is_open", "_timeout_s", "_timer", "_transport")

    def __init__(self, inner: asyncio.Protocol, context: SystemTlsContext, timeout_s: float):
        self._inner = inner
        self._context = context
        self._timeout_s = timeout_s
        self._transport: TlsTransport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_open = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop when the socket is open."""
        self._transport = TlsTransport(cast(asyncio.Transport, transport), self, self._context)
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._timeout_s, self._transport.abort)

    def handshake_begun(self) -> None:
        """The peer has begun a handshake."""

    def secured(self, state: TlsState) -> None:
        """The handshake is complete."""
        if self._timer is not None:
            self._timer.cancel()
        if self._transport is not None:
            self._is_open = True
            self._inner.connection_made(self._transport)

    def waived(self, transport: asyncio.Transport) -> None:
        """Not called: the peer has to make a handshake."""

    def handshake_failed(self, reason: str) -> None:
        """The handshake has failed."""
        if self._transport is not None:
            self._transport.close()

    def data_received(self, data: bytes) -> None:
        """Hand on text of the peer."""
        self._inner.data_received(data)

    def connection_lost(self, error: Exception | None) -> None:
        """Called when the socket is closed."""
        self._transport = None
        if self._timer is not None:
            self._timer.cancel()
        if self._is_open:
            self._inner.connection_lost(error)

    def pause_writing(self) -> None:
        """Called when the peer reads more slowly than we write."""
        if self._is_open:
            self._inner.pause_writing()

    def resume_writing(self) -> None:
        """Called when the peer has caught up."""
        if self._is_open:
            self._inner.resume_writing()


# The form of a certificate that the ssl module is asked for.
_DER: Final = 2


def _presented_chain(secured: Any) -> tuple[bytes, ...]:
    """The certificates that the peer has presented, in DER form; the first one is verified."""
    public = getattr(secured, "get_unverified_chain", None)
    if public is not None:
        return tuple(public())
    # Before Python 3.13 only the object inside has it.
    return tuple(each.public_bytes(_DER) for each in secured._sslobj.get_unverified_chain() or ())


def _reason(error: BaseException) -> str:
    """The reason of a failed handshake, as nats-server words it."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"tls: failed to verify certificate: x509: {_verification(error)}"
    reason = getattr(error, "reason", None) or ""
    return _REASONS.get(reason) or f"tls: {reason.replace('_', ' ').lower() or error}"


def _verification(error: ssl.SSLCertVerificationError) -> str:
    # Numbers of OpenSSL: a certificate that is not valid at this time, and an issuer that is not
    # among the authorities.
    if error.verify_code in (9, 10):
        return "certificate has expired or is not yet valid"
    if error.verify_code in (2, 18, 19, 20, 21):
        return "certificate signed by unknown authority"
    return error.verify_message
