"""One connected client as the server knows it, and its subscriptions.

Pure state: the options of its CONNECT, its subscriptions, the bytes that wait to be written to it,
and the counters that monitoring shows. The bytes in `out` go to the connection once per turn of the
loop (`headwater.server.core.out_buffers`).
"""

from collections.abc import Callable, Sequence
from typing import Final, Protocol, final

from headwater.go.quoting import quote
from headwater.jetstream.streams.publishing.incoming import Incoming
from headwater.runtime.environment import TimerHandle
from headwater.runtime.tls import TlsState
from headwater.server.core.permissions import ConnectionPermissions
from headwater.server.core.subject_space import SubjectSpace
from headwater.wire import frames
from headwater.wire.batch import Segment
from headwater.wire.decoder import ClientDecoder
from headwater.wire.info import ConnectOptions
from headwater.wire.session import Session

# The limit of a subscription that has ended: routes that were handed out may still have it.
ENDED: Final = -1

# The user name that is shown for a client that came with a token.
_TOKEN_USER: Final = "[REDACTED]"


class Connection(Protocol):
    """The socket of a client, as far as the server needs it."""

    @property
    def peer_host(self) -> str: ...

    @property
    def peer_port(self) -> int: ...

    def write(self, data: bytes) -> int:
        """Queue bytes; never blocks. Returns `buffered_bytes`."""
        ...

    def buffered_bytes(self) -> int:
        """Bytes queued and not yet taken by the operating system."""
        ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def close(self) -> None:
        """Write the queued bytes, then close."""
        ...

    def abort(self) -> None:
        """Close at once, dropping the queued bytes."""
        ...


class Inlet(Protocol):
    """The place where publishes for a stream are gathered until the turn ends."""

    # Whether anything was gathered in this turn.
    waiting: bool
    # The mark that another server has echoed before its publishes are for this inlet; 0 for none.
    since_mark: int
    incoming: Incoming
    # Clients whose publishes were gathered, in order, and where those of each begin.
    publishers: list["Client"]
    starts: list[int]

    @property
    def owner(self) -> "InletOwner": ...

    def take(self) -> Incoming:
        """Remove and return the gathered publishes."""
        ...


class InletOwner(Protocol):
    """The part of a server that processes the publishes of an inlet."""

    def process(self, inlet: Inlet) -> None:
        """Take the gathered publishes into a stream, or hand them to consumers."""
        ...


# The handler of a subscription of the server itself: it is called with the source, subject, reply,
# header size and payload of a message, and returns False if nobody took the message after all.
Handler = Callable[["Client | None", bytes, bytes | None, int, bytes], bool | None]

# A handler of many requests without headers and payloads: it is called with subjects and replies,
# and returns the positions of requests that nobody took, or None to have them handled one by one.
BatchHandler = Callable[[list[bytes], list[bytes]], list[int] | None]


# A handler of messages of a stream: it is called with subjects, replies, headers and payloads.
StoredHandler = Callable[[list[bytes], Sequence[bytes], list[bytes], list[bytes]], object]


@final
class Subscription:
    """One SUB of one client, or a service of the server itself."""

    __slots__ = (
        "answer_all",
        "client",
        "delivered",
        "handler",
        "ingest",
        "limit",
        "queue",
        "serves_peers",
        "sid",
        "subject",
        "tail",
        "take_stored",
        "unchecked",
    )

    def __init__(
        self,
        client: "Client",
        subject: bytes,
        queue: bytes | None,
        sid: bytes,
        handler: Handler | None = None,
    ) -> None:
        self.client = client
        self.subject = subject
        self.queue = queue
        self.sid = sid
        self.handler = handler
        # The handler of many requests at once, if the service has one.
        self.answer_all: BatchHandler | None = None
        # The inlet of a stream, if the subscription is that of a stream.
        self.ingest: Inlet | None = None
        # Takes messages of a stream in columns, for a stream of this server that copies them.
        self.take_stored: StoredHandler | None = None
        # Whether it is of the server itself, and gets messages of other servers as well.
        self.serves_peers = False
        # The part of a MSG line between the subject and the reply or the size.
        self.tail = frames.tail_of(sid)
        self.delivered = 0
        # UNSUB max: the delivery after which the subscription ends; 0 for none.
        self.limit = 0
        # A message may be appended without any check.
        self.unchecked = False

    def end(self) -> None:
        """Take no messages any more."""
        self.limit = ENDED
        self.unchecked = False

    def update_checks(self) -> None:
        """Recompute whether deliveries need a check."""
        permissions = self.client.permissions
        self.unchecked = (
            self.handler is None
            and self.ingest is None
            and self.limit == 0
            and self.client.headers
            and not self.client.traced
            and (
                permissions is None
                or not (permissions.filters_deliveries or permissions.tracks_replies)
            )
        )


