"""Markers in a bucket: which attempt writes a partition of a batch, and which rows are written.

Keys of the bucket, `query` being the short id of a streaming query:

    <query>                 {"batch": 7, "committed": [[7, 2, 500, "5c…", "a0…"], …]}
                            the driver has committed batch 7, and before it the others: each with
                            its partitions, its rows, the digests of rows and of offsets
                            "begun": {"batch": 8, "runs": ["9a…", "c3…"], "from_sequence": 4711, …}
                            batch 8 was begun in the first of these runs of the query; the last
                            one is at it now
    <query>.<partition>     {"batch": 8, "state": "begun" | "written", "attempt": "5e1f…",
                             "stream": "ORDERS", "created": "2026-…", "from_sequence": 4711,
                             "rows": 0, "digest": "", "letters": null}

`letters` in both is the place from which on the dead letters of the batch are in their stream,
if the query has one for them; the rules for rows hold for letters too.

An attempt to write a partition first claims it: it puts `begun` over the revision it has read, so
that each of several attempts knows whether it is the latest. Rules:

1. No row is published before `begun` is stored, and `from_sequence` is lower than or equal to the
   sequence of every row that any attempt at this batch and partition publishes.
2. Only the driver's commit says that a batch is complete. An attempt cannot: when a stage before
   the sink fails, Spark simply ends the sink's input, and the attempt has written all rows it got
   without ever seeing the rest. `written` means only that the first `rows` rows, of which `digest`
   is the hash, have been acknowledged.
3. A claim is valid for a while (`Lease`): an attempt sends rows only within half the stream's
   duplicate window after it has learned that no later attempt has begun. So two copies of a row, of
   two attempts that did not find each other's in the stream, reach the server within one window,
   and the server stores one of them.
4. Batches only go up: a marker of a later batch means that this one was committed.
5. A batch that was committed is skipped if it is the same batch: its offsets or its rows are those
   that were committed. Spark repeats its last batch alone, and that with the offsets it had.
   Another batch under a committed number comes from a checkpoint that is older than the markers; it
   is refused (`check_replay`), because its rows were not written.
6. A run of a query, from one start to its end, cuts a batch into partitions once. The next run may
   cut it again, if the query has changed, and then existing rows have ids of partitions that have
   other rows now. So an attempt of another run than the one that has begun the batch searches the
   stream even if its partition was not begun, and from where the batch began; rows that it finds
   under ids of other partitions are left to the driver (`batch_commit`). Attempts of the earlier
   run may live on if their partition is not taken over, and the window does not know their rows by
   the new ids. So a run first puts its name; attempts of earlier runs, which check that name with
   each renewal, stop; and those of the new run send nothing until all other leases are over.
7. An attempt that finds itself overtaken waits, as long as the later one makes progress. Spark ends
   the slower of two attempts itself when the other has finished; a failure instead would count
   against its task, and a task that is slow only for its size would be given up in the end.

One case remains: an attempt that is frozen between reading the clock and the server's receipt of
its rows, for more than half the window, and then continues.

Older versions put `{"batch": 7}` and nothing else: a replay of that batch is skipped without a
check of its rows. A batch that an older version has begun is assumed to have its former partitions.

Knows nothing of Spark, rows or columns.
"""

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final, Literal, final

import msgspec

from headwater.base.clock import NS_PER_S
from headwater.base.errors import OperatingError, ProgrammerError
from headwater.client.api.answers import WRONG_LAST_SEQUENCE, StreamInfo
from headwater.client.link.api import ApiClient
from headwater.client.link.errors import ApiRefusedError
from headwater.client.link.publisher import MAX_PAYLOAD_BYTES
from headwater.go.times import parse_time

# A claim is renewed at least this often, so that an attempt that was overtaken stops soon, and a
# run that continues another one's batch does not wait long.
LEASE_S_MAX: Final = 5.0
# The interval at which an overtaken attempt checks the other one, and the silence after which it
# assumes that the other one is gone.
LOOK_S: Final = 0.5
SILENCE_S_MAX: Final = 60.0
# The batch of a query that has committed none.
NO_BATCH: Final = -1
# Other attempts may put a marker between our read and our put; this many in a row are an error.
CLAIM_TRIES_MAX: Final = 100
# The limit of remembered batches: Spark's own checkpoint keeps as many, so that no copy of it that
# can be started is older.
COMMITTED_BATCHES_MAX: Final = 100
# The bytes of a batch in a marker: two digests of 24 digits, three numbers and separators.
_COMMITTED_BYTES_MAX: Final = 128
# The last runs of a query at one batch; a task of an earlier run does not start any more.
RUNS_MAX: Final = 20
# A lease that ends before it can be used, this often in a row, will not be usable at all.
RENEWALS_MAX: Final = 100


