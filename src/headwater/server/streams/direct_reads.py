"""Direct reads: the stream that answers one, and the messages that it sends.

A mirror may answer in the place of its origin. A read finds the messages that were published before
it; the caller has it wait while the stream is being changed.

A linearizable read is answered by the leader, which makes sure that it leads after the bytes were
read (`confirmation`). Its messages are gathered before the first is sent, and a batch is gathered
while the stream is held: all of it is that of one applied index.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, final

from headwater.base.sliced import SLICE_UNITS_MAX, Work
from headwater.jetstream.api.message_get import (
    NOT_LEADING,
    UNREADABLE,
    UNREPAIRED,
    Replies,
    Reply,
    get_direct,
    get_direct_by_subject,
    get_last,
    is_many,
    session_block,
)
from headwater.jetstream.api.streams import StreamApi
from headwater.jetstream.config.stream_config import (
    ReadConsistency,
    StreamConfig,
    has_leases,
)
from headwater.jetstream.errors import ApiError
from headwater.jetstream.proposal import Proposal
from headwater.jetstream.records import Record
from headwater.jetstream.streams.stream import Stream
from headwater.server.core.accounts import Account
from headwater.server.streams.confirmation import NOT_LED, SOLE, Confirmation
from headwater.server.streams.copying.mirror_reads import MirrorReads
from headwater.server.streams.many_replies import ManyReplies
from headwater.server.streams.repair_waits import LOOK_S, LOOKS_MAX
from headwater.server.streams.requests import Request
from headwater.server.streams.runner import StreamRunner
from headwater.server.streams.runners import StreamRunners
from headwater.store.errors import DamagedMessageError, StoreError
from headwater.subjects.grammar import FULL, STAR

DIRECT_GET_SUBJECT: Final = b"$JS.API.DIRECT.GET."
DIRECT: Final = "DIRECT"
DIRECT_LEADER_GET_SUBJECT: Final = b"$JS.API.DIRECT_LEADER.GET."
DIRECT_LEADER: Final = "DIRECT_LEADER"
# The work of adding a message to those that are gathered.
_GATHER_UNITS: Final = 8


def is_linearizable(config: StreamConfig, call: str) -> bool:
    """Whether a kind of direct read, which the stream allows, is a linearizable one."""
    return call != DIRECT or config.read_consistency is ReadConsistency.STRONG


@final
class DirectReads:
    """The direct reads of all accounts of a server."""

    __slots__ = ("_apis", "_mirrors", "_runners")

    def __init__(
        self, runners: StreamRunners, apis: Mapping[str, StreamApi], mirrors: MirrorReads
    ) -> None:
        self._runners = runners
        self._apis = apis
        self._mirrors = mirrors

    def are_led_here(self, account: Account, subjects: list[bytes]) -> bool:
        """Whether this server leads the streams of all these reads."""
        size = len(_family_of(subjects[0])[1])
        names = {subject[size:].partition(b".")[0] for subject in subjects}
        find = self._runners.find
        return all(find(account.name, name.decode(errors="surrogateescape")) for name in names)

    def answer_lasts(
        self, account: Account, subjects: list[bytes], replies: list[bytes]
    ) -> list[int] | None:
        """Answer direct reads of the last message of a subject, as readers of buckets send them.

        Returns the positions of the reads that have no stream. Returns None, and answers none, if
        one of the requests is of another kind than the first, or of one that is not answered here:
        each is then answered by itself, in the same words.
        """
        call, prefix = _family_of(subjects[0])
        size = len(prefix)
        asked = [
            subject[size:].partition(b".") for subject in subjects if subject.startswith(prefix)
        ]
        if len(asked) != len(subjects) or not all(
            key and STAR not in key and FULL not in key for _, _, key in asked
        ):
            return None
        broker = self._runners.broker
        broker.turn.decide_gathered()
        streams: dict[bytes, Stream | None] = {}
        confirmations: list[Confirmation] = []
        for name, _, _ in asked:
            if name in streams:
                continue
            stream = self.find_stream(account, name.decode(errors="surrogateescape"), call)
            streams[name] = stream
            if stream is None:
                continue
            if self._runners.is_held(account.name, stream.name):
                return None
            if is_linearizable(stream.config, call):
                confirmation = self._confirmation_of(account, stream.name)
                if not confirmation.is_immediate:
                    return None
                confirmations.append(confirmation)
        unanswered: list[int] = []
        if None in streams.values():
            unanswered = [number for number, each in enumerate(asked) if streams[each[0]] is None]
            replies = [
                reply
                for reply, each in zip(replies, asked, strict=True)
                if streams[each[0]] is not None
            ]
        try:
            found = [get_last(stream, key) for name, _, key in asked if (stream := streams[name])]
        except DamagedMessageError:
            return None
        if confirmations and not all(each.holds() for each in confirmations):
            return None
        if len(found) == 1:
            block, payload = found[0]
            broker.send_reply(account, replies[0], payload, block)
        elif found:
            blocks, payloads = zip(*found, strict=True)
            broker.send_replies(account, replies, payloads, blocks)
        return unanswered

    def find_stream(
        self, account: Account, name: str, call: str, is_session: bool = False
    ) -> Stream | None:
        """The stream that answers a kind of direct read, if it is there and allows the read; a
        mirror may answer in its place."""
        api = self._apis.get(account.name)
        stream = None if api is None else api.account.streams.get(name)
        if stream is not None and not has_leases(stream.config):
            stream = stream if call == DIRECT and stream.config.allow_direct else None
        if call == DIRECT:
            return self._mirrors.choose(account.name, name, stream, is_session)
        # No mirror knows all that was acknowledged.
        return None if stream is None or stream.config.mirror is not None else stream

    def confirmation(self, account: Account, name: str) -> Confirmation:
        """The way in which this server makes sure that it leads a stream, for gets that are
        linearizable there."""
        api = self._apis.get(account.name)
        stream = None if api is None else api.account.streams.get(name)
        if stream is None or not has_leases(stream.config):
            return SOLE
        return self._confirmation_of(account, name)

    def _confirmation_of(self, account: Account, name: str) -> Confirmation:
        """The confirmation of a stream that has leases."""
        runner = self._runners.find(account.name, name)
        return NOT_LED if runner is None else runner.confirmation

    def send(
        self, account: Account, stream: Stream, subject: str, reply: bytes, body: bytes
    ) -> None:
        """Send the messages that a direct read asks for."""
        begin = self._beginning(stream, subject, body, is_gathered=False)
        self._send_all(account, stream, reply, begin(), begin)

    def send_linearizable(
        self, account: Account, runner: StreamRunner, subject: str, reply: bytes, body: bytes
    ) -> None:
        """Send the messages that a linearizable read asks for, or refuse it."""
        stream, confirmation = runner.stream, runner.confirmation
        begin = self._beginning(stream, subject, body, is_gathered=True)
        refusal = session_block(stream, body, NOT_LEADING), b""

        def begin_single() -> Replies:
            return _confirmed(begin(), confirmation, refusal)

        def send(replies: list[Reply] | None) -> None:
            found = replies if replies is not None and confirmation.holds() else [refusal]
            self._send_all(account, stream, reply, iter(found), None)

        if not is_many(body):
            self._send_all(account, stream, reply, begin_single(), begin_single)
        else:
            self._gather(runner, begin, send, LOOKS_MAX)

    def _gather(
        self,
        runner: StreamRunner,
        begin: Callable[[], Replies],
        send: Callable[[list[Reply] | None], object],
        looks: int,
    ) -> None:
        """Read all messages of a request while the stream is held, with nothing in flight, and send
        them. A message that is to come from another server is waited for. None is sent if the
        stream cannot be read any more."""
        if self._runners.find(runner.account.name, runner.stream.name) is not runner:
            send(None)
            return

        def again() -> None:
            self._gather(runner, begin, send, looks - 1)

        def gathering() -> Work[Proposal[Record] | None]:
            found: list[Reply] = []
            try:
                for each in begin():
                    if each is None:
                        yield SLICE_UNITS_MAX
                    else:
                        found.append(each)
                        yield _GATHER_UNITS
            except DamagedMessageError:
                if looks:
                    self._runners.scheduler.call_later(LOOK_S, again)
                    return None
                found = [(UNREPAIRED, b"")]
            except StoreError:
                found = [(UNREADABLE, b"")]
            send(found)
            return None

        def refuse(_: ApiError) -> None:
            send(None)

        runner.request(Request(gathering, refuse))

    def _beginning(
        self, stream: Stream, subject: str, body: bytes, is_gathered: bool
    ) -> Callable[[], Replies]:
        """A call that begins to read the messages of a request."""
        max_pending = self._runners.broker.buffers.max_pending
        if subject:
            key = subject.encode(errors="surrogateescape")
            return partial(get_direct_by_subject, stream, key, body, max_pending)
        return partial(get_direct, stream, body, max_pending, is_gathered)

    def _send_all(
        self,
        account: Account,
        stream: Stream,
        reply: bytes,
        replies: Replies,
        begin: Callable[[], Replies] | None,
    ) -> None:
        ManyReplies(
            self._runners.broker,
            self._runners.scheduler,
            self._runners.slices,
            account,
            reply,
            replies,
            lambda: self._is_there(account, stream),
            lambda: not self._runners.is_held(account.name, stream.name),
            begin,
        ).send()

    def _is_there(self, account: Account, stream: Stream) -> bool:
        """Whether a stream has not been deleted meanwhile."""
        api = self._apis.get(account.name)
        return api is not None and api.account.streams.get(stream.name) is stream


def _family_of(subject: bytes) -> tuple[str, bytes]:
    """The kind of a read and the beginning of its subject; those of plain ones for any other."""
    if subject.startswith(DIRECT_LEADER_GET_SUBJECT):
        return DIRECT_LEADER, DIRECT_LEADER_GET_SUBJECT
    return DIRECT, DIRECT_GET_SUBJECT


def _confirmed(replies: Replies, confirmation: Confirmation, refusal: Reply) -> Replies:
    """The replies to a read, all of which are read before the leader makes sure that it leads."""
    found: list[Reply] = []
    for reply in replies:
        if reply is None:
            yield None
        else:
            found.append(reply)
    if confirmation.holds():
        yield from found
    else:
        yield refusal
