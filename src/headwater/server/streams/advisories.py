"""Advisories of a server about its streams, made only if the account has a subscriber.

A stream is a subscriber like any other, so advisories can be stored. An advisory is published in
the account it is about; those of abandoned batches and of groups go to the system account too.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple, final

from headwater.base.clock import Clock
from headwater.base.entropy import Entropy
from headwater.go.json import write
from headwater.go.times import format_time
from headwater.jetstream.advisories import (
    AUDIT_SUBJECT,
    META_LEADER_SUBJECT,
    OUT_OF_STORAGE_SUBJECT,
    SERVER_REMOVED_SUBJECT,
    Action,
    Advisory,
    ApiAudit,
    BatchAbandonedAdvisory,
    ClientDocument,
    Heading,
    LostSequences,
    MetaLeaderAdvisory,
    OutOfStorageAdvisory,
    ServerRemovedAdvisory,
    StreamActionAdvisory,
    StreamLeaderAdvisory,
    StreamLostAdvisory,
    StreamQuorumAdvisory,
    TailLostAdvisory,
    stream_subject,
)
from headwater.jetstream.api.cluster_documents import PeerInfo, peer_id
from headwater.jetstream.consumers.advisories import (
    ConsumerActionAdvisory,
    ConsumerLeaderAdvisory,
    ConsumerQuorumAdvisory,
    advisory_of,
    consumer_subject,
    pause_advisory,
)
from headwater.jetstream.consumers.effects import Event
from headwater.jetstream.consumers.machine import Consumer
from headwater.server.core.accounts import Account, Accounts
from headwater.server.core.broker import Broker
from headwater.server.identity import new_event_id
from headwater.server.streams.replica_tail import LostTail
from headwater.server.streams.routing import Source


class ServerTitle(NamedTuple):
    """The names of the server in whose name advisories are sent."""

    name: str
    id: str
    # Empty if the server is in no domain.
    domain: str
    # Empty if the server is in no cluster.
    cluster: str = ""


@final
class Advisories:
    """Publishes the advisories of one server."""

    __slots__ = ("_accounts", "_broker", "_clock", "_entropy", "_server")

    def __init__(
        self,
        server: ServerTitle,
        accounts: Accounts,
        broker: Broker,
        clock: Clock,
        entropy: Entropy,
    ) -> None:
        self._server = server
        self._accounts = accounts
        self._broker = broker
        self._clock = clock
        self._entropy = entropy

    def publish(
        self, account: Account, subject: str, advisory: Callable[[Heading], Advisory]
    ) -> None:
        """Send an advisory to the subscribers of its subject in an account."""
        name = subject.encode(errors="surrogateescape")
        if not account.is_heard(name):
            return
        heading = Heading(new_event_id(self._entropy), format_time(self._clock.wall_ns()))
        self._broker.send(account, name, None, write(advisory(heading)))

    def stream_action(self, account: Account, stream_name: str, action: Action) -> None:
        """Advise that a stream was created, changed or deleted."""
        word, event = action.value
        self.publish(
            account,
            stream_subject(event, stream_name),
            lambda heading: StreamActionAdvisory(
                **heading._asdict(), stream=stream_name, action=word, domain=self._server.domain
            ),
        )

    def tail_lost(self, account_name: str, stream_name: str, lost: LostTail) -> None:
        """Advise that messages of an eventual stream are set aside."""
        account = self._accounts.get(account_name)
        if account is None:
            return
        self.publish(
            account,
            stream_subject("TAIL_LOST", stream_name),
            lambda heading: TailLostAdvisory(
                **heading._asdict(),
                stream=stream_name,
                server=self._server.name,
                first_seq=lost.first_sequence,
                last_seq=lost.last_sequence,
                messages=lost.messages,
                file=lost.path,
                domain=self._server.domain,
            ),
        )

    def consumer_action(self, account: Account, consumer: Consumer, action: Action) -> None:
        """Advise that a consumer was created or deleted."""
        word, event = action.value
        self.publish(
            account,
            consumer_subject(event, consumer),
            lambda heading: ConsumerActionAdvisory(
                id=heading.id,
                timestamp=heading.timestamp,
                stream=consumer.stream.name,
                consumer=consumer.name,
                action=word,
                domain=self._server.domain,
            ),
        )

    def consumer_paused(self, account: Account, consumer: Consumer, is_paused: bool) -> None:
        """Advise that a consumer was paused or resumed."""
        self.publish(
            account,
            consumer_subject("PAUSE", consumer),
            lambda heading: pause_advisory(heading, consumer, is_paused, self._server.domain),
        )

    def consumer_event(self, account: Account, consumer: Consumer, event: Event) -> None:
        """Advise of an event that a consumer has reported."""
        subject, advisory = advisory_of(consumer, event, account.name, self._server.domain)
        self.publish(account, subject, advisory)

    def api_called(
        self, account: Account, source: Source, subject: bytes, body: bytes, response: bytes
    ) -> None:
        """Advise that a call of the API was answered."""
        self.publish(
            account,
            AUDIT_SUBJECT,
            lambda heading: ApiAudit(
                **heading._asdict(),
                server=self._server.name,
                client=self.describe(source),
                subject=subject.decode(errors="replace"),
                request=body.decode(errors="replace"),
                response=response.decode(),
                domain=self._server.domain,
            ),
        )

    def batch_abandoned(
        self, account: Account, stream_name: str, batch_id: bytes, reason: str
    ) -> None:
        """Advise that a batch was begun and abandoned."""
        make = partial(
            BatchAbandonedAdvisory,
            stream=stream_name,
            domain=self._server.domain,
            batch=batch_id.decode(errors="replace"),
            reason=reason,
        )
        self._publish_twice(account, stream_subject("BATCH_ABANDONED", stream_name), make)

    def stream_lost(
        self, account: Account, stream_name: str, ranges: Iterable[tuple[int, int]]
    ) -> None:
        """Advise that messages of a stream are lost, by their first and last sequences."""
        make = partial(
            StreamLostAdvisory,
            stream=stream_name,
            domain=self._server.domain,
            lost=tuple(LostSequences(first, last) for first, last in ranges),
        )
        self._publish_twice(account, stream_subject("LOST", stream_name), make)

    def _publish_twice(self, account: Account, subject: str, make: Callable[..., Advisory]) -> None:
        """Send an advisory in its account, and to the system account with the account's name."""
        self.publish(account, subject, lambda heading: make(**heading._asdict()))
        system = self._accounts.system
        if system is not None and system is not account:
            self.publish(
                system, subject, lambda heading: make(**heading._asdict(), account=account.name)
            )

    # --- groups --------------------------------------------------------------------------------

    def stream_leader_elected(
        self, account: Account, stream_name: str, replicas: tuple[PeerInfo, ...]
    ) -> None:
        """Advise that this server leads a stream."""
        make = partial(
            StreamLeaderAdvisory,
            stream=stream_name,
            leader=self._server.name,
            replicas=replicas,
            domain=self._server.domain,
        )
        self._publish_twice(account, stream_subject("LEADER_ELECTED", stream_name), make)

    def stream_quorum_lost(
        self, account: Account, stream_name: str, replicas: tuple[PeerInfo, ...]
    ) -> None:
        """Advise that a stream has no quorum any more."""
        make = partial(
            StreamQuorumAdvisory,
            stream=stream_name,
            replicas=replicas,
            domain=self._server.domain,
        )
        self._publish_twice(account, stream_subject("QUORUM_LOST", stream_name), make)

    def consumer_leader_elected(
        self, account: Account, consumer: Consumer, replicas: tuple[PeerInfo, ...]
    ) -> None:
        """Advise that this server leads a consumer."""
        make = partial(
            ConsumerLeaderAdvisory,
            stream=consumer.stream.name,
            consumer=consumer.name,
            leader=self._server.name,
            replicas=replicas,
            domain=self._server.domain,
        )
        self._publish_twice(account, consumer_subject("LEADER_ELECTED", consumer), make)

    def consumer_quorum_lost(
        self, account: Account, consumer: Consumer, replicas: tuple[PeerInfo, ...]
    ) -> None:
        """Advise that a consumer has no quorum any more."""
        make = partial(
            ConsumerQuorumAdvisory,
            stream=consumer.stream.name,
            consumer=consumer.name,
            replicas=replicas,
            domain=self._server.domain,
        )
        self._publish_twice(account, consumer_subject("QUORUM_LOST", consumer), make)

    def meta_leader_elected(self, replicas: tuple[PeerInfo, ...]) -> None:
        """Advise the system account that this server leads the meta group."""
        make = partial(
            MetaLeaderAdvisory,
            leader=peer_id(self._server.name),
            replicas=replicas,
            cluster=self._server.cluster,
            domain=self._server.domain,
        )
        self._publish_to_system(META_LEADER_SUBJECT, make)

    def server_removed(self) -> None:
        """Advise the system account that this server was removed from its cluster."""
        make = partial(
            ServerRemovedAdvisory,
            server=self._server.name,
            server_id=self._server.id,
            cluster=self._server.cluster,
            domain=self._server.domain,
        )
        self._publish_to_system(SERVER_REMOVED_SUBJECT, make)

    def _publish_to_system(self, subject: str, make: Callable[..., Advisory]) -> None:
        system = self._accounts.system
        if system is not None:
            self.publish(system, subject, lambda heading: make(**heading._asdict()))

    def out_of_storage(self, reason: str, since_ns: int) -> None:
        """Advise every account that the disk is full and messages are refused."""
        make = partial(
            OutOfStorageAdvisory,
            server=self._server.name,
            server_id=self._server.id,
            cluster=self._server.cluster,
            domain=self._server.domain,
            since=format_time(since_ns),
            reason=reason,
        )
        for account in self._accounts.all():
            self.publish(account, OUT_OF_STORAGE_SUBJECT, lambda heading: make(**heading._asdict()))

    def describe(self, client: Source) -> ClientDocument | None:
        """The client in a document; None for the server itself and for the system account."""
        if isinstance(client, ClientDocument):
            return client
        if client is None or client.is_system:
            return None
        connect = client.connect
        return ClientDocument(
            start=format_time(client.started_wall_ns),
            host=client.connection.peer_host,
            id=client.cid,
            acc=client.account.name,
            user=client.authorized_user,
            name=connect.name,
            lang=connect.lang,
            ver=connect.version,
            rtt=client.rtt_ns,
            server=self._server.name,
            cluster=self._server.cluster,
            kind="Client",
            client_type="nats",
        )
