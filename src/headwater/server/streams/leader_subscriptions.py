"""The subscriptions of a stream that is led here: its subjects, and the answers of its clients.

Publishes of clients of other servers cross to the leader of the stream by ordinary interest, and so
do acknowledgements and flow-control replies. An account has one inlet for the acknowledgements of
all its streams, whose subscription other servers are not told of; each stream that is led here
announces its own part of it.
"""

from typing import Final, final

from headwater.base.ids import hash62
from headwater.jetstream.consumers.acks import ACK_PREFIX
from headwater.jetstream.consumers.push import FLOW_PREFIX
from headwater.server.core.accounts import Account
from headwater.server.core.client import Inlet, Subscription
from headwater.server.core.own_subscriptions import OwnSubscriptions

# The size of the hash that names an account in the longer form of a reply subject.
HASH_SIZE: Final = 8
NO_DOMAIN: Final = b"_"


def ack_home(account_name: str, domain: str) -> tuple[bytes, bytes]:
    """The domain and the account, as the longer form of an acknowledgement's subject names them."""
    return domain.encode() or NO_DOMAIN, hash62(account_name, HASH_SIZE).encode()


def answer_patterns(account_name: str, domain: str, stream_name: str) -> list[bytes]:
    """The subjects on which clients answer the messages that consumers of a stream deliver."""
    name = stream_name.encode(errors="surrogateescape")
    home = b".".join(ack_home(account_name, domain))
    return [
        b"%b%b.>" % (ACK_PREFIX, name),
        b"%b%b.%b.>" % (ACK_PREFIX, home, name),
        b"%b%b.>" % (FLOW_PREFIX, name),
    ]


@final
class LeaderSubscriptions:
    """The subscriptions of one stream, between `open` and `close`.

    `is_announced` has clients of all servers reach the stream; otherwise those of this server do.
    """

    __slots__ = ("_account", "_answers", "_is_announced", "_own", "_subscriptions")

    def __init__(
        self,
        own: OwnSubscriptions,
        account: Account,
        stream_name: str,
        domain: str,
        is_announced: bool,
    ) -> None:
        self._own = own
        self._account = account
        self._is_announced = is_announced
        self._answers = answer_patterns(account.name, domain, stream_name) if is_announced else []
        self._subscriptions: list[Subscription] | None = None

    def open(self, subjects: tuple[str, ...], ingest: Inlet) -> None:
        """Take publishes to the subjects of the stream, and answers of its clients."""
        self.close()
        self._subscriptions = [
            self._own.take_in(self._account, subject.encode(), ingest, self._is_announced)
            for subject in subjects
        ]
        for pattern in self._answers:
            self._own.announce(self._account, pattern)

    def close(self) -> None:
        """Take nothing any more, because the stream has ended or another server leads it."""
        if self._subscriptions is None:
            return
        for sub in self._subscriptions:
            self._own.end(sub)
        self._subscriptions = None
        for pattern in self._answers:
            self._own.withdraw(self._account, pattern)
