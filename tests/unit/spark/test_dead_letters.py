"""Rows that the target does not take go to another stream with the reason, the rest is written."""

import itertools
from collections.abc import Iterator

import pytest

from headwater.spark.dead_letters import TEXT_CHARS_MAX, DeadLetterBox, letter_subject
from headwater.spark.link.connection import Connection
from headwater.spark.link.login import Login
from headwater.spark.link.publisher import MessageRefusedError
from headwater.spark.partition_write import Links, Work, write_at_least_once, write_exactly_once
from headwater.spark.rows import BadRow, RowError, Rows
from tests.spark.servers import KINDS, Server, Stored

BYTES_MAX = 4096
BUCKET = "markers"

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
        server.create_stream(self.name, **config)
        server.create_stream(self.dead, f"{self.dead}.*")
        box = DeadLetterBox(self.dead, letter_subject([f"{self.dead}.*"], self.name))
        self.work = Work(self.name, f"{number:016x}", 7, 2, dead_letters=box)

    def rows(self, *payloads: bytes, lines: bytes = b"") -> Rows:
        subject = f"{self.name}.a".encode()
        return Rows([subject] * len(payloads), [lines] * len(payloads), [*payloads], None)

    def written(self) -> list[bytes]:
        return [each.data for each in self._server.stored(self.name)]

    def letters(self) -> list[Stored]:
        return self._server.stored(self.dead)


def headers_of(letter: Stored) -> dict[str, str]:
    lines = letter.header.decode().split("\r\n")[1:-2]
    return dict(line.split(": ", 1) for line in lines)


def test_a_row_that_is_no_message_is_a_letter_with_the_reason(server: Server, links: Links) -> None:
    copy = Copy(server)
    bad = Rows([], [], [], None, BadRow(b"a b\r\nPUB", b"payload", "row 2 has the subject 'a b'"))
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


def test_a_second_attempt_adds_no_letter_within_the_window(server: Server, links: Links) -> None:
    copy = Copy(server, max_msg_size=200)
    bad = Rows([], [], [], None, BadRow(b"a b", b"", "bad"))
    for _ in range(2):
        parts = [copy.rows(b"0", b"x" * 300), bad]
        write_exactly_once(links, copy.work, BUCKET, iter(parts))
    assert copy.written() == [b"0"]
    assert sorted(each.data for each in copy.letters()) == [b"", b"x" * 300]


def test_a_stream_that_is_full_makes_no_letters(server: Server, links: Links) -> None:
    copy = Copy(server, max_msgs=1, discard="new")
    with pytest.raises(MessageRefusedError, match="maximum messages"):
        write_exactly_once(links, copy.work, BUCKET, iter([copy.rows(b"0", b"1")]))
    assert copy.letters() == []


def test_without_a_stream_for_letters_a_bad_row_is_an_error(server: Server, links: Links) -> None:
    copy = Copy(server)
    bad = Rows([], [], [], None, BadRow(b"a b", b"", "row 0 is bad"))
    with pytest.raises(RowError, match="row 0 is bad"):
        write_exactly_once(links, Work(copy.name, "query", 8, 0), BUCKET, iter([bad]))


def test_a_long_reason_is_cut(server: Server, links: Links) -> None:
    copy = Copy(server)
    for length in (TEXT_CHARS_MAX, TEXT_CHARS_MAX + 1):
        bad = BadRow(b"a", b"%d" % length, "r" * length)
        write_at_least_once(links, copy.work, iter([Rows([], [], [], None, bad)]))
    for letter in copy.letters():
        assert headers_of(letter)["Headwater-Reason"] == "r" * TEXT_CHARS_MAX


@pytest.mark.parametrize(
    ("pattern", "subject"),
    [("dead", "dead"), ("dead.>", "dead.LOG"), ("dead.*.rows", "dead.LOG.rows"), (">", "LOG")],
)
def test_letters_have_a_subject_of_their_stream(pattern: str, subject: str) -> None:
    assert letter_subject([pattern, "other"], "LOG") == subject
