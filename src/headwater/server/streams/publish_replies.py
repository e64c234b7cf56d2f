"""Messages that leave a stream because of a proposal: replies to publishers, messages that are
republished, and advisories about abandoned batches.
"""

from collections.abc import Iterable
from typing import Final, Protocol, final

from headwater.jetstream import error_codes
from headwater.jetstream.errors import ApiError
from headwater.jetstream.proposal import Proposal
from headwater.jetstream.records import Record
from headwater.jetstream.streams.stream import Stream
from headwater.server.core.accounts import Account
from headwater.server.core.broker import Broker
from headwater.server.streams.advisories import Advisories
from headwater.store.errors import DiskFullError

# The answer to publishes and requests that may have an effect, or not.
UNKNOWN: Final = ApiError.of(error_codes.PUBLISH_STATUS_UNKNOWN)


class Parts(Protocol):
    """The parts of a server that replies need."""

    broker: Broker
    advisories: Advisories


@final
class PublishReplies:
    """The replies of one stream."""

    __slots__ = ("_account", "_parts", "_stream")

    def __init__(self, parts: Parts, account: Account, stream: Stream) -> None:
        self._parts = parts
        self._account = account
        self._stream = stream

    def send(self, proposal: Proposal[Record]) -> None:
        """Send all that leaves with a proposal."""
        broker = self._parts.broker
        for subject, header, body in proposal.republished:
            broker.send(self._account, subject, None, body, header)
        subjects = proposal.reply_subjects
        if len(subjects) == 1:
            broker.send_reply(self._account, subjects[0], proposal.replies[0])
        elif subjects:
            broker.send_replies(self._account, subjects, proposal.replies)
        if proposal.abandoned:
            self.tell_abandoned(proposal)

    def tell_abandoned(self, proposal: Proposal[Record]) -> None:
        """Tell of the batches that a proposal has abandoned."""
        for batch_id, reason in proposal.abandoned:
            self._parts.advisories.batch_abandoned(
                self._account, self._stream.name, batch_id, reason
            )

    def refuse(self, proposal: Proposal[Record], error: ApiError) -> None:
        """Answer the publishes of a proposal that will never be applied.

        If the log had no room, replies that rest on stored messages are true all the same.
        """
        if proposal.reply_subjects:
            is_full = isinstance(proposal.failure, DiskFullError)
            stored = self._stream.log.last_sequence if is_full else -1
            proposal.refuse_after(stored, self._stream.publishing.acks.refusal(error))
            replies = proposal.reply_subjects, proposal.replies
            self._parts.broker.send_replies(self._account, *replies)

    def answer_unknown(self, proposals: Iterable[Proposal[Record]]) -> None:
        """Answer publishes that may be applied, or not; they get no other answer."""
        answer = self._stream.publishing.acks.refusal(UNKNOWN)
        for proposal in proposals:
            subjects, proposal.reply_subjects, proposal.replies = proposal.reply_subjects, [], []
            if subjects:
                self._parts.broker.send_replies(self._account, subjects, [answer] * len(subjects))
