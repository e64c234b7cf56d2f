"""Claims to partitions: the attempt that may write, those that stop, and the rows written."""

import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from headwater.client.link.api import ApiClient
from headwater.client.link.connection import Connection
from headwater.client.link.login import Login
from headwater.go.times import parse_time
from headwater.spark.write import markers
from headwater.spark.write.markers import (
    COMMITTED_BATCHES_MAX,
    LEASE_S_MAX,
    LOOK_S,
    RUNS_MAX,
    SILENCE_S_MAX,
    ChangedBatchError,
    Claim,
    CommittedBatch,
    Lease,
    Outcome,
    OvertakenError,
    StalledError,
    Targets,
)
from tests.kit.stream_servers import KINDS, Server

BUCKET = "markers"
WINDOW_S = 10.0


@pytest.fixture(scope="module", params=KINDS)
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    server = Server(request.param, tmp_path_factory.mktemp("markers") / "server")
    server.create_bucket(BUCKET)
    yield server
    server.stop()


@dataclass(frozen=True)
class Book:
    """The markers of one query and the stream it writes to, which no other test has."""

    api: ApiClient
    server: Server
    query: str
    stream: str

    def claim(self, batch: int = 0, partition: int = 0, run: str = "") -> Claim:
        return Claim(self.api, BUCKET, self.query, partition, batch, run)

    def commit(self, batch: int, rows: int = 5, digest: str = "abc", offsets: str = "") -> None:
        """Commit the batch, or compare it with what was committed."""
        record = CommittedBatch(batch, 2, rows, digest, offsets)
        before = markers.commit(self.api, BUCKET, self.query, record)
        if before is not None:
            before.check_replay(record)

    def take(self, claim: Claim) -> Outcome:
        return claim.acquire(Targets(self.api.stream_info(self.stream)))


@pytest.fixture
def book(server: Server) -> Iterator[Book]:
    token = secrets.token_hex(8)
    server.create_stream(f"LOG-{token}")
    with Connection(Login(url=server.url)) as connection:
        yield Book(ApiClient(connection), server, token, f"LOG-{token}")


def test_the_first_attempt_begins_behind_the_end_of_the_stream(book: Book) -> None:
    book.server.publish([(f"{book.stream}.a", b"")] * 5)
    first = book.claim()
    assert book.take(first) is Outcome.FIRST
    assert first.from_sequence == 6


def test_a_second_attempt_looks_from_where_the_first_began(book: Book) -> None:
    book.take(book.claim())
    book.server.publish([(f"{book.stream}.a", b"")] * 5)
    second = book.claim()
    assert book.take(second) is Outcome.AGAIN
    assert second.from_sequence == 1


def test_of_several_attempts_the_latest_writes(book: Book) -> None:
    first, second = book.claim(), book.claim()
    book.take(first)
    assert first.renew() is Outcome.AGAIN
    book.take(second)
    assert first.renew() is Outcome.OVERTAKEN
    assert second.renew() is Outcome.AGAIN


def test_what_was_written_is_told_to_those_who_come_after(book: Book) -> None:
    first, second, third = book.claim(), book.claim(), book.claim()
    book.take(first)
    assert first.written == (0, "")
    first.finish(5, "abc")
    assert book.take(second) is Outcome.AGAIN
    assert second.written == (5, "abc")
    second.finish(3, "a")
    book.take(third)
    assert third.written == (5, "abc")


def test_an_attempt_that_was_overtaken_says_no_more(book: Book) -> None:
    first, second, third = book.claim(), book.claim(), book.claim()
    book.take(first)
    book.take(second)
    first.finish(5, "abc")
    assert second.renew() is Outcome.AGAIN
    book.take(third)
    assert third.written == (0, "")


def test_partitions_and_batches_are_claimed_apart(book: Book) -> None:
    written = book.claim(batch=3, partition=1)
    book.take(written)
    written.finish(5, "abc")
    assert book.take(book.claim(batch=3, partition=2)) is Outcome.FIRST
    following = book.claim(batch=4, partition=1)
    assert book.take(following) is Outcome.FIRST
    assert following.written == (0, "")


