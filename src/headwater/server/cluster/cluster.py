"""The links of a server to the other servers of its cluster.

    targets ──▶ dial ──▶ handshake ──▶ open channel ──▶ Peer ──▶ Traffic
    listener ─▶ accept ─▶ handshake ──┘      │
                                             └──▶ MEMBERS: servers that a peer knows become targets

Two servers have one link: of two connections for one purpose the later one is refused, and of two
that are made at the same moment the one that the server with the smaller id dialled stays. A server
that comes back while its old connection still looks open is refused once, and the old connection
has a second to prove that it is alive.

A link of two channels is bounded in memory: a peer for which more than `max_pending` bytes wait, or
that takes no bytes for the write deadline, is disconnected.
"""

from collections.abc import Callable, Iterable
from typing import Final, final

from headwater.base.clock import NS_PER_S
from headwater.base.errors import PeerError
from headwater.go.quoting import quote
from headwater.runtime.environment import Environment
from headwater.server.cluster.channel import Channel
from headwater.server.cluster.dialling import Dialler
from headwater.server.cluster.handshake import (
    AUTHENTICATION_TIMEOUT,
    Credentials,
    Handshake,
    Progress,
    Refusal,
    RefusedByPeer,
    agreed_name,
)
from headwater.server.cluster.introduction import check_introduction, introduction_of
from headwater.server.cluster.listener import (
    NoListener,
    NoRequestListener,
    PeerListener,
    RequestListener,
)
from headwater.server.cluster.members import (
    MEMBERS_MAX,
    checked_members,
    members_of,
    targets_of,
)
from headwater.server.cluster.peer import Peer, opaque
from headwater.server.cluster.pulse import Pulse
from headwater.server.cluster.refusals import Refusals
from headwater.server.cluster.targets import RENEWABLE_S, Target
from headwater.server.cluster.traffic import TOKEN_BYTES, Traffic
from headwater.server.configuration.options import ClusterOptions, Options
from headwater.server.core.accounts import Accounts
from headwater.server.core.broker import Broker
from headwater.server.core.client import Connection
from headwater.server.identity import new_event_id
from headwater.server.log import Log
from headwater.server.settings import Settings
from headwater.wire import frames
from headwater.wire.peer_frames import (
    CLIENT_BYTES_MAX,
    FRAME_BYTES_MAX,
    GREETING_BYTES_MAX,
    ForwardedRequest,
    Kind,
    MalformedFrame,
    decode_forward,
    encode_forward,
    frame,
)
from headwater.wire.peer_info import (
    PeerInfo,
    Purpose,
    decode_info,
    decode_members,
    encode_info,
    encode_members,
    read_line,
)

# Connections in their handshake; more are closed at once, so that strangers cannot fill the memory.
HANDSHAKES_MAX: Final = 1_000
# Servers that are refused for as long as they run; the first ones are forgotten first.
REFUSED_MAX: Final = 1_000

REFUSAL_DELAY_S: Final = 0.1

_NO_TOKEN: Final = bytes(TOKEN_BYTES)

# Reasons of ends, in nats-server's words.
DUPLICATE_ROUTE: Final = "Duplicate Route"
ROUTE_REMOVED: Final = "Route Removed"
SERVER_SHUTDOWN: Final = "Server Shutdown"
CLIENT_CLOSED: Final = "Client Closed"
READ_ERROR: Final = "Read Error"
STALE_CONNECTION: Final = "Stale Connection"
SLOW_CONSUMER_PENDING: Final = "Slow Consumer (Pending Bytes)"
SLOW_CONSUMER_DEADLINE: Final = "Slow Consumer (Write Deadline)"
PROTOCOL_VIOLATION: Final = "Protocol Violation"
AUTHENTICATION_FAILURE: Final = "Authentication Failure"


@final
class _Dial:
    """The handler of a connection that this server makes."""

    __slots__ = ("_cluster", "_purpose", "_target", "lost", "receive", "unwritable", "writable")

    def __init__(self, cluster: "Cluster", target: Target, purpose: Purpose) -> None:
        self._cluster = cluster
        self._target = target
        self._purpose = purpose
        self.receive = cluster.receive
        self.lost = cluster.lost
        self.writable = cluster.writable
        self.unwritable = cluster.unwritable

    def accept(self, connection: Connection) -> Channel:
        """The connection is made."""
        return self._cluster.dialled(connection, self._target, self._purpose)


