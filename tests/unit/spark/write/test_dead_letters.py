"""Rows that the target does not take go to another stream with the reason, the rest is written."""

import itertools
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

import pytest

from headwater.client.link.connection import Connection
from headwater.client.link.errors import LinkError
from headwater.client.link.login import Login
from headwater.client.link.publisher import MessageRefusedError
from headwater.spark.rows import BadRow, RowError, Rows
from headwater.spark.write.batch_commit import BatchCommit
from headwater.spark.write.dead_letters import TEXT_CHARS_MAX, DeadLetterBox, letter_subject
from headwater.spark.write.partition_write import (
    Links,
    Step,
    Watch,
    Work,
    Written,
    unwatched,
    write_at_least_once,
    write_exactly_once,
)
from tests.kit.stream_servers import KINDS, Server, Stored

BYTES_MAX = 4096
BUCKET = "markers"
# The duplicate window is so short that message ids alone do not help.
WINDOW_NS = 100_000_000
SIZE_MAX = 200

_numbers = itertools.count()


@pytest.fixture(scope="module", params=KINDS)
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    place = tmp_path_factory.mktemp("letters") / "server"
    server = Server(request.param, place, config=f"max_payload: {BYTES_MAX}\n")
    server.create_bucket(BUCKET)
    yield server
    server.stop()


@pytest.fixture
def links(server: Server) -> Iterator[Links]:
    login = Login(url=server.url)
    with Connection(login) as asking, Connection(login) as publishing:
        yield Links(asking, publishing)


class Copy:
    """A target, a stream for dead letters, and what is written to them."""

    def __init__(self, server: Server, **config: object) -> None:
        self._server = server
        number = next(_numbers)
        self.name, self.dead = f"LOG-{number}", f"DEAD-{number}"
        server.create_stream(self.name, **{"duplicate_window": WINDOW_NS, **config})
        server.create_stream(self.dead, f"{self.dead}.*", duplicate_window=WINDOW_NS)
        box = DeadLetterBox(self.dead, letter_subject([f"{self.dead}.*"], self.name))
        self.work = Work(self.name, f"{number:016x}", 7, 2, dead_letters=box)

    def forget_ids(self) -> None:
        """Return when no id of what was written so far is known to the server."""
        for stream in (self.name, self.dead):
            self._server.forget_ids(stream)

    def rows(self, *payloads: bytes, lines: bytes = b"") -> Rows:
        subject = f"{self.name}.a".encode()
        return Rows([subject] * len(payloads), [lines] * len(payloads), [*payloads], None)

    def written(self) -> list[bytes]:
        stored = self._server.stored(self.name)
        return [each.data for each in stored if not each.subject.endswith(".probe")]

    def letters(self) -> list[Stored]:
        stored = self._server.stored(self.dead)
        return [each for each in stored if not each.subject.endswith(".probe")]


def bad_row(subject: bytes, payload: bytes, reason: str) -> Rows:
    """A row that cannot be a message, as the reader of rows hands it on."""
    fault = re.sub("row [0-9]+ ", "", reason)
    return Rows([], [], [], None, BadRow(subject, payload, reason, fault))


def headers_of(letter: Stored) -> dict[str, str]:
    lines = letter.header.decode().split("\r\n")[1:-2]
    return dict(line.split(": ", 1) for line in lines)


def test_a_row_that_is_no_message_is_a_letter_with_the_reason(server: Server, links: Links) -> None:
    copy = Copy(server)
    bad = bad_row(b"a b\r\nPUB", b"payload", "row 2 has the subject 'a b'")
    parts = [copy.rows(b"0", b"1"), bad, copy.rows(b"3")]
    done = write_exactly_once(links, copy.work, BUCKET, iter(parts))
    assert (done.rows, copy.written()) == (4, [b"0", b"1", b"3"])
    (letter,) = copy.letters()
    assert (letter.subject, letter.data) == (f"{copy.dead}.{copy.name}", b"payload")
    headers = headers_of(letter)
    assert headers.pop("Nats-Msg-Id").startswith(f"{copy.work.query}-7-2-")
    assert headers == {
        "Headwater-Reason": "row 2 has the subject 'a b'",
        "Headwater-Stream": copy.name,
        "Headwater-Subject": "a b\\r\\nPUB",
        "Headwater-Write": f"{copy.work.query}-7-2",
    }


