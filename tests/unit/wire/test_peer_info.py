"""The documents that servers exchange when they meet."""

import pytest

from headwater.wire.peer_frames import LINE_BYTES_MAX, MalformedFrame
from headwater.wire.peer_info import (
    MEMBERS_BYTES_MAX,
    Admitted,
    Error,
    Member,
    PeerConnect,
    PeerInfo,
    connect_line,
    decode_info,
    decode_members,
    encode_members,
    info_line,
    read_line,
)


@pytest.mark.parametrize(
    "document",
    [
        PeerInfo(server_id="N", server_name="s", host="h", port=1, connect_urls=("a:1",), link=2),
        PeerInfo(),
    ],
)
def test_info_comes_back_as_it_was(document: PeerInfo) -> None:
    assert read_line(info_line(document).removesuffix(b"\r\n")) == document


def test_connect_has_the_names_of_nats_server() -> None:
    line = connect_line(PeerConnect(user="a", password="b", name="N", link=2))
    assert line.startswith(b'CONNECT {"user":"a","pass":"b","name":"N"')
    assert read_line(line.removesuffix(b"\r\n")) == PeerConnect(
        user="a", password="b", name="N", link=2
    )


def test_a_line_of_a_nats_server_is_read_with_what_it_has_more() -> None:
    line = b'INFO {"server_id":"N","server_name":"s","version":"2.15.1","route_pool_size":3} '
    found = read_line(line)
    assert isinstance(found, PeerInfo)
    assert (found.server_name, found.link) == ("s", 0)


def test_the_answers_of_an_accepting_server() -> None:
    assert read_line(b"+OK") == Admitted()
    assert read_line(b"-ERR 'no'") == Error("no")


@pytest.mark.parametrize(
    "line",
    [b"", b"SUB a 1", b"GET / HTTP/1.1", b"INFO", b"INFO x", b'INFO {"port":"x"}', b"CONNECT []"],
)
def test_other_lines_are_refused(line: bytes) -> None:
    with pytest.raises(MalformedFrame):
        read_line(line)


def test_members_come_back_as_they_were() -> None:
    members = [Member(server_id="N", server_name="s", address="h:1")]
    assert decode_members(encode_members(members)) == members


def test_documents_are_bounded() -> None:
    assert decode_info(b"{}" + b" " * (LINE_BYTES_MAX - 2)) == PeerInfo()
    assert decode_members(b"[]" + b" " * (MEMBERS_BYTES_MAX - 2)) == []
    with pytest.raises(MalformedFrame, match="INFO of 65537 bytes is too long"):
        decode_info(b"{}" + b" " * (LINE_BYTES_MAX - 1))
    with pytest.raises(MalformedFrame, match="members of 2097153 bytes is too long"):
        decode_members(b"[]" + b" " * (MEMBERS_BYTES_MAX - 1))


@pytest.mark.parametrize("body", [b"", b"{}", b'[{"server_id":1}]', b"\xff"])
def test_members_that_are_malformed_are_refused(body: bytes) -> None:
    with pytest.raises(MalformedFrame):
        decode_members(body)