@final
class Backlog:
    """Bytes and operations that a client sent and the server has not performed, in order."""

    __slots__ = ("is_queued", "lost_reason", "reads", "segments")

    def __init__(self) -> None:
        # Bytes that were read and not decoded, and operations not performed.
        self.reads: list[bytes] = []
        self.segments: list[Segment] = []
        # The backlog waits for its turn.
        self.is_queued = False
        # The reason for which the connection was lost while there was a backlog.
        self.lost_reason = ""

    def clear(self) -> None:
        """Forget the bytes and operations."""
        self.reads, self.segments = [], []


@final
class Liveness:
    """The times at which a client was heard and pinged, and its round trip."""

    __slots__ = (
        "last_activity_wall_ns",
        "last_in_ns",
        "ping_sent_ns",
        "pings_out",
        "rtt_ns",
        "started_ns",
        "started_wall_ns",
        "stopped_wall_ns",
    )

    def __init__(self) -> None:
        self.started_ns = 0
        self.started_wall_ns = 0
        self.stopped_wall_ns = 0
        self.last_activity_wall_ns = 0
        self.last_in_ns = 0
        self.ping_sent_ns = 0
        # Pings that were not answered.
        self.pings_out = 0
        self.rtt_ns = 0

    def start(self, now_ns: int, wall_ns: int) -> None:
        """The connection was made."""
        self.started_ns = self.last_in_ns = now_ns
        self.started_wall_ns = self.last_activity_wall_ns = wall_ns

    def measure_connect(self, now_ns: int, wall_ns: int) -> None:
        """CONNECT came, which a client sends in answer to INFO."""
        self.last_activity_wall_ns = wall_ns
        self.rtt_ns = max(1, now_ns - self.started_ns)

    def measure_pong(self, now_ns: int) -> None:
        """PONG came. Without a ping before it, it is measured from the start, as CONNECT is."""
        self.pings_out = 0
        self.rtt_ns = max(1, now_ns - (self.ping_sent_ns or self.started_ns))

    def needs_ping(self, now_ns: int, silence_ns_max: float, rtt_age_ns_max: float) -> bool:
        """Whether the client was silent for too long, or its round trip was measured long ago."""
        is_old = self.ping_sent_ns == 0 or now_ns - self.ping_sent_ns > rtt_age_ns_max
        return is_old or now_ns - self.last_in_ns >= silence_ns_max

    def count_ping(self, now_ns: int) -> None:
        """A ping is sent."""
        self.ping_sent_ns = now_ns
        self.pings_out += 1


@final
class Timers:
    """The timers of one client that are running."""

    __slots__ = ("auth", "handshake", "ping", "stall", "write")

    def __init__(self) -> None:
        # The handshake of TLS has to be complete before this.
        self.handshake: TimerHandle | None = None
        # CONNECT has to come before this.
        self.auth: TimerHandle | None = None
        # The next look at the client's silence.
        self.ping: TimerHandle | None = None
        # The client is held back as a publisher until this.
        self.stall: TimerHandle | None = None
        # The queued bytes have to be taken before this.
        self.write: TimerHandle | None = None

    def cancel_auth(self) -> None:
        """CONNECT came."""
        if self.auth is not None:
            self.auth.cancel()
            self.auth = None

    def cancel_handshake(self) -> None:
        """The handshake is complete."""
        if self.handshake is not None:
            self.handshake.cancel()
            self.handshake = None

    def cancel_write(self) -> None:
        """The queued bytes were taken."""
        if self.write is not None:
            self.write.cancel()
            self.write = None

    def cancel_all(self) -> None:
        """The client is gone."""
        for timer in (self.handshake, self.auth, self.ping, self.stall, self.write):
            if timer is not None:
                timer.cancel()
        self.handshake = self.auth = self.ping = self.stall = self.write = None


