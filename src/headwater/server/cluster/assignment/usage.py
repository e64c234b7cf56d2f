"""The usage of accounts across the servers of a cluster.

    streams of this server ─▶ UsageReports ─▶ USAGE, if anything changed ─▶ other servers
    USAGE of other servers ─▶ UsageTotals ─┬─▶ INFO of an account at the meta leader
                                           ├─▶ the room of accounts: publishes beyond it are refused
                                           └─▶ the room of servers, for the placement of streams

Each server tells the others every 1.5 s the bytes that its replicas use and the consumers of the
streams that it leads, for those accounts in which something is different. A request that has
changed a stream is told sooner, so that INFO shows consumers as soon as they are created. A server
that connects gets the whole.

The last usage of a server that is away counts: its replicas still have their bytes. Its consumers
do not, because other servers lead their streams.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final, final

from headwater.base.clock import NS_PER_S
from headwater.jetstream.account import JetStreamAccount
from headwater.jetstream.api.keepers import AccountTotals
from headwater.jetstream.config.stream_config import Storage
from headwater.jetstream.meta.decisions import ServerHealth
from headwater.runtime.environment import Scheduler, TimerHandle
from headwater.server.cluster.assignment.meta_machine import MetaMachine
from headwater.server.cluster.assignment.usage_frames import (
    NO_USAGE,
    AccountUsage,
    decode_usage,
    encode_usage,
)
from headwater.server.cluster.consensus.driver import ConsensusDriver
from headwater.server.cluster.consensus.notices import USAGE
from headwater.server.streams.host import StreamHost

REPORT_S: Final = 1.5
"""The time between two reports, as in nats-server."""

PROMPT_S: Final = 0.25
"""The least time between two reports that requests have caused, as in nats-server."""

KNOWN_MAX: Final = 1 << 16
"""The accounts of another server whose usage is remembered. A peer cannot make a server remember
more."""


@final
class _ServerUsage:
    """The usage that one server has told, by account, and the bytes of all accounts together."""

    __slots__ = ("accounts", "file", "memory")

    def __init__(self) -> None:
        self.accounts: dict[str, AccountUsage] = {}
        self.memory = self.file = 0

    def put(self, account: str, usage: AccountUsage) -> None:
        """Note the usage of an account, if it is known or there is room for another one."""
        before = self.accounts.pop(account, NO_USAGE)
        if before == NO_USAGE and len(self.accounts) >= KNOWN_MAX:
            return
        self.memory += usage.memory - before.memory
        self.file += usage.file - before.file
        if usage != NO_USAGE:
            self.accounts[account] = usage


@final
class UsageTotals:
    """The usage that other servers have told."""

    __slots__ = ("_by_server",)

    def __init__(self) -> None:
        self._by_server: dict[str, _ServerUsage] = {}

    def heard(self, server: str, frame: bytes) -> list[str]:
        """Note the usage on a server. Returns the accounts that are concerned. Raises
        MalformedUsage, and then notes nothing."""
        told = decode_usage(frame)
        concerned = dict.fromkeys(told.accounts)
        if told.is_whole and server in self._by_server:
            concerned |= dict.fromkeys(self._by_server.pop(server).accounts)
        known = self._by_server.setdefault(server, _ServerUsage())
        for name, usage in told.accounts.items():
            known.put(name, usage)
        return [*concerned]

    def of_servers(self) -> dict[str, tuple[int, int]]:
        """The bytes in memory and in files on each server that was heard."""
        return {name: (known.memory, known.file) for name, known in self._by_server.items()}

    def forget(self, server: str) -> None:
        """Forget a server that was removed from the cluster."""
        self._by_server.pop(server, None)

    def elsewhere(self, account: str, is_alive: Callable[[str], bool]) -> AccountUsage:
        """The usage of an account on all other servers together."""
        memory = file = consumers = 0
        for server, known in self._by_server.items():
            usage = known.accounts.get(account)
            if usage is not None:
                memory += usage.memory
                file += usage.file
                consumers += usage.consumers if is_alive(server) else 0
        return AccountUsage(memory, file, consumers)


@final
class UsageReports:
    """Tells other servers the usage of this one, and has accounts count theirs."""

    __slots__ = (
        "_driver",
        "_host",
        "_is_stopped",
        "_meta",
        "_name",
        "_now_ns",
        "_prompt",
        "_scheduler",
        "_timer",
        "_told",
        "_told_ns",
        "totals",
    )

    def __init__(
        self,
        name: str,
        host: StreamHost,
        meta: MetaMachine,
        driver: ConsensusDriver,
        scheduler: Scheduler,
        now_ns: Callable[[], int],
    ) -> None:
        self._name = name
        self._host = host
        self._meta = meta
        self._driver = driver
        self._scheduler = scheduler
        self._now_ns = now_ns
        # The usage that other servers were told, and the time at which they were.
        self._told: dict[str, AccountUsage] = {}
        self._told_ns = 0
        self._timer: TimerHandle | None = None
        self._prompt: TimerHandle | None = None
        self._is_stopped = False
        self.totals = UsageTotals()
        driver.notices.register(USAGE, self._heard, self._whole)
        host.count_totals = self.count
        host.api.changed = self.changed

    def start(self) -> None:
        """Report at intervals."""
        self._timer = self._scheduler.call_later(REPORT_S, self._tick)

    def stop(self) -> None:
        """Report no more."""
        self._is_stopped = True
        for timer in (self._timer, self._prompt):
            if timer is not None:
                timer.cancel()
        self._timer = self._prompt = None

    # --- this server ---------------------------------------------------------------------------

    def _tick(self) -> None:
        self._report()
        # Accounts may be new, and their limits others, since their usage elsewhere was heard.
        self._count_elsewhere(self._host.accounts)
        self._timer = self._scheduler.call_later(REPORT_S, self._tick)

    def changed(self) -> None:
        """Report soon: a request has changed a stream or its consumers."""
        if self._prompt is not None or self._is_stopped:
            return
        elapsed_s = (self._now_ns() - self._told_ns) / NS_PER_S
        if elapsed_s >= PROMPT_S or elapsed_s < 0:
            self._report()
        else:
            self._prompt = self._scheduler.call_later(PROMPT_S - elapsed_s, self._report)

    def _report(self) -> None:
        """Tell all servers the usage that is different from the one they were told."""
        self._prompt = None
        usage = {name: self._usage_of(account) for name, account in self._host.accounts.items()}
        different = {
            name: each for name, each in usage.items() if each != self._told.get(name, NO_USAGE)
        }
        if not different:
            return
        self._told_ns = self._now_ns()
        self._told |= different
        for frame in encode_usage(different, is_whole=False):
            self._driver.tell_all(USAGE, frame)

    def _usage_of(self, account: JetStreamAccount) -> AccountUsage:
        return AccountUsage(
            account.used_bytes(Storage.MEMORY),
            account.used_bytes(Storage.FILE),
            self._led_consumers(account),
        )

    def _led_consumers(self, account: JetStreamAccount) -> int:
        find = self._host.runners.find
        return sum(
            len(stream.consumers)
            for name, stream in account.streams.items()
            if len(stream.consumers) and find(account.name, name) is not None
        )

    def _whole(self) -> Iterator[bytes]:
        """The usage that all other servers were told, for one that connects."""
        told = {name: usage for name, usage in self._told.items() if usage != NO_USAGE}
        return encode_usage(told, is_whole=True)

    # --- other servers -------------------------------------------------------------------------

    def _heard(self, peer: str, frame: bytes) -> None:
        self._count_elsewhere(self.totals.heard(peer, frame))

    def forget(self, server: str) -> None:
        """Count nothing any more for a server that was removed from the cluster."""
        self.totals.forget(server)
        self._count_elsewhere(self._host.accounts)

    def _count_elsewhere(self, names: Iterable[str]) -> None:
        for name in names:
            account = self._host.accounts.get(name)
            if account is not None:
                usage = self.totals.elsewhere(name, self._driver.is_alive)
                account.elsewhere.memory.used = usage.memory
                account.elsewhere.file.used = usage.file

    def health(self) -> dict[str, ServerHealth]:
        """The servers that were heard since this one runs, as placement sees them."""
        is_alive = self._driver.is_alive
        own = self._host.accounts.values()
        used = self.totals.of_servers()
        used[self._name] = (
            sum(account.used_bytes(Storage.MEMORY) for account in own),
            sum(account.used_bytes(Storage.FILE) for account in own),
        )
        return {name: ServerHealth(is_alive(name), *sizes) for name, sizes in used.items()}

    def count(self, account: JetStreamAccount) -> AccountTotals:
        """The totals of an account across the cluster."""
        elsewhere = self.totals.elsewhere(account.name, self._driver.is_alive)
        reserved = dict.fromkeys(Storage, 0)
        streams = self._meta.assignments.streams_of(account.name)
        for stream in streams:
            reserved[stream.config.storage] += max(stream.config.max_bytes, 0)
        return AccountTotals(
            memory=account.used_bytes(Storage.MEMORY) + elsewhere.memory,
            storage=account.used_bytes(Storage.FILE) + elsewhere.file,
            reserved_memory=reserved[Storage.MEMORY],
            reserved_storage=reserved[Storage.FILE],
            streams=len(streams),
            consumers=self._led_consumers(account) + elsewhere.consumers,
        )