def test_a_claim_to_an_earlier_batch_finds_it_done(book: Book) -> None:
    book.take(book.claim(batch=4))
    assert book.take(book.claim(batch=3)) is Outcome.DONE


def test_a_late_finish_leaves_the_next_batch_alone(book: Book) -> None:
    late, following = book.claim(batch=3), book.claim(batch=4)
    book.take(late)
    book.take(following)
    late.finish(5, "abc")
    assert following.renew() is Outcome.AGAIN


def test_a_committed_batch_is_done_in_all_partitions(book: Book) -> None:
    book.commit(5)
    assert book.take(book.claim(batch=5, partition=9)) is Outcome.DONE
    assert book.take(book.claim(batch=6)) is Outcome.FIRST


def test_commits_only_go_up(book: Book) -> None:
    book.commit(4)
    book.commit(5)
    book.commit(4)
    assert book.take(book.claim(batch=5)) is Outcome.DONE


def test_a_batch_that_was_committed_may_be_committed_again(book: Book) -> None:
    for batch in (3, 4, 5, 3, 5):
        book.commit(batch, rows=batch, digest=f"{batch}")


def test_another_batch_under_a_committed_number_is_refused(book: Book) -> None:
    for batch in (3, 4, 5):
        book.commit(batch)
    for batch in (3, 4, 5):
        with pytest.raises(ChangedBatchError) as caught:
            book.commit(batch, rows=7)
        assert f"batch {batch} is not the one that was written before" in str(caught.value)
        assert "committed with 5 rows in 2 partitions, and has 7" in str(caught.value)
        assert "\n" not in str(caught.value)
    with pytest.raises(ChangedBatchError):
        book.commit(5, digest="abd")


def test_a_committed_batch_with_the_same_offsets_may_have_other_rows(book: Book) -> None:
    book.commit(5, digest="abc", offsets="o")
    book.commit(5, digest="abd", offsets="o")
    with pytest.raises(ChangedBatchError):
        book.commit(5, digest="abd", offsets="p")
    with pytest.raises(ChangedBatchError):
        book.commit(5, digest="abd", offsets="")


def test_as_many_batches_are_remembered_as_spark_keeps(book: Book) -> None:
    for batch in range(COMMITTED_BATCHES_MAX + 1):
        book.commit(batch, rows=batch)
    book.commit(1, rows=1)
    with pytest.raises(ChangedBatchError, match="its own rows are not known"):
        book.commit(0, rows=0)


def test_of_a_marker_of_an_older_version_the_last_batch_alone_is_believed(book: Book) -> None:
    book.server.publish([(f"$KV.{BUCKET}.{book.query}", b'{"batch":5}')])
    assert book.take(book.claim(batch=5)) is Outcome.DONE
    book.commit(5)
    with pytest.raises(ChangedBatchError, match="batch 5 was committed after it"):
        book.commit(4)
    book.commit(6)
    book.commit(6)


def test_a_recreated_stream_is_looked_at_from_its_beginning(book: Book) -> None:
    book.server.publish([(f"{book.stream}.a", b"")] * 5)
    book.take(book.claim())
    book.server.delete_stream(book.stream)
    book.server.create_stream(book.stream)
    book.server.publish([(f"{book.stream}.a", b"")] * 2)
    again = book.claim()
    assert book.take(again) is Outcome.AGAIN
    assert again.from_sequence == 1


def test_a_marker_that_was_deleted_by_hand_says_nothing(book: Book) -> None:
    book.take(book.claim())
    book.server.publish([(f"$KV.{BUCKET}.{book.query}.0", b"")])
    assert book.take(book.claim()) is Outcome.FIRST


def test_an_attempt_outlives_a_restart_of_the_server(book: Book) -> None:
    mine = book.claim()
    book.take(mine)
    book.server.kill()
    book.server.start()
    assert mine.renew() is Outcome.AGAIN
    assert book.take(book.claim()) is Outcome.AGAIN


# --- runs --------------------------------------------------------------------------------------


def test_an_attempt_stops_for_a_later_run_though_nobody_takes_its_partition(book: Book) -> None:
    first = book.claim(partition=4, run="one")
    book.take(first)
    assert first.renew() is Outcome.AGAIN
    book.take(book.claim(partition=0, run="two"))
    assert first.renew() is Outcome.OVERTAKEN
    book.commit(0)
    assert first.renew() is Outcome.DONE