@final
class Client:
    """One connection and everything known of it.

    Fields that are used for every message stand here; the others are grouped by their owner:
    `session` and `username` belong to the login, `liveness` to the pings, `backlog` to the intake.
    """

    __slots__ = (
        "account",
        "awaited",
        "backlog",
        "cid",
        "close_reason",
        "congested",
        "connect",
        "connection",
        "decoder",
        "dirty",
        "guarded",
        "headers",
        "in_bytes",
        "in_msgs",
        "is_system",
        "is_tls_first",
        "label",
        "liveness",
        "max_subscriptions",
        "no_responders",
        "nonce",
        "out",
        "out_bytes",
        "out_msgs",
        "permissions",
        "session",
        "subscriptions",
        "timers",
        "tls",
        "traced",
        "username",
        "written_bytes",
    )

    def __init__(
        self,
        cid: int,
        connection: Connection,
        decoder: ClientDecoder,
        account: "SubjectSpace[Client, Subscription]",
    ) -> None:
        self.cid = cid
        self.connection = connection
        self.decoder = decoder
        self.account = account
        self.connect = ConnectOptions()
        self.session = Session()
        self.liveness = Liveness()
        self.backlog = Backlog()
        self.timers = Timers()
        self.username = ""
        # The text that the client was asked to sign; empty if no user signs.
        self.nonce = ""
        # The agreement of the handshake; None without TLS, and before it.
        self.tls: TlsState | None = None
        # Whether INFO came after the handshake.
        self.is_tls_first = False
        self.permissions: ConnectionPermissions | None = None
        self.headers = False
        self.no_responders = False
        # The server's limit, or the account's where it is lower; 0 is no limit.
        self.max_subscriptions = 0
        # Whether the account is the system account.
        self.is_system = False
        # Publishes are checked one by one: those of verbose, pedantic, restricted and headerless
        # clients.
        self.guarded = True
        self.subscriptions: dict[bytes, Subscription] = {}
        self.out: list[bytes] = []
        self.dirty = False
        # More is queued for the client than it reads: publishers to it are held back.
        self.congested = False
        # Every frame from and to the client is logged.
        self.traced = False
        # Pieces of work that the client caused, and that its next operations wait for.
        self.awaited = 0
        self.close_reason = ""
        self.label = f"{connection.peer_host}:{connection.peer_port} - cid:{cid}"
        self.in_msgs = 0
        self.in_bytes = 0
        self.out_msgs = 0
        self.out_bytes = 0
        # `out_bytes` when `out` was last written.
        self.written_bytes = 0

    @property
    def has_backlog(self) -> bool:
        """Whether the client sent operations that have not been performed."""
        backlog = self.backlog
        return bool(backlog.segments or backlog.reads) or self.decoder.stopped

    @property
    def is_stalled(self) -> bool:
        """Whether the client is held back as a publisher."""
        return self.timers.stall is not None

    @property
    def is_held_back(self) -> bool:
        """Whether the client has to wait before more of its operations are performed."""
        return (
            self.backlog.is_queued
            or self.session.waits
            or self.timers.stall is not None
            or self.awaited > 0
        )

    @property
    def is_closed(self) -> bool:
        """Whether the connection has ended."""
        return self.close_reason != ""

    @property
    def max_payload(self) -> int:
        """The largest payload that the client may publish."""
        return self.decoder.max_payload

    # --- shown by monitoring; `ClosedClient` keeps as much of a connection that has ended --------

    @property
    def started_wall_ns(self) -> int:
        """The time at which the connection was made."""
        return self.liveness.started_wall_ns

    @property
    def stopped_wall_ns(self) -> int:
        """The time at which the connection ended; 0 while it is open."""
        return self.liveness.stopped_wall_ns

    @property
    def last_activity_wall_ns(self) -> int:
        """The time of the last operation of the client's own accord."""
        return self.liveness.last_activity_wall_ns

    @property
    def rtt_ns(self) -> int:
        """The last round trip that was measured."""
        return self.liveness.rtt_ns

    @property
    def peer_host(self) -> str:
        """The address the client connected from."""
        return self.connection.peer_host

    @property
    def peer_port(self) -> int:
        """The port the client connected from."""
        return self.connection.peer_port

    @property
    def certificates(self) -> Sequence[bytes]:
        """The certificates that the client presented, in DER form."""
        return () if self.tls is None else self.tls.peer_certificates

    @property
    def account_name(self) -> str:
        """The name of the account the client is in."""
        return self.account.name

    @property
    def authorized_user(self) -> str:
        """The user of the client, or the one that its CONNECT names; a token is not shown."""
        connect = self.connect
        user = connect.nkey or self.username or connect.user
        if user or connect.jwt or not connect.auth_token:
            return user
        return _TOKEN_USER

    @property
    def name(self) -> str:
        """The name the client gave itself."""
        return self.connect.name

    @property
    def lang(self) -> str:
        """The language of the client library."""
        return self.connect.lang

    @property
    def version(self) -> str:
        """The version of the client library."""
        return self.connect.version

    @property
    def pending_bytes(self) -> int:
        """Bytes that are queued for the client and not yet taken by the operating system."""
        return sum(map(len, self.out)) + self.connection.buffered_bytes()

    @property
    def subscription_count(self) -> int:
        """The number of subscriptions of the client."""
        return len(self.subscriptions)

    def update_checks(self) -> None:
        """Recompute which publishes and deliveries need checks, from CONNECT and permissions."""
        restricted = self.permissions is not None and self.permissions.restricts_publishing
        self.guarded = (
            self.connect.verbose or self.connect.pedantic or restricted or not self.headers
        )
        for subscription in self.subscriptions.values():
            subscription.update_checks()

    def relabel(self) -> None:
        """Add the client's version, language, name and user to its label in the log."""
        connect = self.connect
        said = ":".join(
            part
            for part in (connect.version and f"v{connect.version}", connect.lang, connect.name)
            if part
        )
        label = f"{self.connection.peer_host}:{self.connection.peer_port} - cid:{self.cid}"
        if said:
            label += f" - {quote(said)}"
        user = "token" if connect.auth_token else ""
        user = f"user:{connect.user}" if connect.user else user
        if user:
            label += f" - {quote(f'{self.account.name}/{user}')}"
        self.label = label