class OvertakenError(OperatingError):
    """Another attempt, or another run, does this work now."""


class StalledError(OperatingError):
    """The server answers too slowly for the stream's duplicate window."""


class ChangedBatchError(OperatingError):
    """A batch has the number of a committed one and is another batch."""


class Outcome(Enum):
    """The result of a claim."""

    # This batch and partition were not begun before.
    FIRST = "first"
    # An earlier attempt has begun: rows may exist.
    AGAIN = "again"
    # A later attempt has begun.
    OVERTAKEN = "overtaken"
    # The batch was committed.
    DONE = "done"


class CommittedBatch(msgspec.Struct, frozen=True, array_like=True):
    """The facts about a batch that was committed."""

    batch: int
    partitions: int
    rows: int
    # The digest of all rows, in any order and partitions; and of the offsets, empty if unknown.
    digest: str
    offsets: str = ""

    def is_same(self, other: "CommittedBatch") -> bool:
        """Whether the batch of this number is a repetition of the other one.

        Equal offsets suffice: a source that returns the newest of each key has newer rows in a
        replay, and `rand()` has others.
        """
        if self.offsets and self.offsets == other.offsets:
            return True
        return (self.rows, self.digest) == (other.rows, other.digest)


class Place(msgspec.Struct, frozen=True):
    """The place of a batch's messages in a stream: from a sequence on."""

    stream: str
    created: str
    # Lower than or equal to the sequence of each of them.
    from_sequence: int

    @classmethod
    def behind(cls, target: StreamInfo) -> "Place":
        """The place of messages that were not published yet."""
        return cls(target.name, target.created, target.last_seq + 1)

    def now_in(self, target: StreamInfo) -> "Place":
        """The place of messages that were published at this place or not at all.

        The stream may be another one by now, or have been created again.
        """
        if (self.stream, self.created) == (target.name, target.created):
            return self
        return Place(target.name, target.created, target.first_seq)

    def or_before(self, other: "Place") -> "Place":
        """The place of messages that are at one of two places of a stream."""
        return self if self.from_sequence <= other.from_sequence else other


@dataclass(frozen=True)
class Targets:
    """The current state of a write's streams: for rows, and for dead letters if any."""

    rows: StreamInfo
    letters: StreamInfo | None = None

    @property
    def window_s(self) -> float:
        """The shorter of their duplicate windows."""
        infos = (self.rows, self.letters) if self.letters is not None else (self.rows,)
        return min(int(info.config.get("duplicate_window") or 0) for info in infos) / NS_PER_S

    def letters_place(self, before: Place | None) -> Place | None:
        """The place of dead letters, which were put at `before`, if given."""
        if self.letters is None:
            return before
        return before.now_in(self.letters) if before is not None else Place.behind(self.letters)


class BegunBatch(msgspec.Struct, frozen=True):
    """A batch that is not committed, as the first attempt at any of its partitions has put it.

    The place is that of all rows that any run has published of this batch.
    """

    batch: int
    # The newest run is the last.
    runs: tuple[str, ...]
    stream: str
    created: str
    from_sequence: int
    letters: Place | None = None

    @property
    def place(self) -> Place:
        return Place(self.stream, self.created, self.from_sequence)

    @classmethod
    def at(
        cls, batch: int, runs: tuple[str, ...], place: Place, letters: Place | None
    ) -> "BegunBatch":
        return cls(batch, runs, place.stream, place.created, place.from_sequence, letters)

    def is_overtaken(self, run: str) -> bool:
        """Whether a later run than the given one is at this batch."""
        return run in self.runs[:-1]

    def with_run(self, run: str) -> "BegunBatch":
        """The marker with this run as the current one. Raises OvertakenError if a later one is."""
        if self.is_overtaken(run):
            raise OvertakenError(
                f"a later run of the query is at batch {self.batch}: this one stops"
            )
        runs = self.runs if run in self.runs else (*self.runs, run)[-RUNS_MAX:]
        return BegunBatch.at(self.batch, runs, self.place, self.letters)

    def first_in(self, stream: str) -> int:
        """The sequence from which on this stream has rows or dead letters of the batch."""
        places = [self.place, self.letters]
        return min(
            (each.from_sequence for each in places if each and each.stream == stream), default=1
        )

    def now_in(self, targets: Targets) -> "BegunBatch":
        """The marker for the current state of the streams."""
        letters = targets.letters_place(self.letters)
        return BegunBatch.at(self.batch, self.runs, self.place.now_in(targets.rows), letters)


