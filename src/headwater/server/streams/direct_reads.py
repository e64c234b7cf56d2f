"""Direct reads: the stream that answers one, and the messages that it sends.

A mirror may answer in the place of its origin. A read finds the messages that were published before
it; the caller has it wait while the stream is being changed.
"""

from collections.abc import Mapping
from functools import partial
from typing import Final, final

from headwater.jetstream.api.message_get import get_direct, get_direct_by_subject, get_last
from headwater.jetstream.api.streams import StreamApi
from headwater.jetstream.config.stream_config import ReadConsistency
from headwater.jetstream.streams.stream import Stream
from headwater.server.core.accounts import Account
from headwater.server.streams.copying.mirror_reads import MirrorReads
from headwater.server.streams.many_replies import ManyReplies
from headwater.server.streams.runners import StreamRunners
from headwater.store.errors import DamagedMessageError
from headwater.subjects.grammar import FULL, STAR

DIRECT_GET_SUBJECT: Final = b"$JS.API.DIRECT.GET."


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
        size = len(DIRECT_GET_SUBJECT)
        names = {subject[size:].partition(b".")[0] for subject in subjects}
        find = self._runners.find
        return all(find(account.name, name.decode(errors="surrogateescape")) for name in names)

    def answer_lasts(
        self, account: Account, subjects: list[bytes], replies: list[bytes]
    ) -> list[int] | None:
        """Answer direct reads of the last message of a subject, as readers of buckets send them.

        Returns the positions of the reads that have no stream. Returns None, and answers none, if
        one of the requests is of another kind: each is then answered by itself, in the same words.
        """
        size = len(DIRECT_GET_SUBJECT)
        asked = [
            subject[size:].partition(b".")
            for subject in subjects
            if subject.startswith(DIRECT_GET_SUBJECT)
        ]
        if len(asked) != len(subjects) or not all(
            key and STAR not in key and FULL not in key for _, _, key in asked
        ):
            return None
        broker = self._runners.broker
        broker.turn.decide_gathered()
        streams = {
            name: self.find_stream(account, name.decode(errors="surrogateescape"), "DIRECT")
            for name in {name for name, _, _ in asked}
        }
        if any(
            stream and self._runners.is_held(account.name, stream.name)
            for stream in streams.values()
        ):
            return None
        unanswered = [number for number, each in enumerate(asked) if streams[each[0]] is None]
        if unanswered:
            replies = [
                reply
                for reply, each in zip(replies, asked, strict=True)
                if streams[each[0]] is not None
            ]
        try:
            found = [get_last(stream, key) for name, _, key in asked if (stream := streams[name])]
        except DamagedMessageError:
            return None
        if found:
            blocks, payloads = zip(*found, strict=True)
            broker.send_replies(account, replies, payloads, blocks)
        return unanswered

    def find_stream(self, account: Account, name: str, call: str) -> Stream | None:
        """The stream that answers a kind of direct read, if it is there and allows the read; a
        mirror may answer in its place."""
        api = self._apis.get(account.name)
        stream = None if api is None else api.account.streams.get(name)
        if stream is not None and stream.config.read_consistency is ReadConsistency.DEFAULT:
            stream = stream if call == "DIRECT" and stream.config.allow_direct else None
        return self._mirrors.choose(account.name, name, stream) if call == "DIRECT" else stream

    def send(
        self, account: Account, stream: Stream, subject: str, reply: bytes, body: bytes
    ) -> None:
        """Send the messages that a direct read asks for."""
        max_pending = self._runners.broker.buffers.max_pending
        if subject:
            key = subject.encode(errors="surrogateescape")
            begin = partial(get_direct_by_subject, stream, key, body, max_pending)
        else:
            begin = partial(get_direct, stream, body, max_pending)
        ManyReplies(
            self._runners.broker,
            self._runners.scheduler,
            self._runners.slices,
            account,
            reply,
            begin(),
            lambda: self._is_there(account, stream),
            lambda: not self._runners.is_held(account.name, stream.name),
            begin,
        ).send()

    def _is_there(self, account: Account, stream: Stream) -> bool:
        """Whether a stream has not been deleted meanwhile."""
        api = self._apis.get(account.name)
        return api is not None and api.account.streams.get(stream.name) is stream
