"""Replies of many messages, sent in slices, so that other clients are served in between.

A read may ask for a million messages. They are read and sent in short slices, and only as fast as
the client reads them: messages that the client would not read yet stay on the disk. The rest of the
reply is dropped when the client has unsubscribed, or the stream is gone.
"""

from collections.abc import Callable, Iterator
from typing import Final, final

from headwater.jetstream.api.message_get import UNREADABLE, UNREPAIRED, Reply
from headwater.runtime.environment import Scheduler
from headwater.server.core.accounts import Account
from headwater.server.core.broker import Broker
from headwater.server.core.out_buffers import UNREAD_LOOK_S
from headwater.server.core.slice_turns import SliceTurns
from headwater.server.streams.repair_waits import LOOK_S, LOOKS_MAX
from headwater.store.errors import DamagedMessageError
from headwater.store.log.message_log import StoreError

# A slice ends at the first of these limits.
SLICE_REPLIES_MAX: Final = 256
SLICE_BYTES_MAX: Final = 256 * 1024


@final
class ManyReplies:
    """The messages of one reply that are still to be sent."""

    __slots__ = (
        "_account",
        "_broker",
        "_is_free",
        "_is_wanted",
        "_looks_left",
        "_read_again",
        "_replies",
        "_scheduler",
        "_slices",
        "_subject",
    )

    def __init__(
        self,
        broker: Broker,
        scheduler: Scheduler,
        slices: SliceTurns,
        account: Account,
        subject: bytes,
        replies: Iterator[Reply | None],
        is_wanted: Callable[[], bool],
        is_free: Callable[[], bool],
        read_again: Callable[[], Iterator[Reply | None]] | None = None,
    ) -> None:
        """`is_wanted` tells whether the stream is still there, `is_free` that it is not being
        changed. `read_again` begins the reply once more, when a message was repaired."""
        self._broker = broker
        self._scheduler = scheduler
        self._slices = slices
        self._account = account
        self._subject = subject
        self._replies = replies
        self._is_wanted = is_wanted
        self._is_free = is_free
        self._read_again = read_again
        self._looks_left = LOOKS_MAX

    def send(self) -> None:
        """Send the first slice now, and the others in later turns."""
        self._send_some()

    def _send_next(self) -> None:
        if not self._account.is_heard(self._subject) or not self._is_wanted():
            return
        if self._broker.is_unread(self._account, self._subject) or not self._is_free():
            self._scheduler.call_later(UNREAD_LOOK_S, self._send_next)
            return
        self._send_some()

    def _send_some(self) -> None:
        try:
            is_left = self._send_slice()
        except DamagedMessageError:
            self._await_repair()
            return
        except StoreError:
            self._send([UNREADABLE], [b""])
            return
        if is_left:
            self._slices.add(self._send_next)

    def _await_repair(self) -> None:
        """Read again when a message may have come from another server. A reply that has begun, or
        has waited for long, ends with an error: none goes on behind a message that was left out."""
        if self._read_again is None or not self._looks_left:
            self._send([UNREPAIRED], [b""])
            return
        self._looks_left -= 1
        self._replies = self._read_again()
        self._scheduler.call_later(LOOK_S, self._send_next)

    def _send_slice(self) -> bool:
        """Send one slice. Returns whether there may be more messages."""
        size, size_max = 0, min(SLICE_BYTES_MAX, self._broker.buffers.unread_bytes_max)
        blocks: list[bytes] = []
        payloads: list[bytes] = []
        try:
            for found in self._replies:
                if found is None:
                    # A slice without a message: the search has used up its time.
                    return True
                blocks.append(found[0])
                payloads.append(found[1])
                size += len(found[0]) + len(found[1])
                if len(blocks) == SLICE_REPLIES_MAX or size >= size_max:
                    return True
            return False
        finally:
            # The messages before one that cannot be read are sent too.
            self._send(blocks, payloads)

    def _send(self, blocks: list[bytes], payloads: list[bytes]) -> None:
        if blocks:
            self._read_again = None
        if len(blocks) > 1 and all(blocks):
            subjects = [self._subject] * len(blocks)
            self._broker.send_replies(self._account, subjects, payloads, blocks)
            return
        for block, payload in zip(blocks, payloads, strict=True):
            self._broker.send(self._account, self._subject, None, payload, block)