class QueryMarker(msgspec.Struct):
    """The value of a query's key. Older versions put the number alone."""

    batch: int
    # The newest batch is the last.
    committed: list[CommittedBatch] = []
    begun: BegunBatch | None = None

    def record_of(self, batch: int) -> CommittedBatch | None:
        """The facts about a committed batch."""
        return next((each for each in self.committed if each.batch == batch), None)

    def check_replay(self, again: CommittedBatch) -> None:
        """Raises ChangedBatchError unless the committed batch of this number is equal."""
        known = self.record_of(again.batch)
        if known is None and self.batch == again.batch:
            # Committed by an older version, and the only one that Spark repeats by itself.
            return
        if known is None:
            found = f"batch {self.batch} was committed after it, and its own rows are not known"
        elif known.is_same(again):
            return
        else:
            found = (
                f"it was committed with {known.rows} rows in {known.partitions} partitions, and"
                f" has {again.rows} in {again.partitions} now, which differ"
            )
        raise ChangedBatchError(
            f"batch {again.batch} is not the one that was written before: {found}"
        )


@dataclass(frozen=True)
class Marker:
    """The value of a partition's key."""

    batch: int
    state: Literal["begun", "written"]
    attempt: str
    stream: str
    created: str
    from_sequence: int
    # The rows of an attempt that were acknowledged from its first row on; later attempts keep them.
    rows: int = 0
    digest: str = ""
    letters: Place | None = None

    @property
    def place(self) -> Place:
        return Place(self.stream, self.created, self.from_sequence)


