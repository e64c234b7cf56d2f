"""One attempt to write one partition: its steps, and its behaviour during an outage.

The module takes rows and a connection; it knows neither Spark nor Arrow, so that every step can be
tested against a real server by itself. `sink` and `markers` explain the order of the steps and why
a row is written once.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeVar, final

from headwater.base.errors import OperatingError
from headwater.client.link.api import ApiClient
from headwater.client.link.connection import Connection
from headwater.client.link.errors import (
    ConnectionLostError,
    LinkError,
    NoRespondersError,
    TimedOutError,
    UnreachableError,
)
from headwater.client.link.outage import Outage
from headwater.client.link.publisher import (
    IN_FLIGHT_MAX,
    MessageRefusedError,
    Messages,
    NotServedError,
    Publisher,
    SendApartError,
)
from headwater.spark.rows import BadRow, RowError, Rows
from headwater.spark.write.dead_letters import DeadLetterBox, DeadLetters
from headwater.spark.write.markers import Claim, Lease, Outcome, Targets, now_s
from headwater.spark.write.row_ids import RowIds, content_of
from headwater.spark.write.tail import NOTHING_MOVED, InOrder, Moved, Tail

# Errors that may pass: a server restarts, a stream elects a leader, messages need single acks.
_PASSING: Final = (
    ConnectionLostError,
    NoRespondersError,
    NotServedError,
    SendApartError,
    TimedOutError,
    UnreachableError,
)

# The limit for one partition: the ids travel to the driver, some 60 MB for as many.
UNDECIDED_ROWS_MAX: Final = 1_000_000

Answer = TypeVar("Answer")


class RecutError(OperatingError):
    """Too many rows of a batch that an earlier run has begun are in other partitions now."""


class Step(Enum):
    """A step that an attempt has just done, or is about to do; tests let it fail there."""

    STARTED = "started"
    CLAIMED = "claimed"
    SENDING = "sending"
    SENT = "sent"
    ACKNOWLEDGED = "acknowledged"
    DONE = "done"


# Called with each step.
Watch = Callable[[Step], None]


def unwatched(step: Step) -> None:
    """Do nothing."""


@dataclass(frozen=True)
class Work:
    """The task of one attempt: the target and the rows."""

    stream: str
    # The short id of the query, or for a batch write that of the job.
    query: str
    batch: int
    partition: int
    in_flight_max: int = IN_FLIGHT_MAX
    atomic: bool = False
    # The stream's own limit, headers included; 0 if it has none.
    message_bytes_max: int = 0
    # For rows that cannot be messages; without it they are errors.
    dead_letters: DeadLetterBox | None = None
    # The run of the query, from one start to its end.
    run: str = ""
    # Whether rows may depend on the content of the stream, or bring ids of their own.
    has_expectations: bool = False
    has_message_ids: bool = False


@dataclass(frozen=True)
class Written:
    """The result of an attempt. Rows that existed already are not counted as written."""

    rows: int
    written: int
    # The sum over all rows, independent of their order (`RowIds.content_sum`).
    content_sum: int = 0
    is_replay: bool = False
    # Rows and dead letters for the driver to decide on.
    moved: Moved = NOTHING_MOVED
    letters_moved: Moved = NOTHING_MOVED


@dataclass(frozen=True)
class Links:
    """Two connections: acks and answers would have to be told apart on one."""

    asking: Connection
    publishing: Connection


def write_at_least_once(
    links: Links, work: Work, rows: Iterator[Rows], watch: Watch = unwatched
) -> Written:
    """Publish all rows; a second attempt within the duplicate window writes nothing twice."""
    watch(Step.STARTED)
    sending = _Sending(links, work, watch)
    sending.send_all(rows)
    return Written(sending.row_count, sending.acknowledged, sending.content_sum)


def write_exactly_once(
    links: Links, work: Work, marker_bucket: str, rows: Iterator[Rows], watch: Watch = unwatched
) -> Written:
    """Publish those rows that no attempt has published yet."""
    watch(Step.STARTED)
    api = ApiClient(links.asking)
    claim = Claim(api, marker_bucket, work.query, work.partition, work.batch, work.run)
    patiently = Patience(links.asking)
    claimed_s = now_s()
    targets = patiently(lambda: _targets(api, work))
    outcome = patiently(lambda: claim.acquire(targets))
    watch(Step.CLAIMED)
    sending = _Sending(links, work, watch)
    if outcome is Outcome.DONE:
        return sending.pass_over(rows)
    sending.guard(claim, targets, claimed_s, is_first=outcome is Outcome.FIRST)
    if not sending.send_all(rows):
        return sending.pass_over(rows)
    watch(Step.ACKNOWLEDGED)
    patiently(lambda: claim.finish(sending.row_count, sending.digest))
    watch(Step.DONE)
    return Written(
        sending.row_count,
        sending.acknowledged,
        sending.content_sum,
        is_replay=outcome is Outcome.AGAIN,
        moved=sending.moved(),
        letters_moved=sending.letters_moved(),
    )


def _targets(api: ApiClient, work: Work) -> Targets:
    """The current state of the target streams."""
    box = work.dead_letters
    letters = None if box is None else api.stream_info(box.stream)
    return Targets(api.stream_info(work.stream), letters)


@final
class Patience:
    """Retries actions that fail for a reason that may pass, with growing pauses."""

    def __init__(self, connection: Connection) -> None:
        self._outage = Outage(connection.login)

    def __call__(self, action: Callable[[], Answer]) -> Answer:
        """The result of `action`, which may be called several times."""
        while True:
            try:
                answer = action()
            except _PASSING as error:
                self.pause(error)
            else:
                self.forget()
                return answer

    def forget(self) -> None:
        """End the outage after a success."""
        self._outage.end()

    def pause(self, error: LinkError) -> None:
        """Wait a little, or raise the error if the outage has lasted too long."""
        self._outage.pause(error)


@final
class _Sending:
    """The rows of one attempt on their way: to be sent, under way, or in doubt after an error."""

    def __init__(self, links: Links, work: Work, watch: Watch) -> None:
        self._links = links
        self._work = work
        self._watch = watch
        self._ids = RowIds(work.query, work.batch, work.partition)
        self._publisher = Publisher(
            links.publishing,
            work.stream,
            in_flight_max=work.in_flight_max,
            atomic=work.atomic,
            numbered=work.has_expectations,
        )
        self._patience = Patience(links.publishing)
        self._acknowledged_before = 0
        self._queue: deque[Messages] = deque()
        self._in_doubt = Messages.none()
        self._claim: Claim | None = None
        self._lease: Lease | None = None
        self._tail: Tail | None = None
        self._in_order: InOrder | None = None
        self._keeps_what_it_has = True
        self._may_be_cut_anew = False
        # Ids of rows that are published without them, because they are too large with them.
        self._nameless: set[bytes] = set()
        self._dead_letters: DeadLetters | None = None
        if work.dead_letters is not None:
            named = self._ids.prefix.decode()[:-1]
            api = ApiClient(links.asking)
            self._dead_letters = DeadLetters(api, work.dead_letters, work.stream, named)
        self.row_count = 0

    @property
    def digest(self) -> str:
        """The digest of all rows."""
        return self._ids.digest()

    @property
    def content_sum(self) -> int:
        """The sum over all rows, independent of their order."""
        return self._ids.content_sum

    @property
    def acknowledged(self) -> int:
        """The number of rows that were acknowledged as new."""
        return self._publisher.acknowledged - self._publisher.duplicates

    def guard(self, claim: Claim, targets: Targets, claimed_s: float, is_first: bool) -> None:
        """Send only under a lease on the claim; unless `is_first`, skip existing rows."""
        self._claim = claim
        self._keeps_what_it_has = targets.rows.keeps_what_it_has
        self._may_be_cut_anew = (
            claim.is_of_another_run
            and self._keeps_what_it_has
            and not self._work.has_message_ids
            and not self._work.has_expectations
        )
        if not is_first:
            self._tail = self._tail_from(claim.from_sequence)
            self._look_for_letters(claim)
            if not self._keeps_what_it_has:
                self._in_order = InOrder(self._tail, *claim.written)
        look = None if is_first else self._read_tails
        self._lease = Lease(claim, targets.window_s, claimed_s, look)
        if self._may_be_cut_anew:
            self._lease.let_runs_end(claim.run_age_s)

    def _read_tails(self) -> None:
        """Search for rows that an earlier attempt has written up to now."""
        if self._tail is not None:
            self._tail.read_new()
        if self._dead_letters is not None and self._dead_letters.tail is not None:
            self._dead_letters.tail.read_new()

    def send_all(self, rows: Iterator[Rows]) -> bool:
        """Send all rows and wait for their acks. Returns False if the batch was committed."""
        if self._lease is not None and self._patience(self._lease.ensure) is Outcome.DONE:
            return False
        for part in rows:
            if part.bad is not None:
                self._set_aside(part.bad)
            else:
                messages = self._that_fit(self._messages(part))
                if self._in_order is not None:
                    messages = self._in_order.of(messages, self.digest)
                self._enqueue(messages)
            if not self._pump():
                return False
        if self._in_order is not None:
            self._enqueue(self._in_order.rest())
        while self._pump():
            try:
                self._publisher.finish()
                return True
            except _PASSING as error:
                self._set_back(error)
            except MessageRefusedError as error:
                self._set_refused_aside(error)
        return False

    def pass_over(self, rows: Iterator[Rows]) -> Written:
        """Write none of the remaining rows; the driver needs to know which rows the batch has."""
        for part in rows:
            if part.bad is not None:
                self._bad_id(part.bad)
            else:
                self._messages(part)
        return Written(self.row_count, 0, self.content_sum, is_replay=True)

    def _messages(self, rows: Rows) -> Messages:
        """Rows as messages, with their ids in the headers."""
        ids = self._ids.of(rows.subjects, rows.header_lines, rows.payloads)
        if rows.message_ids is not None:
            ids = [own or made for own, made in zip(rows.message_ids, ids, strict=True)]
        if any(rows.header_lines):
            headers = [
                b"NATS/1.0\r\nNats-Msg-Id: %b\r\n%b\r\n" % pair
                for pair in zip(ids, rows.header_lines, strict=True)
            ]
        else:
            headers = [b"NATS/1.0\r\nNats-Msg-Id: %b\r\n\r\n" % row_id for row_id in ids]
        self._leave_out_ids(rows, ids, headers)
        first = self.row_count
        self.row_count += len(ids)
        return Messages(rows.subjects, headers, rows.payloads, ids, range(first, self.row_count))

    def _leave_out_ids(self, rows: Rows, ids: list[bytes], headers: list[bytes]) -> None:
        """Leave out the ids of messages that are too large with them, unless the row brings one."""
        size_max = self._publisher.message_bytes_max
        if self._work.message_bytes_max:
            size_max = min(size_max, self._work.message_bytes_max)
        largest = max(map(len, rows.payloads), default=0) + max(map(len, headers), default=0)
        if largest <= size_max:
            return
        for at, payload in enumerate(rows.payloads):
            is_own = rows.message_ids is not None and rows.message_ids[at] is not None
            if is_own or len(headers[at]) + len(payload) <= size_max:
                continue
            lines = rows.header_lines[at]
            header = b"NATS/1.0\r\n%b\r\n" % lines if lines else b""
            if len(header) + len(payload) <= size_max:
                headers[at] = header
                self._nameless.add(ids[at])

    def _enqueue(self, messages: Messages) -> None:
        self._queue.extend(self._parts(messages))

    def _parts(self, messages: Messages) -> list[Messages]:
        """The parts in which to send messages; one without an id is alone."""
        parts = []
        begin = 0
        if self._nameless:
            for at, row_id in enumerate(messages.ids):
                if row_id in self._nameless:
                    parts += self._publisher.cut(messages.part(begin, at))
                    parts += self._publisher.cut(messages.part(at, at + 1))
                    begin = at + 1
        return parts + self._publisher.cut(messages.part(begin, len(messages)))

    def _pump(self) -> bool:
        """Send the queued messages. Returns False if the batch was committed."""
        while self._queue or len(self._in_doubt) or self._dead_letters:
            try:
                for link in (self._links.asking, self._links.publishing):
                    if not link.is_open:
                        link.reconnect()
                if self._queue:
                    self._publisher.make_room(self._queue[0])
                # Nothing that takes long may come between this and the write to the socket.
                if self._lease is not None and self._lease.ensure() is Outcome.DONE:
                    return False
                if self._dead_letters:
                    self._watch(Step.SENDING)
                    self._dead_letters.put_next()
                    self._watch(Step.SENT)
                    continue
                if len(self._in_doubt):
                    self._resolve()
                    continue
                if self._nameless and self._queue[0].ids[0] in self._nameless:
                    if not self._send_nameless():
                        return False
                    continue
                part = self._unwritten(self._queue.popleft())
                self._watch(Step.SENDING)
                self._publisher.send(part)
                self._watch(Step.SENT)
            except _PASSING as error:
                self._set_back(error)
            except MessageRefusedError as error:
                self._set_refused_aside(error)
        return True

    def _send_nameless(self) -> bool:
        """Send a message without an id, unless it exists. Returns False if the batch was committed.

        The server does not recognise a second copy of it, so it is sent when no possible copy is
        under way, and its ack is awaited.
        """
        self._publisher.finish()
        if self._lease is not None and self._lease.wait_for_others() is Outcome.DONE:
            return False
        part = self._queue[0]
        if self._tail is not None:
            content, nth = content_of(part.ids[0]), int(part.ids[0].rpartition(b"-")[2])
            if self._tail.nameless(part.subjects[0], content) > nth:
                self._queue.popleft()
                return True
        self._queue.popleft()
        self._watch(Step.SENDING)
        self._publisher.send(part)
        self._watch(Step.SENT)
        self._publisher.finish()
        return True

    def _unwritten(self, messages: Messages) -> Messages:
        """The messages without those that the last search found or the driver decides on."""
        if self._tail is None:
            return messages
        left = self._tail.without_found(messages)
        if self._tail.undecided_count > UNDECIDED_ROWS_MAX:
            raise RecutError(
                f"an earlier run of the query has begun batch {self._work.batch} with other"
                f" partitions, and more than {UNDECIDED_ROWS_MAX} rows have moved between them: go"
                " back to the number of partitions it had until this batch is written"
            )
        return left

    def moved(self) -> Moved:
        """The rows that may have changed their partition, for the driver."""
        return NOTHING_MOVED if self._tail is None else self._tail.moved(self._ids.has)

    def letters_moved(self) -> Moved:
        """The dead letters that may have changed their partition, for the driver."""
        tail = None if self._dead_letters is None else self._dead_letters.tail
        return NOTHING_MOVED if tail is None else tail.moved(self._ids.has)

    # --- recovery from errors --------------------------------------------------------------------

    def _set_back(self, error: LinkError) -> None:
        """Mark messages under way as in doubt: they are searched before they are sent again."""
        floor = self._publisher.floor
        self._in_doubt.extend(self._publisher.take_unacknowledged())
        self._links.publishing.close()
        if self._lease is not None and self._claim is not None:
            if self._tail is None:
                self._tail = self._tail_from(max(floor + 1, self._claim.from_sequence))
            self._look_for_letters(self._claim)
            self._lease.doubt(self._read_tails)
        if self._publisher.acknowledged > self._acknowledged_before:
            self._patience.forget()
        self._acknowledged_before = self._publisher.acknowledged
        if not isinstance(error, SendApartError):
            self._patience.pause(error)

    def _resolve(self) -> None:
        """Put messages in doubt that were not found in front of the queue."""
        doubtful = self._in_doubt
        if self._tail is not None and not self._keeps_what_it_has:
            in_order = InOrder(self._tail)
            certain = in_order.of(doubtful)
            certain.extend(in_order.rest())
            doubtful = certain
        self._queue.extendleft(reversed(self._parts(doubtful)))
        self._in_doubt = Messages.none()

    # --- dead letters --------------------------------------------------------------------------

    def _bad_id(self, bad: BadRow) -> bytes:
        """The id of a row that cannot be a message, which is a row of the batch all the same."""
        self.row_count += 1
        return self._ids.of_bad(bad.subject, bad.fault.encode(), bad.payload)

    def _set_aside(self, bad: BadRow) -> None:
        """Make a dead letter, or raise an error without a stream for it."""
        if self._dead_letters is None:
            raise RowError(bad.reason)
        self._dead_letters.add(self._bad_id(bad), bad.subject, bad.payload, bad.reason)

    def _that_fit(self, messages: Messages) -> Messages:
        """The messages without those that are too large, which become dead letters if possible."""
        if self._dead_letters is None:
            return messages
        refused = dict(self._publisher.too_large(messages))
        for at, error in refused.items():
            self._add_letter(messages.part(at, at + 1), error)
        if not refused:
            return messages
        return messages.picked([at for at in range(len(messages)) if at not in refused])

    def _set_refused_aside(self, error: MessageRefusedError) -> None:
        """Turn rows that the server has refused for their content into dead letters."""
        if self._dead_letters is None or not error.is_its_fault:
            raise error
        for message, reason in self._publisher.take_refused():
            self._add_letter(message, reason)

    def _add_letter(self, message: Messages, error: MessageRefusedError) -> None:
        if self._dead_letters is not None:
            (row_id,), (subject,), (payload,) = message.ids, message.subjects, message.payloads
            self._dead_letters.add(row_id, subject, payload, str(error))

    def _look_for_letters(self, claim: Claim) -> None:
        """From now on search for a dead letter before it is put."""
        letters = self._dead_letters
        if letters is not None and letters.tail is None:
            is_cut_anew = claim.is_of_another_run and not self._work.has_message_ids
            letters.tail = self._tail_of(
                letters.stream, claim.letters_from_sequence, is_cut_anew=is_cut_anew
            )

    def _tail_from(self, sequence: int) -> Tail:
        return self._tail_of(self._work.stream, sequence, is_cut_anew=self._may_be_cut_anew)

    def _tail_of(self, stream: str, sequence: int, is_cut_anew: bool) -> Tail:
        prefix = b"" if self._work.has_message_ids else self._ids.prefix
        batch_prefix = self._ids.batch_prefix if is_cut_anew else b""
        return Tail(ApiClient(self._links.asking), stream, sequence, prefix, batch_prefix)