def test_a_task_that_an_earlier_run_starts_late_takes_nothing_over(book: Book) -> None:
    book.take(book.claim(run="one"))
    second = book.claim(run="two")
    assert book.take(second) is Outcome.AGAIN
    with pytest.raises(OvertakenError, match="a later run of the query is at batch 0"):
        book.take(book.claim(run="one"))
    assert second.renew() is Outcome.AGAIN


def test_the_runs_of_a_batch_are_remembered_up_to_a_number(book: Book) -> None:
    for number in range(RUNS_MAX + 1):
        book.take(book.claim(run=f"run {number}"))
    marker, _ = markers.query_marker(book.api, BUCKET, book.query)
    assert marker.begun is not None
    assert marker.begun.runs == tuple(f"run {number}" for number in range(1, RUNS_MAX + 1))
    with pytest.raises(OvertakenError):
        book.take(book.claim(run="run 1"))


def test_a_run_waits_until_the_leases_of_earlier_ones_are_over(book: Book) -> None:
    book.take(book.claim(run="one"))
    second = book.claim(run="two")
    book.take(second)
    time = Time()
    lease = Lease(second, WINDOW_S, time.s, lambda: None, time, time.pause)
    lease.let_runs_end(known_s=1.0)
    assert time.s == 1000.0 + 2 * min(WINDOW_S / 2, LEASE_S_MAX) - 1.0
    lease.let_runs_end(known_s=WINDOW_S)
    assert time.s == 1000.0 + 2 * min(WINDOW_S / 2, LEASE_S_MAX) - 1.0


def test_the_age_of_a_run_is_told_by_the_servers_clock(book: Book) -> None:
    book.take(book.claim(run="one"))
    book.take(book.claim(run="two"))
    later = book.claim(partition=1, run="two")
    book.take(later)
    entries = [book.api.kv_get(BUCKET, key) for key in (book.query, f"{book.query}.1")]
    begun_ns, taken_ns = (parse_time(entry.time) for entry in entries if entry is not None)
    assert later.run_age_s == (taken_ns - begun_ns) / 1e9 > 0


# --- leases ------------------------------------------------------------------------------------


class Time:
    """A clock that goes when the test sets it, and by the length of each pause."""

    def __init__(self) -> None:
        self.s = 1000.0
        self.during: dict[int, Callable[[], object]] = {}
        self._pauses = 0

    def __call__(self) -> float:
        return self.s

    def pause(self, for_s: float) -> None:
        """Let the time pass, and call the function that `during` has for this pause."""
        self.s += for_s
        self._pauses += 1
        self.during.get(self._pauses, lambda: None)()


class Looks:
    """Counts looks; each takes `cost_s`."""

    def __init__(self, time: Time, cost_s: float = 0.0) -> None:
        self.count = 0
        self._time = time
        self._cost_s = cost_s

    def __call__(self) -> None:
        self.count += 1
        self._time.s += self._cost_s


def test_a_lease_lasts_half_the_window_and_then_asks(book: Book) -> None:
    time = Time()
    first, second = book.claim(), book.claim()
    book.take(first)
    lease = Lease(first, WINDOW_S, time.s, None, time, time.pause)
    book.take(second)
    time.s += WINDOW_S / 2 - 0.1
    assert lease.ensure() is Outcome.AGAIN
    time.s += 0.2
    with pytest.raises(OvertakenError):
        lease.ensure()


def test_a_long_window_does_not_make_a_long_lease(book: Book) -> None:
    time = Time()
    first = book.claim()
    book.take(first)
    lease = Lease(first, 86_400.0, time.s, None, time, time.pause)
    book.take(book.claim())
    time.s += LEASE_S_MAX
    with pytest.raises(OvertakenError):
        lease.ensure()


def test_a_lease_ends_with_the_batch(book: Book) -> None:
    time = Time()
    first = book.claim()
    book.take(first)
    lease = Lease(first, WINDOW_S, time.s, None, time)
    book.take(book.claim(batch=1))
    time.s += WINDOW_S
    assert lease.ensure() is Outcome.DONE