def now_s() -> float:
    """A clock that also counts while the machine sleeps, if the system has one."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)


def query_marker(api: ApiClient, bucket: str, query: str) -> tuple[QueryMarker, int]:
    """The marker of a query, and its revision."""
    entry = api.kv_get(bucket, query)
    if entry is None:
        return QueryMarker(batch=NO_BATCH), 0
    try:
        return msgspec.json.decode(entry.data, type=QueryMarker), entry.sequence
    except msgspec.DecodeError:
        # Deleted by hand, or written by another program: nothing is known.
        return QueryMarker(batch=NO_BATCH), entry.sequence


def commit(api: ApiClient, bucket: str, query: str, record: CommittedBatch) -> QueryMarker | None:
    """Commit a batch whose partitions are all written; None if this succeeds.

    If it or a later one was committed before, nothing is put and the marker is returned.
    """
    for _ in range(CLAIM_TRIES_MAX):
        marker, revision = query_marker(api, bucket, query)
        if marker.batch >= record.batch:
            return marker
        kept = [*marker.committed, record][-_remembered_max(api) :]
        if _put(api, bucket, query, QueryMarker(record.batch, kept), revision) is not None:
            return None
    raise OvertakenError(f"marker {query} of bucket {bucket} is put by others all the time")


def begin_batch(
    api: ApiClient, bucket: str, query: str, batch: int, run: str, targets: Targets
) -> BegunBatch | None:
    """The batch as the first attempt has begun it, which may be this one; None if it was committed.

    `targets` have to be fresh.
    """
    for _ in range(CLAIM_TRIES_MAX):
        marker, revision = query_marker(api, bucket, query)
        found = marker.begun
        if marker.batch >= batch or (found is not None and found.batch > batch):
            return None
        if found is None or found.batch < batch:
            letters = targets.letters_place(None)
            begun = BegunBatch.at(batch, (run,), Place.behind(targets.rows), letters)
        else:
            begun = found.with_run(run).now_in(targets)
        if begun == found:
            return begun
        put = QueryMarker(marker.batch, marker.committed, begun)
        if _put(api, bucket, query, put, revision) is not None:
            return begun
    raise OvertakenError(f"marker {query} of bucket {bucket} is put by others all the time")


def _remembered_max(api: ApiClient) -> int:
    """The number of committed batches for which a message of this server has room."""
    message_bytes_max = int(api.connection.info.get("max_payload", MAX_PAYLOAD_BYTES))
    return max(1, min(COMMITTED_BATCHES_MAX, message_bytes_max // 2 // _COMMITTED_BYTES_MAX))


def _put(
    api: ApiClient, bucket: str, key: str, value: "QueryMarker | Marker", revision: int
) -> int | None:
    """Put a value. Returns its revision; None if the key had another one than the given."""
    try:
        return api.kv_put(bucket, key, msgspec.json.encode(value), revision)
    except ApiRefusedError as error:
        if error.err_code in WRONG_LAST_SEQUENCE:
            return None
        raise


@final
class Claim:
    """One attempt's claim to one partition of one batch."""

    def __init__(
        self,
        api: ApiClient,
        bucket: str,
        query: str,
        partition: int,
        batch: int,
        run: str = "",
    ) -> None:
        self._api = api
        self._run = run
        self.is_of_another_run = False
        # The time since which attempts of earlier runs could know that this run is at work.
        self.run_age_s = 0.0
        self._bucket = bucket
        self._query = query
        self._key = f"{query}.{partition}"
        self._batch = batch
        self._attempt = secrets.token_hex(8)
        self._revision = 0
        self._mine: Marker | None = None

    @property
    def from_sequence(self) -> int:
        """The lowest sequence that a row of this batch and partition can have."""
        return self._mine.from_sequence if self._mine else 0

    @property
    def letters_from_sequence(self) -> int:
        """The lowest sequence that a dead letter of this batch and partition can have."""
        return self._mine.letters.from_sequence if self._mine and self._mine.letters else 0

    @property
    def written(self) -> tuple[int, str]:
        """The number of rows that an earlier attempt is known to have written, and their digest."""
        return (self._mine.rows, self._mine.digest) if self._mine else (0, "")

    def acquire(self, targets: Targets) -> Outcome:
        """Claim the partition. `targets` have to be fresh."""
        begun = begin_batch(self._api, self._bucket, self._query, self._batch, self._run, targets)
        if begun is None:
            return Outcome.DONE
        self.is_of_another_run = begun.runs[0] != self._run
        for _ in range(CLAIM_TRIES_MAX):
            found, revision = self._read()
            if found is not None and found.batch > self._batch:
                return Outcome.DONE
            is_first = found is None or found.batch < self._batch
            mine = self._first(targets) if found is None or is_first else self._next(found, targets)
            if self.is_of_another_run:
                mine = _from_beginning_of(begun, mine)
            if self._put(mine, revision):
                if self.is_of_another_run:
                    self.run_age_s = self._age_of_run()
                    return Outcome.AGAIN
                return Outcome.FIRST if is_first else Outcome.AGAIN
        raise OvertakenError(f"{self._key} is claimed by others all the time")

    def _first(self, targets: Targets) -> Marker:
        return self._at(Place.behind(targets.rows), targets.letters_place(None))

    def _next(self, found: Marker, targets: Targets) -> Marker:
        """The marker after an earlier attempt, whose rows are in the stream if it is unchanged."""
        place = found.place.now_in(targets.rows)
        letters = targets.letters_place(found.letters)
        if place == found.place:
            return replace(found, state="begun", attempt=self._attempt, letters=letters)
        return self._at(place, letters)

    def _at(self, place: Place, letters: Place | None) -> Marker:
        return Marker(
            self._batch,
            "begun",
            self._attempt,
            place.stream,
            place.created,
            place.from_sequence,
            letters=letters,
        )

    def renew(self) -> Outcome:
        """AGAIN if no later attempt has begun, OVERTAKEN if one has, DONE if nothing is left."""
        if self._mine is None:
            raise ProgrammerError("a claim that was not taken cannot be renewed")
        query = query_marker(self._api, self._bucket, self._query)[0]
        if query.batch >= self._batch:
            return Outcome.DONE
        if query.begun is not None and query.begun.is_overtaken(self._run):
            return Outcome.OVERTAKEN
        if self._put(self._mine, self._revision):
            return Outcome.AGAIN
        found, revision = self._read()
        if found is not None and found.batch > self._batch:
            return Outcome.DONE
        if found == self._mine:
            # Our own put, whose answer was lost.
            self._revision = revision
            return Outcome.AGAIN
        return Outcome.OVERTAKEN

    def others(self) -> int | None:
        """The revision of the attempts that have taken over; None if the batch was committed."""
        if self._is_committed():
            return None
        found, revision = self._read()
        return None if found is not None and found.batch > self._batch else revision

    def finish(self, rows: int, digest: str) -> None:
        """Note that the first `rows` rows are written, unless a later attempt has begun."""
        if self._mine is not None and rows >= self._mine.rows:
            self._put(
                replace(self._mine, state="written", rows=rows, digest=digest), self._revision
            )

    def _age_of_run(self) -> float:
        """The age by the server's clock, from the run's first put to our own just now."""
        keys = (self._query, self._key)
        entries = [self._api.kv_get(self._bucket, key) for key in keys]
        times_ns = [parse_time(entry.time) for entry in entries if entry is not None]
        return max(0, times_ns[-1] - times_ns[0]) / NS_PER_S if len(times_ns) == len(keys) else 0.0

    def _is_committed(self) -> bool:
        return query_marker(self._api, self._bucket, self._query)[0].batch >= self._batch

    def _read(self) -> tuple[Marker | None, int]:
        entry = self._api.kv_get(self._bucket, self._key)
        if entry is None:
            return None, 0
        try:
            return msgspec.json.decode(entry.data, type=Marker), entry.sequence
        except msgspec.DecodeError:
            # Deleted by hand, or written by another program: nothing is known.
            return None, entry.sequence

    def _put(self, marker: Marker, revision: int) -> bool:
        """Put a marker. Returns whether the key still had that revision."""
        put = _put(self._api, self._bucket, self._key, marker, revision)
        if put is None:
            return False
        self._revision = put
        self._mine = marker
        return True


