"""The options of a server: frozen values, one paragraph per field, one `validate`.

Defaults and rules are nats-server 2.15's. Durations are seconds and end in `_s`; sizes are bytes.
A value of these classes is complete: nothing downstream fills in a default again.

`Options()` is a runnable server. Options that came from a file or from flags have had zero turned
into the default where nats-server reads zero as "not said" (`server.configuration.keys` and
`headwater.server.configuration.flags` do that), so a zero in an Options object means zero.

This module must not know how options are written down (grammar, keys, flags), nor read anything.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from headwater.base.clock import NS_PER_MS, NS_PER_S
from headwater.base.errors import OperatingError
from headwater.go.durations import format_seconds
from headwater.go.quoting import quote
from headwater.jetstream.account import AccountLimits as JetStreamLimits
from headwater.jetstream.streams.publishing.batch_limits import BatchLimits
from headwater.runtime.tls import TlsSettings
from headwater.server.configuration.server_names import name_fault
from headwater.subjects.grammar import has_blank_or_control, is_valid_pattern

KIB: Final = 1024
MIB: Final = 1024 * KIB
# A shorter lease could not be renewed twice within it, a longer one would keep a stream without
# leader for as long as a person waits.
LEASE_NS_MIN: Final = 100 * NS_PER_MS
LEASE_NS_MAX: Final = 60 * NS_PER_S

DEFAULT_HOST: Final = "0.0.0.0"
DEFAULT_PORT: Final = 4222
RANDOM_PORT: Final = -1
PORT_MAX: Final = 65_535
GLOBAL_ACCOUNT: Final = "$G"
DEFAULT_SYSTEM_ACCOUNT: Final = "$SYS"
DEFAULT_ALLOW_RESPONSE_MAX_MSGS: Final = 1
DEFAULT_ALLOW_RESPONSE_TTL_S: Final = 120.0
DEFAULT_TLS_TIMEOUT_S: Final = 2.0
# The wait for a client that begins with a handshake, of `handshake_first: auto`.
AUTO_FIRST_WAIT_S: Final = 0.05
# A client that has to make a handshake gets this much longer for its CONNECT.
TLS_AUTH_EXTRA_S: Final = 1.0

# Above this nats-server starts, and warns that one message may then block a connection for long.
MAX_PAYLOAD_WARNING_BYTES: Final = 8 * MIB

# The kinds of connection a user can be confined to; ours accepts STANDARD only.
CONNECTION_TYPES: Final = frozenset(
    {
        "STANDARD",
        "WEBSOCKET",
        "LEAFNODE",
        "LEAFNODE_WS",
        "MQTT",
        "MQTT_WS",
        "IN_PROCESS",
    }
)

CLUSTER_NAME_HAS_SPACES: Final = "cluster name cannot contain spaces"

# A host and a port, or a host.
_ADDRESS: Final = re.compile(r"(?:[^\s:\[\]]+|\[[^\s\[\]]+\])(?::(?P<port>[0-9]{1,5}))?")
_BCRYPT_PREFIX: Final = re.compile(r"\$2[abxy]\$[0-9]{2}\$")


class OptionsError(OperatingError):
    """Options that contradict each other. The text is nats-server's where it has one."""


@dataclass(frozen=True)
class SubjectPermission:
    """Subjects one direction may use. `None` and empty differ, as they do in nats-server."""

    # None lets every subject through; an empty tuple lets none through.
    allow: tuple[str, ...] | None = None
    # Checked after `allow`, and wins. None and empty both deny nothing.
    deny: tuple[str, ...] | None = None


@dataclass(frozen=True)
class ResponsePermission:
    """The permission to publish to reply subjects of messages that were delivered to a user."""

    # Replies per request; below zero means any number.
    max_msgs: int = DEFAULT_ALLOW_RESPONSE_MAX_MSGS
    # Time after delivery in which a reply is let through; below zero means for ever.
    ttl_s: float = DEFAULT_ALLOW_RESPONSE_TTL_S