@pytest.fixture
def overtaken(book: Book) -> tuple[Lease, Claim, Time]:
    """A lease on a claim that a later one has taken over, that claim, and the time."""
    time = Time()
    first, second = book.claim(), book.claim()
    book.take(first)
    lease = Lease(first, WINDOW_S, time.s, None, time, time.pause)
    book.take(second)
    time.s += WINDOW_S
    return lease, second, time


def test_an_attempt_that_was_overtaken_waits_for_the_commit(
    book: Book, overtaken: tuple[Lease, Claim, Time]
) -> None:
    lease, second, time = overtaken
    time.during[3] = lambda: second.finish(5, "abc")
    time.during[7] = lambda: book.commit(0)
    assert lease.ensure() is Outcome.DONE
    assert time.s == 1000.0 + WINDOW_S + 7 * LOOK_S


def test_an_attempt_that_was_overtaken_waits_for_the_next_batch(
    book: Book, overtaken: tuple[Lease, Claim, Time]
) -> None:
    lease, _, time = overtaken
    time.during[2] = lambda: book.take(book.claim(batch=1))
    assert lease.ensure() is Outcome.DONE


def test_an_attempt_that_was_overtaken_waits_as_long_as_the_other_is_heard_of(
    overtaken: tuple[Lease, Claim, Time],
) -> None:
    lease, second, time = overtaken
    last = int(SILENCE_S_MAX / LOOK_S)
    time.during[last] = second.renew
    time.during[2 * last] = second.renew
    with pytest.raises(OvertakenError, match=r"another attempt .* not heard of for 60 s"):
        lease.ensure()
    assert time.s == 1000.0 + WINDOW_S + 3 * SILENCE_S_MAX + LOOK_S


def test_looks_end_when_nothing_of_others_can_be_under_way(book: Book) -> None:
    time = Time()
    looks = Looks(time)
    mine = book.claim()
    book.take(mine)
    lease = Lease(mine, WINDOW_S, time.s, looks, time)
    lease.ensure()
    lease.ensure()
    assert looks.count == 1
    time.s += WINDOW_S / 2
    lease.ensure()
    assert looks.count == 2
    time.s += WINDOW_S
    lease.ensure()
    assert looks.count == 3
    time.s += 10 * WINDOW_S
    lease.ensure()
    assert looks.count == 3


def test_what_cannot_be_told_apart_waits_until_others_have_stopped(book: Book) -> None:
    time = Time()
    looks = Looks(time)
    mine = book.claim()
    book.take(mine)
    lease = Lease(mine, WINDOW_S, time.s, looks, time, time.pause)
    lease.ensure()
    time.s += 1.0
    assert lease.wait_for_others() is Outcome.AGAIN
    assert time.s == 1000.0 + WINDOW_S
    assert looks.count == 2


def test_the_first_attempt_waits_for_nobody(book: Book) -> None:
    time = Time()
    mine = book.claim()
    book.take(mine)
    assert Lease(mine, WINDOW_S, time.s, None, time, time.pause).wait_for_others() is Outcome.AGAIN
    assert time.s == 1000.0


def test_a_doubt_asks_for_a_look_at_once(book: Book) -> None:
    time = Time()
    looks = Looks(time)
    mine = book.claim()
    book.take(mine)
    lease = Lease(mine, WINDOW_S, time.s, None, time)
    lease.ensure()
    lease.doubt(looks)
    lease.ensure()
    assert looks.count == 1


def test_looks_that_take_longer_than_the_lease_are_made_until_none_is_needed(
    book: Book,
) -> None:
    time = Time()
    mine = book.claim()
    book.take(mine)
    slow = Looks(time, cost_s=WINDOW_S)
    assert Lease(mine, WINDOW_S, time.s, slow, time).ensure() is Outcome.AGAIN
    assert slow.count == 3


def test_a_server_that_is_slower_than_the_window_is_not_written_to(book: Book) -> None:
    class Racing(Time):
        def __call__(self) -> float:
            self.s += WINDOW_S
            return self.s

    time = Racing()
    mine = book.claim()
    book.take(mine)
    with pytest.raises(StalledError, match="duplicate_window"):
        Lease(mine, WINDOW_S, time.s, None, time).ensure()
