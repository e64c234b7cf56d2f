"""The numbers in reply subjects, in each form that servers write."""

from pathlib import Path

import pytest

from headwater.client.link.api import ApiClient
from headwater.client.link.connection import Connection
from headwater.client.link.login import Login
from headwater.client.link.reads.consumer_reads import reply_numbers
from headwater.client.link.reads.fetch import SequenceRange, Way, read_range
from headwater.client.link.reads.ranges import IncompleteError
from tests.kit.stream_servers import Server

SHORT = b"$JS.ACK.LOG.mine.1.%d"
LONG = b"$JS.ACK.hub.acchash.LOG.mine.1.%d"


@pytest.mark.parametrize("form", [SHORT, LONG, b"$JS.ACK._.7.1.2.1.%d"])
@pytest.mark.parametrize("count", [1, 2, 100])
def test_each_reply_has_four(form: bytes, count: int) -> None:
    replies = [
        b"%b.%d.1794742000123456789.%d" % (form % (number + 40), number + 1, count - number)
        for number in range(count)
    ]
    numbers = reply_numbers(replies)
    assert numbers[0::4] == [*range(40, 40 + count)]
    assert numbers[1::4] == [*range(1, count + 1)]
    assert numbers[2::4] == [1794742000123456789] * count
    assert numbers[3::4] == [*range(count, 0, -1)]


def test_what_servers_may_add_at_the_end_is_left_out() -> None:
    replies = [LONG % 5 + b".1.17.9.Ab3x", LONG % 6 + b".2.18.8.77"]
    assert reply_numbers(replies) == [5, 1, 17, 9, 6, 2, 18, 8]


@pytest.mark.parametrize(
    "replies",
    [
        [b"_INBOX.x"],
        [b"$JS.ACK.LOG.mine.1.x.1.1.1"],
        [SHORT % 1 + b".1.1.1", b"$JS.ACK.LOG.other.1.2.2.2.2"],
        [SHORT % 1 + b".1.1.1", b"$JS.ACK.LOG.mine.2.2.2.2.2"],
    ],
)
def test_another_form_is_not_guessed_at(replies: list[bytes]) -> None:
    with pytest.raises(IncompleteError, match="reply subject of another form"):
        reply_numbers(replies)


def test_a_server_that_writes_the_long_form(tmp_path: Path) -> None:
    server = Server("nats-server", tmp_path / "server", "feature_flags { js_ack_fc_v2: true }\n")
    try:
        server.create_stream("LOG")
        count = server.publish((f"LOG.{number}", b"%d" % number) for number in range(2000))
        with Connection(Login(url=server.url)) as connection:
            info = ApiClient(connection).stream_info("LOG")
            chunks = [*read_range(connection, info, SequenceRange(1, count), (), Way.CONSUMER)]
        assert [each for chunk in chunks for each in chunk.sequences] == [*range(1, count + 1)]
    finally:
        server.stop()