@dataclass(frozen=True)
class Permissions:
    """The subjects that a user may use. `None` in a direction allows every subject there."""

    publish: SubjectPermission | None = None
    # Entries here may name a queue group after the subject: `"orders.* workers"`.
    subscribe: SubjectPermission | None = None
    # If set, `publish.allow` is not None: a user that may respond may not publish at will.
    allow_responses: ResponsePermission | None = None


@dataclass(frozen=True)
class UserOptions:
    """A user that may connect with a name and a password, or by a signature."""

    # The name, or the public key of a user that signs (`is_nkey`).
    username: str
    # Plain text or a bcrypt hash; `is_bcrypt` tells which.
    password: str = ""
    # The account this user lives in.
    account_name: str = GLOBAL_ACCOUNT
    # None allows everything. The account's or authorization block's default permissions have
    # already been put here for users without their own.
    permissions: Permissions | None = None
    # Members of CONNECTION_TYPES this user may connect by; None means any.
    allowed_connection_types: tuple[str, ...] | None = None
    # The user has no password, and signs the nonce of INFO instead.
    is_nkey: bool = False

    @property
    def described(self) -> str:
        """The user in messages about duplicates."""
        return f"{'nkey' if self.is_nkey else 'user'} {quote(self.username)}"


@dataclass(frozen=True)
class AccountLimits:
    """The limits of an account's connections; below zero is the limit of the server."""

    max_connections: int = -1
    # Per connection.
    max_subscriptions: int = -1
    # Per message, headers included.
    max_payload: int = -1


@dataclass(frozen=True)
class AccountOptions:
    """An isolated subject space and the users in it."""

    name: str
    users: tuple[UserOptions, ...] = ()
    # Kept for display; `users` already carry them.
    default_permissions: Permissions | None = None
    limits: AccountLimits = AccountLimits()
    # The limits of its streams; None for an account that may not have streams.
    jetstream: JetStreamLimits | None = None


class StoreCipher(Enum):
    """The ciphers of files; the values are their names in the log."""

    CHACHA = "ChaCha20-Poly1305"
    AES = "AES-GCM"


class LinearizableReads(Enum):
    """The ways in which a leader makes sure that it still leads when it answers a read."""

    LEASE = "lease"
    QUORUM = "quorum"


@dataclass(frozen=True)
class JetStreamOptions:
    """Streams: whether, where, and how much."""

    enabled: bool = False
    # Directory of the store. Empty takes one among the temporary files.
    store_dir: str = ""
    # Directory of the mark of the store, which outlives the process and not the machine. Empty
    # takes the runtime directory of the user or of the machine.
    runtime_dir: str = ""
    # Below zero, three quarters of what the machine has. Zero allows none of that kind.
    max_memory_bytes: int = -1
    max_file_bytes: int = -1
    # Name under which clients address this JetStream across leaf nodes. Empty means none.
    domain: str = ""
    # The time that written bytes may wait for a sync. It also holds with `sync_always`, for streams
    # that override it.
    sync_interval_s: float = 120.0
    # Every message is on the disk before it is acknowledged.
    sync_always: bool = False
    # Unknown fields in API requests are refused.
    strict: bool = True
    # Secret that the keys of all files come from. Empty leaves them plain.
    encryption_key: str = field(default="", repr=False)
    # The key before, for files that were written under it. They are moved to the new key.
    previous_encryption_key: str = field(default="", repr=False)
    # The cipher of new files; files that exist keep theirs.
    cipher: StoreCipher = StoreCipher.CHACHA
    # Tag by which servers of a cluster differ; shown, and of no meaning to one server.
    unique_tag: str = ""
    # Bytes of snapshots that may be on their way to other servers; the default if not positive.
    outstanding_catch_up_bytes_max: int = 0

    # --- levels of replicated streams ----------------------------------------------------------
    # The time for which a strong publish waits for its quorum, unless its stream has one of its
    # own. Zero waits without end.
    ack_timeout_ns: int = 3 * NS_PER_S
    # The messages by which the leader of an eventual stream may be ahead of its quorum. All servers
    # of a cluster have the same: the next leader passes over as many sequences.
    eventual_max_tail: int = 100_000
    # The way in which leaders make sure that they lead, before they answer a linearizable read.
    linearizable_reads: LinearizableReads = LinearizableReads.LEASE
    # The time that an entry of a stream with such reads keeps other servers from leading.
    lease_ns: int = NS_PER_S

    # --- limits; 0 is no limit -----------------------------------------------------------------
    # The longest duplicate window a stream may have.
    duplicate_window_max_ns: int = 0
    # The largest values that consumers may ask for.
    max_ack_pending: int = 0
    max_request_batch: int = 0
    default_max_consumers: int = 1000
    # Replicated streams and consumers; shown, and of no meaning to one server.
    max_ha_assets: int = 0
    # Publishes that a stream may have taken in and not answered; below zero is no limit.
    max_buffered_messages: int = 100_000
    max_buffered_bytes: int = 128 * MIB
    # Of batches that are published, atomic and fast.
    batches: BatchLimits = field(default_factory=BatchLimits)