@final
class Cluster:
    """All links of one server.

    `members_changed` is called when clients should be told of other servers; `next_id` numbers
    connections.
    """

    def __init__(
        self,
        server_id: str,
        name: str,
        environment: Environment,
        settings: Settings,
        log: Log,
        accounts: Accounts,
        broker: Broker,
        next_id: Callable[[], int],
        client_urls: Callable[[], tuple[str, ...]],
        members_changed: Callable[[], None],
        audience_changed: Callable[[], None],
    ) -> None:
        self._server_id, self._server_name = server_id, name
        self._clock = environment.clock
        self._scheduler = environment.scheduler
        self._settings = settings
        self._log = log
        self._turn, self._next_id = broker.turn, next_id
        self._turn.send = self._flush
        self._client_urls, self._members_changed = client_urls, members_changed
        options = settings.options.cluster
        self.cluster_name = options.name or new_event_id(environment.entropy)
        self.is_name_made_up = not options.name
        # Known once the server listens.
        self.port = options.port
        # Set before the server listens, or it misses peers.
        self.listener: PeerListener = NoListener()
        self.request_listener: RequestListener = NoRequestListener()
        # The addresses of configured routes that turned out to be this server.
        self._own_routes: set[str] = set()
        # By server id: peers, and the reasons for which others are refused as long as they run.
        self.peers: dict[str, Peer] = {}
        self._refused: dict[str, str] = {}
        self.channels: dict[Channel, None] = {}
        self.slow_consumers = self.stale_connections = 0
        # Of connections that have ended; those that are open count their own.
        self._ended_counts = [0, 0, 0, 0]
        self.is_lame_duck = self._is_stopped = False
        self._dialler = Dialler(
            environment,
            settings,
            log,
            lambda target, purpose: _Dial(self, target, purpose),
            self._has_channel,
            lambda server_id: any(server_id in peer.members for peer in self.peers.values()),
            lambda name: self.listener.peer_unreachable(name),
        )
        self._refusals = Refusals(log)
        self._pulse = Pulse(
            environment.clock,
            environment.scheduler,
            settings,
            lambda channel: self._queue(channel, Kind.PING, _NO_TOKEN),
            self._end_stale,
        )
        self._dirty: list[Channel] = []
        self._traffic = Traffic(
            accounts,
            broker,
            environment.entropy,
            self._hearing_peers,
            self._touch_peer,
            self._turn.want_sending,
            audience_changed,
        )
        self._traffic.permit(options.permissions)
        self._traffic.accounts_changed()

    @property
    def _options(self) -> Options:
        return self._settings.options

    @property
    def _cluster_options(self) -> ClusterOptions:
        return self._settings.options.cluster

    @property
    def _credentials(self) -> Credentials:
        return Credentials(self._cluster_options.username, self._cluster_options.password)

    def _hearing_peers(self) -> Iterable[Peer]:
        return [peer for peer in self.peers.values() if peer.messages_channel is not None]

    def own_info(self) -> PeerInfo:
        """INFO of this server to others."""
        return introduction_of(
            self._server_id,
            self._server_name,
            self.cluster_name,
            self.is_name_made_up,
            self.port,
            self.is_lame_duck,
            self._options,
            self._client_urls,
        )

    def counts(self) -> tuple[int, int, int, int]:
        """Messages and bytes from other servers, and to them."""
        rows = [channel.counts for channel in self.channels]
        columns = zip(self._ended_counts, *rows, strict=True)
        in_msgs, in_bytes, out_msgs, out_bytes = map(sum, columns)
        return in_msgs, in_bytes, out_msgs, out_bytes

    def client_urls(self) -> list[str]:
        """The addresses that clients may connect to, those of this server first."""
        if self._cluster_options.no_advertise:
            return []
        urls = [*self._client_urls()]
        for peer in self._hearing_peers():
            urls += peer.info.connect_urls if peer.is_welcome else ()
        return [*dict.fromkeys(urls)]

    def configured_servers(self) -> int:
        """The number of servers that the configured routes name, with this one.

        A route to this server itself is counted until it was dialled.
        """
        routes = {route.address for route in self._cluster_options.routes}
        return len(routes - self._own_routes) + 1

    # --- start, stop and reload ----------------------------------------------------------------

    def start(self) -> None:
        """Dial the configured routes."""
        self._dialler.add_routes(self._cluster_options.routes)

    def stop(self) -> None:
        """Close every connection and dial no more."""
        self._is_stopped = True
        self._dialler.stop()
        for channel in [*self.channels]:
            self._close(channel, SERVER_SHUTDOWN)

    def enter_lame_duck_mode(self) -> None:
        """Tell the other servers that clients should not come here any more."""
        self.is_lame_duck = True
        self.announce_info()

    def announce_info(self) -> None:
        """Tell the other servers what has changed in INFO of this one."""
        for peer in self._hearing_peers():
            self._queue(peer.channels[Purpose.MESSAGES], Kind.INFO, encode_info(self.own_info()))

    def accounts_changed(self) -> None:
        """Accounts were made, or are no longer there."""
        self._traffic.accounts_changed()

    def reload(self, old: ClusterOptions) -> None:
        """Take over changed routes, credentials, permissions and addresses."""
        new = self._cluster_options
        if old.name != new.name and new.name:
            self._adopt_name(new.name, is_made_up=False)
        if old.permissions != new.permissions:
            self._traffic.permit(new.permissions)
        removed = {*old.routes} - {*new.routes}
        for route in removed:
            self._remove_route(route.address)
        if removed:
            # A server that was removed may still be one that the others know.
            self._dial_members()
        self._dialler.add_routes(route for route in new.routes if route not in old.routes)
        if (old.username, old.password) != (new.username, new.password):
            # As nats-server does: accepted connections that could not log in any more are closed.
            for channel in [*self.channels]:
                if channel.target is None and not channel.handshake.is_logged_in(self._credentials):
                    self._close(channel, AUTHENTICATION_FAILURE)
        self.listener.members_expected(self.configured_servers())
        if old != new:
            self.announce_info()

    def _remove_route(self, address: str) -> None:
        target = self._dialler.remove(address)
        if target is None:
            return
        for channel in [*self.channels]:
            if channel.target is target:
                self._close(channel, ROUTE_REMOVED)
        self._log.info(f"Removed route {address}")

    # --- peers ---------------------------------------------------------------------------------

    def _has_channel(self, server_id: str, purpose: Purpose) -> bool:
        peer = self.peers.get(server_id)
        return peer is not None and purpose in peer.channels

    # --- called by the runtime -----------------------------------------------------------------

    def accept(self, connection: Connection) -> Channel:
        """Another server, or anybody else, has connected."""
        channel = self._new_channel(connection, None, None)
        if len(self.channels) - sum(len(peer.channels) for peer in self.peers.values()) > (
            HANDSHAKES_MAX
        ):
            self._end(channel, "too many handshakes")
            connection.abort()
            return channel
        channel.out.append(channel.handshake.begin())
        self._touch(channel)
        return channel

    def dialled(self, connection: Connection, target: Target, purpose: Purpose) -> Channel:
        """A connection of this server's own making is open."""
        channel = self._new_channel(connection, target, purpose)
        if target.is_over or self._is_stopped:
            self._close(channel, ROUTE_REMOVED)
        return channel

    def _new_channel(
        self, connection: Connection, target: Target | None, purpose: Purpose | None
    ) -> Channel:
        required = self._credentials
        own = None if target is None else target.credentials or required
        handshake = Handshake(self.own_info(), required, purpose, own)
        channel = Channel(self._next_id(), connection, handshake, target)
        channel.liveness.start(self._clock.monotonic_ns(), self._clock.wall_ns())
        channel.timers.auth = self._scheduler.call_later(
            self._cluster_options.auth_timeout_s,
            lambda: self._refuse(channel, AUTHENTICATION_TIMEOUT),
        )
        self.channels[channel] = None
        return channel

    def receive(self, channel: Channel, data: bytes) -> None:
        """Bytes have come from the other end."""
        if channel.close_reason:
            return
        channel.liveness.last_in_ns = self._clock.monotonic_ns()
        channel.cancel_challenge()
        channel.decoder.feed(data)
        try:
            while channel.handshake.progress is not Progress.OPEN:
                line = channel.decoder.next_line()
                if line is None:
                    return
                self._shake_hands(channel, line)
                if channel.close_reason:
                    return
            if not channel.peer_id:
                self._open(channel)
            # On a slow link the frames for consensus wait behind messages.
            self.listener.peer_heard(self.peers[channel.peer_id].name)
            while found := channel.decoder.frames():
                for kind, body in found:
                    self._take(channel, kind, body)
                    if channel.close_reason:
                        return
        except RefusedByPeer as refusal:
            self._refused_by_peer(channel, refusal.reply)
        except PeerError as error:
            self._refuse(channel, error.reply)

    def lost(self, channel: Channel, was_broken: bool) -> None:
        """The connection is gone."""
        if not channel.close_reason:
            self._end(channel, READ_ERROR if was_broken else CLIENT_CLOSED)

    def writable(self, channel: Channel) -> None:
        """The operating system has taken the queued bytes."""
        channel.timers.cancel_write()
        channel.is_congested = False

    def unwritable(self, channel: Channel) -> None:
        """More is queued than the operating system takes; some has to go until the deadline."""
        if channel.timers.write is None and not channel.close_reason:
            deadline_s = self._cluster_options.write_deadline_s or self._options.write_deadline_s
            taken = channel.taken_bytes
            channel.timers.write = self._scheduler.call_later(
                deadline_s, lambda: self._check_progress(channel, taken, deadline_s)
            )

    def _check_progress(self, channel: Channel, taken: int, deadline_s: float) -> None:
        channel.timers.write = None
        if channel.taken_bytes > taken:
            self.unwritable(channel)
            return
        waiting = channel.connection.buffered_bytes()
        text = f"WriteDeadline of {deadline_s:g}s exceeded with 1 chunks of {waiting} total bytes."
        self._end_slow(channel, SLOW_CONSUMER_DEADLINE, text)

    # --- the handshake -------------------------------------------------------------------------

    def _shake_hands(self, channel: Channel, line: bytes) -> None:
        handshake = channel.handshake
        handshake.receive(read_line(line))
        if handshake.progress is not Progress.MET or handshake.peer is None:
            return
        peer = handshake.peer
        if not self._may_meet(channel, peer):
            return
        self._agree_on_name(peer)
        channel.out.append(handshake.admit())
        self._touch(channel)

    def _may_meet(self, channel: Channel, info: PeerInfo) -> bool:
        """Whether a connection to a server goes on. Raises Refusal."""
        target, purpose = channel.target, channel.purpose
        if target is not None:
            target.peer_id, target.peer_name = info.server_id, info.server_name
        if info.server_id == self._server_id:
            # One of the configured routes is the server itself.
            if target is not None:
                target.end()
                self._own_routes.add(target.address)
                self.listener.members_expected(self.configured_servers())
            self._close(channel, DUPLICATE_ROUTE)
            return False
        if reason := self._refused.get(info.server_id, ""):
            raise Refusal(reason)
        if info.server_id not in self.peers and len(self.peers) >= MEMBERS_MAX:
            # Peers are told of no more, and strangers cannot fill the memory.
            raise Refusal(f"Rejecting connection, there are links to {MEMBERS_MAX} other servers")
        twin = self._twin(info)
        if twin is not None or info.server_name == self._server_name:
            if twin is not None:
                for old in [*twin.channels.values()]:
                    self._pulse.challenge(old)
            raise Refusal(f"Remote server has a duplicate name: {quote(info.server_name)}")
        if self._has_channel(info.server_id, purpose):
            if target is None:
                # The other end may have lost the connection that still looks open here.
                self._pulse.challenge(self.peers[info.server_id].channels[purpose])
            self._close(channel, DUPLICATE_ROUTE)
            return False
        for other in [*self.channels]:
            if other is channel or other.peer_id or other.purpose is not purpose:
                continue
            met = other.handshake.peer
            if met is None or met.server_id != info.server_id:
                continue
            # Both servers dial each other: the connection of the smaller id stays.
            stays = self._server_id < info.server_id
            is_own = other.target is not None
            if stays == is_own:
                self._close(channel, DUPLICATE_ROUTE)
                return False
            self._close(other, DUPLICATE_ROUTE)
        return True

    def _twin(self, info: PeerInfo) -> Peer | None:
        """A peer of that name with another id."""
        for peer in self.peers.values():
            if peer.name == info.server_name and peer.server_id != info.server_id:
                return peer
        return None

    def _agree_on_name(self, peer: PeerInfo) -> None:
        name = agreed_name(
            self.cluster_name, self.is_name_made_up, peer.cluster, peer.cluster_dynamic
        )
        if name is not None and name != self.cluster_name:
            self._adopt_name(name, peer.cluster_dynamic)

    def _adopt_name(self, name: str, is_made_up: bool) -> None:
        self.cluster_name, self.is_name_made_up = name, is_made_up
        self._log.info(f"Cluster name updated to {name}")
        self.announce_info()
        self._members_changed()

    def _open(self, channel: Channel) -> None:
        """The handshake is complete."""
        info = channel.handshake.peer
        if info is None:
            raise MalformedFrame("a handshake without INFO")
        channel.timers.cancel_auth()
        channel.peer_id = info.server_id
        peer = self.peers.get(info.server_id)
        if peer is None:
            peer = self.peers[info.server_id] = Peer(info)
            # Servers that agree with each other may refuse each other for their greetings yet.
            is_greeted = not isinstance(self.listener, NoListener) and info.jetstream
            peer.is_welcome = not (self._options.jetstream.enabled and is_greeted)
        peer.channels[channel.purpose] = channel
        self._refusals.forget(channel)
        self._log.info(f"{channel.label} - Route connection created")
        self._pulse.watch(channel)
        target = channel.target
        if target is not None:
            self._dialler.opened(target, channel.purpose)
        if channel.purpose is Purpose.CONSENSUS:
            # A stranger has no more of it buffered; see `welcome`.
            channel.decoder.bytes_max = GREETING_BYTES_MAX
            self.listener.peer_joined(peer.name)
            return
        peer.info = info
        self._traffic.greet(peer)
        self._tell_members()
        self._members_changed()

    # --- frames --------------------------------------------------------------------------------

    def _take(self, channel: Channel, kind: Kind, body: bytes) -> None:
        """Take a frame. Raises MalformedFrame."""
        peer = self.peers[channel.peer_id]
        if kind is Kind.PING:
            # The messages that were gathered so far arrive before the answer.
            self._traffic.close_frame(peer)
            self._queue(channel, Kind.PONG, body)
            return
        if kind is Kind.PONG:
            if not self._traffic.take_echo(peer, body):
                self._pulse.note_pong(channel)
            return
        channel.liveness.last_activity_wall_ns = self._clock.wall_ns()
        if channel.purpose is Purpose.CONSENSUS:
            if kind is not Kind.CONSENSUS:
                raise MalformedFrame(f"a frame of kind {kind.name} on the channel for consensus")
            self.listener.consensus_received(peer.name, body)
        elif kind is Kind.MESSAGES:
            messages = self._traffic.receive_messages(peer, body)
            channel.in_msgs += len(messages)
            channel.in_bytes += messages.size
        elif kind is Kind.INTEREST:
            self._traffic.receive_interest(peer, body)
        elif kind is Kind.MEMBERS:
            peer.members = checked_members(decode_members(body))
            self._dial_members()
        elif kind is Kind.INFO:
            self._receive_info(peer, decode_info(body))
        elif kind is Kind.CATCH_UP:
            self.listener.catch_up_received(peer.name, body)
        elif kind is Kind.FORWARD:
            request = decode_forward(body)
            channel.in_msgs += 1
            channel.in_bytes += len(request.payload)
            self.request_listener.forwarded(peer.name, *request)
        else:
            raise MalformedFrame(f"a frame of kind {kind.name} on the channel for messages")

    def _receive_info(self, peer: Peer, info: PeerInfo) -> None:
        if (info.server_id, info.server_name) != (peer.server_id, peer.name):
            raise MalformedFrame("INFO of another server")
        check_introduction(info)
        peer.info = info
        self._agree_on_name(info)
        self._members_changed()

    # --- members -------------------------------------------------------------------------------

    def _tell_members(self) -> None:
        """Tell every peer which servers this one has links to."""
        hearing = self._hearing_peers()
        members = members_of(peer for peer in hearing if peer.is_welcome)
        for peer in hearing:
            others = [member for member in members if member.server_id != peer.server_id]
            self._queue(peer.channels[Purpose.MESSAGES], Kind.MEMBERS, encode_members(others))

    def _dial_members(self) -> None:
        """Dial the servers that peers have links to, and this server has not."""
        targets = targets_of(self.peers.values())
        self._dialler.drop_unnamed({target.peer_id for target in targets})
        for target in targets:
            server_id = target.peer_id
            if server_id != self._server_id and not self._has_channel(server_id, Purpose.MESSAGES):
                self._dialler.add(target)

    def _end_stale(self, channel: Channel) -> None:
        self.stale_connections += 1
        self._end(channel, STALE_CONNECTION)
        channel.connection.abort()

    # --- writing -------------------------------------------------------------------------------

    def send_consensus(self, peer: str, payload: bytes) -> None:
        """Send a payload on the channel for consensus of a server, if it is open."""
        self._send_opaque(peer, Purpose.CONSENSUS, payload)

    def send_catch_up(self, peer: str, payload: bytes) -> None:
        """Send a payload on the channel for messages of a server, if it is open."""
        self._send_opaque(peer, Purpose.MESSAGES, payload)

    def forward(
        self,
        peer: str,
        account: str,
        subject: bytes,
        reply: bytes | None,
        header_size: int,
        payload: bytes,
        client: bytes,
    ) -> bool:
        """Have another server answer a request of a client; `client` is its description in JSON.

        Messages that the clients of this server sent before the request arrive before it, and so
        does the interest in its reply. A description that is too long is left out. Returns False
        if there is no link to that server.
        """
        found = self._peer_named(peer)
        channel = None if found is None else found.messages_channel
        if found is None or channel is None:
            return False
        if len(client) > CLIENT_BYTES_MAX:
            client = b""
        self._traffic.close_frame(found)
        request = ForwardedRequest(account, subject, reply, header_size, payload, client)
        channel.out.append(encode_forward(request))
        channel.out_msgs += 1
        channel.out_bytes += len(payload)
        self._touch(channel)
        return True

    def _send_opaque(self, name: str, purpose: Purpose, payload: bytes) -> None:
        peer = self._peer_named(name)
        channel = None if peer is None else peer.channels.get(purpose)
        if channel is not None:
            channel.out.append(opaque(purpose, payload))
            self._touch(channel)

    def _peer_named(self, name: str) -> Peer | None:
        return next((peer for peer in self.peers.values() if peer.name == name), None)

    def _queue(self, channel: Channel, kind: Kind, body: bytes) -> None:
        if not channel.close_reason:
            channel.out.append(frame(kind, body))
            self._touch(channel)

    def _touch_peer(self, peer: Peer) -> None:
        channel = peer.channels.get(Purpose.MESSAGES)
        if channel is not None and not channel.is_dirty:
            self._touch(channel)

    def _touch(self, channel: Channel) -> None:
        """Have the bytes for a channel written at the end of the turn."""
        if not channel.is_dirty:
            channel.is_dirty = True
            self._dirty.append(channel)
            self._turn.want_sending()

    def _flush(self) -> None:
        """Write what the turn has for every peer: interest first, then messages."""
        self._traffic.announce()
        dirty, self._dirty = self._dirty, []
        for channel in dirty:
            channel.is_dirty = False
            peer = self.peers.get(channel.peer_id)
            if peer is None or channel.purpose is not Purpose.MESSAGES:
                self._write(channel)
                continue
            peer.close_frame()
            self._traffic.note_unread(peer, self._write(channel))

    def _write(self, channel: Channel) -> int:
        """Write the gathered bytes of a channel. Returns the number of bytes that wait for it."""
        data = b"".join(channel.out)
        channel.out.clear()
        if channel.close_reason:
            return 0
        if not data:
            return channel.connection.buffered_bytes()
        limit = self._options.max_pending
        channel.written_bytes += len(data)
        buffered = channel.connection.write(data)
        channel.is_congested = buffered > limit // 4 * 3
        if buffered > limit:
            self._end_slow(channel, SLOW_CONSUMER_PENDING, f"MaxPending of {limit} Exceeded")
            return 0
        return buffered

    # --- the end of a channel ------------------------------------------------------------------

    def welcome(self, peer: str) -> None:
        """Tell clients and other servers of a server, whose greeting was in order."""
        found = self._peer_named(peer)
        channel = None if found is None else found.channels.get(Purpose.CONSENSUS)
        if channel is not None:
            channel.decoder.bytes_max = FRAME_BYTES_MAX
        if found is not None and not found.is_welcome:
            found.is_welcome = True
            self._tell_members()
            self._members_changed()

    def refuse(self, peer: str, reason: str) -> None:
        """Close the connections to a server in a while, and accept no others while it runs.

        The server has the time to read the greeting of this one: its own log then has the reason.
        """
        found = self._peer_named(peer)
        if found is None:
            return
        while len(self._refused) >= REFUSED_MAX:
            del self._refused[next(iter(self._refused))]
        self._refused[found.server_id] = reason
        self._scheduler.call_later(
            REFUSAL_DELAY_S, lambda: self.disconnect(peer, AUTHENTICATION_FAILURE)
        )

    def disconnect(self, peer: str, reason: str) -> None:
        """Close the connections to a server, which may connect again."""
        found = self._peer_named(peer)
        for channel in [] if found is None else [*found.channels.values()]:
            self._end(channel, reason)
            channel.connection.abort()

    def _end_slow(self, channel: Channel, reason: str, text: str) -> None:
        self.slow_consumers += 1
        self._log.info(f"{channel.label} - Slow Consumer Detected: {text}")
        self._end(channel, reason)
        channel.connection.abort()

    def _refuse(self, channel: Channel, text: str) -> None:
        """Refuse a connection, or end one that broke a rule."""
        if channel.close_reason:
            return
        met = channel.handshake.peer
        if met is None or self._refused.get(met.server_id) != text:
            # The reason of one that is refused for its greeting was logged.
            self._refusals.report(channel, text)
        if channel.target is not None:
            channel.target.is_refused = True
        if not channel.peer_id:
            # The end of a handshake is told in its language.
            channel.out.append(frames.error(text))
            self._write(channel)
        self._end(channel, PROTOCOL_VIOLATION)
        channel.connection.close()

    def _refused_by_peer(self, channel: Channel, text: str) -> None:
        self._refusals.report(channel, f"Route Error '{text}'")
        if channel.target is not None:
            channel.target.is_refused = True
        self._close(channel, CLIENT_CLOSED)

    def _close(self, channel: Channel, reason: str) -> None:
        """End a channel; the bytes that were queued for it are written."""
        if channel.close_reason:
            return
        self._write(channel)
        self._end(channel, reason)
        channel.connection.close()

    def _end(self, channel: Channel, reason: str) -> None:
        """Take a channel out of everything, and dial again where that is this server's part."""
        if channel.close_reason:
            return
        channel.close_reason = reason
        channel.cancel_timers()
        channel.out.clear()
        if self.channels.pop(channel, channel) is None:
            pairs = zip(self._ended_counts, channel.counts, strict=True)
            self._ended_counts = [total + count for total, count in pairs]
        target, purpose = channel.target, channel.purpose
        peer = self.peers.get(channel.peer_id)
        if peer is not None and peer.channels.get(purpose) is channel:
            self._log.info(
                f"{channel.label} - Router connection closed: {reason} - Remote: {peer.name}"
            )
            self._leave(peer, purpose)
        else:
            self._log.debug(f"{channel.label} - Router connection closed: {reason}")
        age_ns = self._clock.monotonic_ns() - channel.liveness.started_ns
        is_renewable = bool(channel.peer_id) and age_ns >= RENEWABLE_S * NS_PER_S
        if target is not None:
            self._dialler.ended(target, purpose, is_renewable)
        elif channel.peer_id:
            self._dialler.dial_configured(channel.peer_id, purpose, is_renewable)

    def _leave(self, peer: Peer, purpose: Purpose) -> None:
        del peer.channels[purpose]
        if not peer.channels:
            del self.peers[peer.server_id]
        if purpose is Purpose.CONSENSUS:
            self.listener.peer_left(peer.name)
            return
        self._traffic.forget(peer)
        peer.members = {}
        if not self._is_stopped:
            self._tell_members()
            self._members_changed()