def _from_beginning_of(begun: BegunBatch, mine: Marker) -> Marker:
    """The marker of an attempt that searches everything since the batch was begun."""
    letters = mine.letters
    if letters is not None and begun.letters is not None:
        letters = letters.or_before(begun.letters)
    place = mine.place.or_before(begun.place)
    return replace(mine, from_sequence=place.from_sequence, letters=letters)


@final
class Lease:
    """The right to send rows for a while, renewed when it is over (rule 3).

    It begins at `claimed_s`, the time just before the claim was requested.

    `look` is called with each renewal as long as an earlier attempt may still be sending. It
    searches the stream, and rows that it has not found did not exist when it was called.
    """

    def __init__(
        self,
        claim: Claim,
        window_s: float,
        claimed_s: float,
        look: Callable[[], None] | None,
        clock: Callable[[], float] = now_s,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._claim = claim
        self._window_s = window_s
        self._span_s = min(window_s / 2, LEASE_S_MAX)
        self._look = look
        self._clock = clock
        self._pause = pause
        # The time since which others can know that they have been overtaken.
        self._others_since_s = clock()
        # A new claim needs no renewal, unless there are rows to search for.
        self._ends_s = claimed_s + self._span_s if look is None else 0.0

    def let_runs_end(self, known_s: float) -> None:
        """Return when earlier runs, which have known this one for `known_s`, send no more rows."""
        self._pause(max(0.0, 2 * self._span_s - known_s))
        self._ends_s = 0.0

    def doubt(self, look: Callable[[], None]) -> None:
        """From now on search before sending: rows of our own may be under way too."""
        self._look = look
        self._others_since_s = self._clock()
        self._ends_s = 0.0

    def wait_for_others(self) -> Outcome:
        """Return when rows may be sent that the server cannot tell from copies of theirs.

        The window does not help with these. So all rows that other attempts, or this one on a
        connection that was lost, may have sent must have arrived, and a search must have followed.
        An overtaken attempt sends nothing more after its lease; twice its length is more than any
        row is under way. Returns and raises as `ensure`.
        """
        if self._look is not None:
            since_s = self._clock() - self._others_since_s
            self._pause(max(0.0, 2 * self._span_s - since_s))
            self._ends_s = 0.0
        return self.ensure()

    def ensure(self) -> Outcome:
        """Return when rows may be sent, or DONE when none have to.

        Raises OvertakenError when a later attempt has begun and has been silent for too long.
        """
        for _ in range(RENEWALS_MAX):
            if self._clock() < self._ends_s:
                return Outcome.AGAIN
            asked_s = self._clock()
            outcome = self._claim.renew()
            if outcome is Outcome.OVERTAKEN:
                self._give_way()
            if outcome is not Outcome.AGAIN:
                return Outcome.DONE
            if self._look is not None:
                self._look()
                if asked_s - self._others_since_s > self._window_s:
                    # Rows of others that were under way have arrived by now and were found.
                    self._look = None
            self._ends_s = asked_s + self._span_s
        raise StalledError(
            f"the server needs longer for an answer than half the duplicate window"
            f" ({self._window_s:g} s): set a longer duplicate_window on the stream"
        )

    def _give_way(self) -> None:
        """Wait for the commit (rule 7). Raises OvertakenError after a long silence."""
        heard, heard_s = self._claim.others(), self._clock()
        while heard is not None:
            if self._clock() - heard_s > SILENCE_S_MAX:
                raise OvertakenError(
                    "another attempt has taken over this partition, and was not heard of for"
                    f" {SILENCE_S_MAX:g} s: this one stops"
                )
            self._pause(LOOK_S)
            before, heard = heard, self._claim.others()
            if heard != before:
                heard_s = self._clock()