@dataclass(frozen=True)
class RouteUrl:
    """Another server of the cluster, and the credentials to give it."""

    host: str
    port: int
    username: str = ""
    password: str = field(default="", repr=False)

    @property
    def address(self) -> str:
        """`host:port`, as /varz shows it."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True)
class ClusterOptions:
    """Other servers: whether there are any, where they are, and who may join them."""

    # Servers of another name are refused. Empty makes a name up, which gives way to a configured
    # name.
    name: str = ""
    host: str = DEFAULT_HOST
    # The port that other servers connect to; -1 takes a free one, 0 is a server on its own.
    port: int = 0
    # Credentials that other servers have to give. Empty requires none.
    username: str = ""
    password: str = field(default="", repr=False)
    # Time that another server has for its handshake.
    auth_timeout_s: float = 2.0
    # Servers that are dialled for ever.
    routes: tuple[RouteUrl, ...] = ()
    # `host:port` told to other servers instead of the address listened on.
    advertise: str = ""
    # Tell clients nothing of other servers, and other servers nothing for their clients.
    no_advertise: bool = False
    # Attempts to reach a server again that was not configured, and that no other one has a link to.
    connect_retries: int = 0
    # Wait twice as long after every failed attempt, up to 30 s.
    connect_backoff: bool = False
    # `publish` are the subjects whose subscribers here are announced to other servers (import),
    # `subscribe` those whose subscribers elsewhere get messages of this server (export).
    permissions: Permissions = Permissions()
    # As for clients; 0 follows the setting for clients, and routes are pinged at least every 30 s.
    ping_interval_s: float = 0.0
    ping_max: int = 0
    write_deadline_s: float = 0.0
    # Servers with streams hear each other at least so often, and elect another leader after so long
    # a silence of theirs.
    heartbeat_interval_s: float = 0.1
    election_timeout_s: float = 1.0
    # A majority that may have forgotten waits so long for the others before it votes.
    unclean_wait_s: float = 10.0


@dataclass(frozen=True)
class TlsOptions:
    """TLS on one listener."""

    settings: TlsSettings = field(default_factory=TlsSettings)
    # Time for a handshake.
    timeout_s: float = DEFAULT_TLS_TIMEOUT_S
    # The certificate of a client names its user. Implies `settings.verify`.
    maps_users: bool = False
    # The handshake comes before INFO.
    is_first: bool = False
    # With `is_first`, the time after which a silent client gets INFO as clear text; 0 is never.
    first_wait_s: float = 0.0
    # SHA-256 of the public keys that clients may have, in lower-case hex; empty allows any.
    pinned_keys: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Options:
    """All options of a server."""

    # --- where to listen -----------------------------------------------------------------------
    # Address clients connect to.
    host: str = DEFAULT_HOST
    # Port clients connect to; -1 takes a free one.
    port: int = DEFAULT_PORT
    # `host[:port]` told to clients in INFO instead of the address listened on, for servers
    # behind address translation. Empty tells nothing.
    client_advertise: str = ""

    # --- who this server is --------------------------------------------------------------------
    # Unique in a cluster, without spaces. Empty takes the server's id.
    server_name: str = ""
    # Words to choose servers by; lower case, without duplicates, shown in /varz.
    server_tags: tuple[str, ...] = ()
    # Free text by key, shown in /varz.
    server_metadata: Mapping[str, str] = field(default_factory=dict)

    # --- monitoring ----------------------------------------------------------------------------
    # Address of the monitoring port. Empty follows `host`: use `monitoring_host` to bind.
    http_host: str = ""
    # 0 leaves monitoring off, -1 takes a free port.
    http_port: int = 0
    # The port of monitoring over HTTPS, with the certificate of `tls`. Excludes `http_port`.
    https_port: int = 0
    # Put before every monitoring path, such as `/nats`. Empty means `/`.
    http_base_path: str = ""

    # --- limits --------------------------------------------------------------------------------
    # Largest payload, headers included, told to clients in INFO. At most `max_pending`.
    max_payload: int = MIB
    # Longest protocol line.
    max_control_line: int = 4 * KIB
    # Bytes that may wait for one slow connection before it is closed.
    max_pending: int = 64 * MIB
    # Client connections at once. Below zero refuses every client, as nats-server does when a
    # file says 0.
    max_connections: int = 64 * KIB
    # Subscriptions per connection; 0 means any number.
    max_subscriptions: int = 0
    # Tokens in a subscribed subject; 0 means any number, at most 255.
    max_subscription_tokens: int = 0
    # Closed connections remembered for /connz?state=closed.
    max_closed_clients: int = 10_000

    # --- timing --------------------------------------------------------------------------------
    # Time that a write to a connection may take before it counts as a slow consumer.
    write_deadline_s: float = 10.0
    # Silence after which a connection is pinged.
    ping_interval_s: float = 120.0
    # Unanswered pings after which a connection is stale.
    ping_max: int = 2
    # Time a client has to send a CONNECT that is accepted.
    auth_timeout_s: float = 2.0
    # Time over which lame duck mode spreads the closing of clients; at least 30 s in a file.
    lame_duck_duration_s: float = 120.0
    # Time lame duck mode waits before it closes the first client; less than the duration.
    lame_duck_grace_period_s: float = 10.0

    # --- protocol switches ---------------------------------------------------------------------
    # Tell clients that message headers are not available.
    no_header_support: bool = False
    # Look every subject up in the index instead of caching its route.
    disable_sublist_cache: bool = False
    # Never hold back a publisher whose subscribers are slow.
    no_fast_producer_stall: bool = False

    # --- logging -------------------------------------------------------------------------------
    debug: bool = False
    # Log protocol lines as they come and go.
    trace: bool = False
    # Log those of the system account too. Implies `trace` when set by a key or a flag.
    trace_verbose: bool = False
    # Log the headers of traced messages and not their payloads. Implies `trace` likewise.
    trace_headers: bool = False
    # Bytes of a traced payload that are logged; 0 means all.
    max_traced_msg_len: int = 0
    # Put the time before each line.
    logtime: bool = True
    # In UTC instead of local time.
    logtime_utc: bool = False
    # Empty logs to standard error.
    log_file: str = ""
    # Bytes after which the log file is set aside and a new one begun; 0 means never.
    log_size_limit: int = 0
    # Log files set aside that are kept; 0 means all.
    log_max_num: int = 0
    # Failed attempts to reach another server between two reports of it, before and after the
    # first success.
    connect_error_reports: int = 3600
    reconnect_error_reports: int = 1

    # --- pid file and ports file ---------------------------------------------------------------
    # File that holds the process id while the server runs. Empty writes none.
    pid_file: str = ""
    # Directory for a `<program>_<pid>.ports` file listing the ports bound. Empty writes none.
    ports_file_dir: str = ""

    # --- who may connect -----------------------------------------------------------------------
    # The one user of a server without a list of users. Excludes `token` and `users`.
    username: str = ""
    # Plain text or bcrypt.
    password: str = ""
    # Whether the file had an authorization block, however empty. Matters to `is_global_open`.
    has_authorization: bool = False
    # Shared secret instead of a name. Plain text or bcrypt.
    token: str = ""
    # Users of the authorization block. They live in the global account.
    users: tuple[UserOptions, ...] = ()
    # Permissions of the authorization block for users without their own; kept for display.
    default_permissions: Permissions | None = None
    # User taken for clients that present no credentials. Empty refuses them.
    no_auth_user: str = ""
    # Accounts besides the global and the system account, each with its users.
    accounts: tuple[AccountOptions, ...] = ()
    # Account whose users see and control the server.
    system_account: str = DEFAULT_SYSTEM_ACCOUNT
    # Do not create `$SYS` when no account was named as the system account.
    no_system_account: bool = False

    # --- encryption ----------------------------------------------------------------------------
    # Certificate and rules of the connections of clients; None for clear text.
    tls: TlsOptions | None = None
    # Clients may go on without TLS.
    allow_non_tls: bool = False

    # --- streams -------------------------------------------------------------------------------
    jetstream: JetStreamOptions = JetStreamOptions()

    # --- other servers -------------------------------------------------------------------------
    cluster: ClusterOptions = ClusterOptions()

    # --- where this came from ------------------------------------------------------------------
    # Path as it was given. Empty means flags only.
    config_file: str = ""
    # `sha256:<hex>` over the values of the file, as /varz and `-t` report it. Empty without a file.
    config_digest: str = ""

    @property
    def is_clustered(self) -> bool:
        """Whether other servers may connect."""
        return self.cluster.port != 0

    @property
    def monitoring_host(self) -> str:
        """Address to bind the monitoring port to."""
        return self.http_host or self.host

    @property
    def auth_required(self) -> bool:
        """Whether a client has to present credentials (a no_auth_user may stand in for it)."""
        return bool(self.username or self.token or any(True for _ in self.all_users()))

    @property
    def is_global_open(self) -> bool:
        """Whether clients without credentials are let into the global account.

        This holds for a server whose configuration names users of the system account only:
        nats-server makes up a no_auth_user there.
        """
        if self.has_authorization or self.no_auth_user or self.username or self.token:
            return False
        return [account.name for account in self.accounts] == [self.system_account]

    def warnings(self) -> tuple[str, ...]:
        """The warnings in the log when a server starts with these options."""
        found = []
        if self.max_payload > MAX_PAYLOAD_WARNING_BYTES:
            found.append(
                f"Maximum payloads over {MAX_PAYLOAD_WARNING_BYTES / MIB:.2f} MB are generally "
                "discouraged and could lead to poor performance"
            )
        secrets = [user.password for user in self.all_users() if not user.is_nkey]
        secrets += [secret for secret in (self.password, self.cluster.password) if secret]
        if not all(is_bcrypt(secret) for secret in secrets):
            found.append("Plaintext passwords detected, use nkeys or bcrypt")
        return tuple(found)

    def all_users(self) -> Iterator[UserOptions]:
        """Users of the authorization block, then those of each account."""
        yield from self.users
        for account in self.accounts:
            yield from account.users

    def validate(self) -> None:
        """Raise OptionsError for the first rule that does not hold."""
        self._validate_limits()
        self._validate_credentials()
        self._validate_accounts()
        self._validate_no_auth_user()
        self._validate_cluster()
        self._validate_domain()
        self._validate_lease()

    def _validate_limits(self) -> None:
        grace_s, duration_s = self.lame_duck_grace_period_s, self.lame_duck_duration_s
        if 0 < duration_s <= grace_s:
            raise OptionsError(
                f"lame duck grace period ({format_seconds(grace_s)}) should be strictly lower "
                f"than lame duck duration ({format_seconds(duration_s)})"
            )
        if self.max_payload > self.max_pending:
            raise OptionsError(
                f"max_payload ({self.max_payload}) cannot be higher than "
                f"max_pending ({self.max_pending})"
            )
        if " " in self.server_name:
            raise OptionsError("server name cannot contain spaces")
        for name, size in (
            ("max_payload", self.max_payload),
            ("max_control_line", self.max_control_line),
        ):
            if size > 2**31 - 1:
                raise OptionsError(f"{name} value is too big")
        if self.max_subscription_tokens > 255:
            raise OptionsError("max_subscription_tokens value is too big")

    def _validate_credentials(self) -> None:
        if (self.username or self.password) and self.token:
            raise OptionsError("Cannot have a user/pass and token")
        if self.username and any(True for _ in self.all_users()):
            raise OptionsError("Can not have a single user/pass and a users array")
        if self.token and any(True for _ in self.all_users()):
            raise OptionsError("Can not have a token and a users array")
        seen: set[str] = set()
        for user in self.all_users():
            if user.username in seen:
                raise OptionsError(f"Duplicate {user.described} detected")
            seen.add(user.username)
            for kind in user.allowed_connection_types or ():
                if kind not in CONNECTION_TYPES:
                    raise OptionsError(f"unknown connection type {quote(kind)}")

    def _validate_accounts(self) -> None:
        seen: set[str] = set()
        for account in self.accounts:
            if account.name == GLOBAL_ACCOUNT:
                raise OptionsError(f"{quote(account.name)} is a Reserved Account")
            if account.name in seen:
                raise OptionsError(f"Duplicate Account Entry: {account.name}")
            seen.add(account.name)
            for user in account.users:
                if user.account_name != account.name:
                    raise OptionsError(
                        f'user "{user.username}" of account "{account.name}" '
                        f'says it is of account "{user.account_name}"'
                    )
        if self.system_account not in seen | {DEFAULT_SYSTEM_ACCOUNT, GLOBAL_ACCOUNT, ""}:
            raise OptionsError("error resolving system account: account missing")

    def _validate_no_auth_user(self) -> None:
        name = self.no_auth_user
        if not name:
            return
        if not any(True for _ in self.all_users()):
            raise OptionsError(f'no_auth_user: "{name}" present, but users/nkeys are not defined')
        if not any(user.username == name for user in self.all_users()):
            raise OptionsError(
                f'no_auth_user: "{name}" not present as user or nkey in authorization block '
                "or account configuration"
            )

    def _validate_cluster(self) -> None:
        cluster = self.cluster
        if " " in cluster.name:
            raise OptionsError(CLUSTER_NAME_HAS_SPACES)
        if is_bcrypt(cluster.password):
            # Servers give the password to each other, so it cannot be kept as a hash.
            raise OptionsError("cluster password must not be a bcrypt hash")
        advertised = cluster.advertise
        address = _ADDRESS.fullmatch(advertised)
        if advertised and (address is None or int(address["port"] or 0) > PORT_MAX):
            raise OptionsError(f"invalid Cluster.Advertise value of {advertised}")
        if cluster.heartbeat_interval_s <= 0:
            raise OptionsError("cluster heartbeat_interval must be positive")
        if cluster.election_timeout_s < 3 * cluster.heartbeat_interval_s:
            raise OptionsError("cluster election_timeout is shorter than three heartbeats")
        if cluster.unclean_wait_s < 0:
            raise OptionsError("cluster unclean_wait cannot be negative")
        if not self.is_clustered:
            return
        for title, name in (("server", self.server_name), ("cluster", cluster.name)):
            if fault := name_fault(name):
                raise OptionsError(f"{title} name {quote(name)} {fault}; choose another one")
        if self.jetstream.enabled and not self.server_name:
            raise OptionsError("jetstream cluster requires `server_name` to be set")
        if self.jetstream.enabled and not cluster.name:
            raise OptionsError("jetstream cluster requires `cluster.name` to be set")

    def _validate_domain(self) -> None:
        domain = self.jetstream.domain
        if not domain:
            return
        subject = f"$JS.{domain}.API.>"
        if has_blank_or_control(domain) or not is_valid_pattern(subject.encode()):
            raise OptionsError(
                f"invalid domain name: derived {quote(subject)} is not a valid subject"
            )
        if any(char in ".*>" for char in domain):
            raise OptionsError("invalid domain name: may not contain ., * or >")

    def _validate_lease(self) -> None:
        lease_ns = self.jetstream.lease_ns
        if not LEASE_NS_MIN <= lease_ns <= LEASE_NS_MAX:
            raise OptionsError(
                f"jetstream lease ({format_seconds(lease_ns / NS_PER_S)}) is not between "
                f"{format_seconds(LEASE_NS_MIN / NS_PER_S)} and "
                f"{format_seconds(LEASE_NS_MAX / NS_PER_S)}"
            )


def is_bcrypt(secret: str) -> bool:
    """Whether a password or token in the configuration is a bcrypt hash."""
    return _BCRYPT_PREFIX.match(secret) is not None