@pytest.mark.parametrize("atomic", [False, True])
def test_what_the_server_refuses_is_a_letter(server: Server, links: Links, atomic: bool) -> None:
    copy = Copy(server, max_msg_size=200, allow_atomic=atomic)
    work = Work(copy.name, "query", 7, 2, dead_letters=copy.work.dead_letters, atomic=atomic)
    parts = [copy.rows(b"0", b"x" * 300, b"2"), copy.rows(b"3", b"y" * 300)]
    write_exactly_once(links, work, BUCKET, iter(parts))
    assert sorted(copy.written()) == [b"0", b"2", b"3"]
    letters = copy.letters()
    assert [each.data for each in letters] == [b"x" * 300, b"y" * 300]
    for row, letter in zip((1, 4), letters, strict=True):
        reason = headers_of(letter)["Headwater-Reason"]
        assert reason.startswith(f"row {row} (subject {copy.name}.a) was refused: message size")


def test_a_header_that_the_stream_does_not_allow_is_a_letter(server: Server, links: Links) -> None:
    copy = Copy(server)
    parts = [copy.rows(b"0"), copy.rows(b"1", lines=b"Nats-Rollup: sub\r\n"), copy.rows(b"2")]
    write_at_least_once(links, copy.work, iter(parts))
    assert copy.written() == [b"0", b"2"]
    (letter,) = copy.letters()
    assert "rollup" in headers_of(letter)["Headwater-Reason"]


def test_what_no_server_takes_is_a_letter_with_the_beginning(server: Server, links: Links) -> None:
    copy = Copy(server)
    large = bytes(range(256)) * (BYTES_MAX // 128)
    write_exactly_once(links, copy.work, BUCKET, iter([copy.rows(b"0", large, b"2")]))
    assert copy.written() == [b"0", b"2"]
    (letter,) = copy.letters()
    assert large.startswith(letter.data)
    assert len(letter.header) + len(letter.data) == BYTES_MAX
    assert headers_of(letter)["Headwater-Bytes"] == str(len(large))
    assert "max_payload" in headers_of(letter)["Headwater-Reason"]


class Stopped(Exception):
    """An attempt ends here, as if its process had been killed."""


def stop_after(sent: int) -> Watch:
    left = itertools.count(sent - 1, -1)

    def watch(step: Step) -> None:
        if step is Step.SENT and next(left) == 0:
            raise Stopped

    return watch


REFUSED = [b"x" * 300, b"y" * 300, b"y" * 300, b"z" * 2 * BYTES_MAX]
LETTERS = Counter([b"bad"] * 5 + [payload[:BYTES_MAX] for payload in REFUSED])


def bad_rows(copy: Copy) -> list[Rows]:
    """One of each reason, and equal ones."""
    subject = f"{copy.name}.a".encode()
    return [
        *(bad_row(b"a b", b"bad", f"row {number} has the subject 'a b'") for number in (3, 8, 9)),
        bad_row(subject, b"bad", "row 4 has a header named 'a:b'"),
        bad_row(subject, b"bad", "row 5 has a header named 'b:c'"),
    ]


def parts_of(copy: Copy) -> list[Rows]:
    """Rows of all kinds; a good one has the subject and the payload of a bad one."""
    good = copy.rows(b"0", b"bad")
    return [good, *bad_rows(copy), copy.rows(*REFUSED), copy.rows(b"1")]


def letters_of(copy: Copy) -> Counter[bytes]:
    """Dead letters counted by payload; a payload that was cut is filled up to `BYTES_MAX`."""
    lengths = [int(headers_of(each).get("Headwater-Bytes", 0)) for each in copy.letters()]
    assert sorted(lengths)[-2:] == [0, 2 * BYTES_MAX]
    return Counter(
        each.data.ljust(BYTES_MAX, b"z") if length else each.data
        for each, length in zip(copy.letters(), lengths, strict=True)
    )


@pytest.mark.parametrize("sent", range(1, 13))
def test_a_second_attempt_adds_no_letter_whenever_it_comes(
    server: Server, links: Links, sent: int
) -> None:
    copy = Copy(server, max_msg_size=SIZE_MAX)
    with suppress(Stopped):
        write_exactly_once(links, copy.work, BUCKET, iter(parts_of(copy)), stop_after(sent))
    copy.forget_ids()
    # Behind a shuffle rows come in another order.
    write_exactly_once(links, copy.work, BUCKET, iter(parts_of(copy)[::-1]))
    assert Counter(copy.written()) == Counter([b"0", b"bad", b"1"])
    assert letters_of(copy) == LETTERS
    faults = Counter(
        re.sub("row [0-9]+ ", "", headers_of(each)["Headwater-Reason"])
        for each in copy.letters()
        if each.data == b"bad"
    )
    assert faults == {
        "has the subject 'a b'": 3,
        "has a header named 'a:b'": 1,
        "has a header named 'b:c'": 1,
    }


@pytest.mark.parametrize(("before", "after"), [(2, 5), (5, 2), (3, 1)])
@pytest.mark.parametrize("sent", [2, 4, 20])
def test_letters_are_put_once_in_whatever_partitions_their_rows_are(
    server: Server, links: Links, before: int, after: int, sent: int
) -> None:
    copy = Copy(server, max_msg_size=SIZE_MAX)

    def write(run: str, partition: int, cut: int, watch: Watch = unwatched) -> Written:
        single = [copy.rows(payload) for payload in [*REFUSED, b"0", b"1"]]
        dealt = [*bad_rows(copy), *single][partition::cut]
        work = replace(copy.work, run=run, partition=partition)
        return write_exactly_once(links, work, BUCKET, iter(dealt), watch)

    for partition in range(before):
        with suppress(Stopped):
            write("one", partition, before, stop_after(sent))
    copy.forget_ids()
    done = [write("two", partition, after) for partition in range(after)]
    BatchCommit(links, BUCKET, copy.name, copy.work.query, copy.dead).put(7, done)
    assert Counter(copy.written()) == Counter([b"0", b"1"])
    assert letters_of(copy) == LETTERS


def test_an_attempt_that_was_overtaken_puts_no_letters(server: Server, links: Links) -> None:
    copy = Copy(server)
    first, second = (bad_row(b"a b", b"%d" % number, "bad") for number in range(2))

    def overtaken() -> Iterator[Rows]:
        yield first
        write_exactly_once(links, copy.work, BUCKET, iter([first, second]))
        BatchCommit(links, BUCKET, copy.name, copy.work.query).put(7, [Written(2, 2)])
        copy.forget_ids()
        yield second

    write_exactly_once(links, copy.work, BUCKET, overtaken())
    assert [each.data for each in copy.letters()] == [b"0", b"1"]


def test_a_server_that_comes_back_gets_the_letters_that_it_has_not(
    server: Server, links: Links
) -> None:
    copy = Copy(server, max_msg_size=SIZE_MAX)
    left = itertools.count(5, -1)

    def restart(step: Step) -> None:
        if step in (Step.SENDING, Step.SENT) and next(left) == 0:
            server.kill()
            server.start()

    write_exactly_once(links, copy.work, BUCKET, iter(parts_of(copy)), restart)
    assert Counter(copy.written()) == Counter([b"0", b"bad", b"1"])
    assert letters_of(copy) == LETTERS


def test_a_stream_for_letters_that_refuses_them_is_named(server: Server, links: Links) -> None:
    copy = Copy(server)
    config = server.call(f"STREAM.INFO.{copy.dead}")["config"]
    server.call(f"STREAM.UPDATE.{copy.dead}", config | {"max_msg_size": 10})
    expected = f"the dead-letter stream {copy.dead} refuses: message size exceeds maximum"
    with pytest.raises(LinkError, match=expected):
        write_exactly_once(links, copy.work, BUCKET, iter([bad_row(b"a b", b"", "bad")]))


def test_a_stream_that_is_full_makes_no_letters(server: Server, links: Links) -> None:
    copy = Copy(server, max_msgs=1, discard="new")
    with pytest.raises(MessageRefusedError, match="maximum messages"):
        write_exactly_once(links, copy.work, BUCKET, iter([copy.rows(b"0", b"1")]))
    assert copy.letters() == []


def test_without_a_stream_for_letters_a_bad_row_is_an_error(server: Server, links: Links) -> None:
    copy = Copy(server)
    bad = bad_row(b"a b", b"", "row 0 is bad")
    with pytest.raises(RowError, match="row 0 is bad"):
        write_exactly_once(links, Work(copy.name, "query", 8, 0), BUCKET, iter([bad]))


def test_a_long_reason_is_cut(server: Server, links: Links) -> None:
    copy = Copy(server)
    for length in (TEXT_CHARS_MAX, TEXT_CHARS_MAX + 1):
        bad = bad_row(b"a", b"%d" % length, "r" * length)
        write_at_least_once(links, copy.work, iter([bad]))
    for letter in copy.letters():
        assert headers_of(letter)["Headwater-Reason"] == "r" * TEXT_CHARS_MAX


@pytest.mark.parametrize(
    ("pattern", "subject"),
    [("dead", "dead"), ("dead.>", "dead.LOG"), ("dead.*.rows", "dead.LOG.rows"), (">", "LOG")],
)
def test_letters_have_a_subject_of_their_stream(pattern: str, subject: str) -> None:
    assert letter_subject([pattern, "other"], "LOG") == subject
