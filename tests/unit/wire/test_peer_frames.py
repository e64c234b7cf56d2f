"""Frames between servers: encoded, decoded whole or byte by byte, and refused when malformed."""

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.raft.codec import ENTRY_DATA_BYTES_MAX
from headwater.subjects.grammar import is_one_word
from headwater.wire.peer_frames import (
    CLIENT_BYTES_MAX,
    FRAME_BYTES_MAX,
    LINE_BYTES_MAX,
    ForwardedRequest,
    Kind,
    MalformedFrame,
    PeerDecoder,
    PeerMessages,
    decode_forward,
    decode_interest,
    decode_messages,
    encode_forward,
    encode_interest,
    encode_messages,
    frame,
)

BLOCK = b"NATS/1.0\r\n\r\n"


def some_messages() -> PeerMessages:
    messages = PeerMessages()
    messages.add(b"a", None, -1, b"plain")
    messages.add(b"b.c", b"_INBOX.1", 12, b"NATS/1.0\r\n\r\nbody", [b"q", b"workers"])
    messages.add(b"d", b"r", -1, b"")
    return messages


def only_body(data: bytes) -> bytes:
    decoder = PeerDecoder()
    decoder.feed(data)
    ((_, body),) = decoder.frames()
    return body


class TestMessages:
    def test_come_back_as_they_were(self) -> None:
        account, found = decode_messages(only_body(encode_messages("A", some_messages())))
        assert account == "A"
        assert found.subjects == [b"a", b"b.c", b"d"]
        assert found.replies == [None, b"_INBOX.1", b"r"]
        assert found.header_sizes == [-1, 12, -1]
        assert found.payloads == [b"plain", b"NATS/1.0\r\n\r\nbody", b""]
        assert found.queues == [(), [b"q", b"workers"], ()]
        assert found.size == sum(map(len, found.payloads))

    def test_leave_out_the_columns_that_no_message_needs(self) -> None:
        plain = PeerMessages()
        plain.add_all([b"a", b"a"], [None, None], [-1, -1], [b"x", b"y"])
        with_reply = PeerMessages()
        with_reply.add_all([b"a", b"a"], [None, b"r"], [-1, -1], [b"x", b"y"])
        assert len(encode_messages("A", plain)) < len(encode_messages("A", with_reply))
        assert decode_messages(only_body(encode_messages("A", plain)))[1].replies == [None, None]

    def test_of_an_account_of_any_name(self) -> None:
        name = "Ünïted accounts \n"
        assert decode_messages(only_body(encode_messages(name, some_messages())))[0] == name

    @pytest.mark.parametrize(
        ("change", "reason"),
        [
            (lambda body: body[:2], "shorter than its parts"),
            (lambda body: body[:-1], "do not have the sizes"),
            (lambda body: body + b"x", "do not have the sizes"),
            (lambda body: body[:3] + struct.pack("<I", 2**31) + body[7:], "shorter"),
            (lambda body: body[:7] + b"\xff" + body[8:], "unknown flags"),
            (lambda body: body.replace(b"a b.c d", b"a b.c.d"), "2 words instead of 3"),
            (lambda body: body.replace(b"a b.c d", b"a  b.cd"), "no subject"),
            (lambda body: body.replace(struct.pack("<i", 12), struct.pack("<i", 99)), "longer"),
            (lambda body: body.replace(b"\x01\x00A", b"\x01\x00\xff"), "not UTF-8"),
        ],
    )
    def test_that_are_malformed_are_refused(self, change, reason: str) -> None:  # type: ignore[no-untyped-def]
        body = change(only_body(encode_messages("A", some_messages())))
        with pytest.raises(MalformedFrame, match=reason):
            decode_messages(body)


class TestTargets:
    """Messages of streams go to subscribers of other subjects than their own."""

    def messages(self) -> PeerMessages:
        messages = PeerMessages()
        messages.add(b"a", None, -1, b"1")
        messages.add_all([b"s.b", b"s.c"], [b"r", b"r"], [-1, -1], [b"2", b"3"], b"to.me")
        messages.add(b"s.d", b"r", -1, b"4", [b"q"], b"to.me")
        messages.add(b"e", None, -1, b"5")
        return messages

    def test_come_back_run_by_run(self) -> None:
        _, found = decode_messages(only_body(encode_messages("A", self.messages())))
        assert found.runs() == [(1, b"to.me"), (4, b"")]
        assert found.targets == [b"", b"to.me", b"to.me", b"to.me", b""]
        assert found.subjects == [b"a", b"s.b", b"s.c", b"s.d", b"e"]

    def test_a_part_has_the_queue_groups_of_its_messages(self) -> None:
        _, found = decode_messages(only_body(encode_messages("A", self.messages())))
        part = found.part(1, 4)
        assert (part.subjects, part.queues) == ([b"s.b", b"s.c", b"s.d"], [(), (), [b"q"]])
        assert part.targets == [b"to.me"] * 3

    @pytest.mark.parametrize("begins", [(4, 1), (1, 1), (1, 5), (1, 2**32 - 1)])
    def test_of_runs_that_are_not_in_order_are_refused(self, begins: tuple[int, int]) -> None:
        body = only_body(encode_messages("A", self.messages()))
        changed = body.replace(struct.pack("<3I", 2, 1, 4), struct.pack("<3I", 2, *begins))
        assert changed != body
        with pytest.raises(MalformedFrame, match="not in order"):
            decode_messages(changed)

    @given(st.binary(max_size=40), st.integers(0, 200), st.integers(0, 40))
    def test_that_are_damaged_are_refused_or_whole(self, junk: bytes, at: int, cut: int) -> None:
        body = only_body(encode_messages("A", self.messages()))
        try:
            _, found = decode_messages(body[:at] + junk + body[at + cut :])
        except MalformedFrame:
            return
        assert len(found) == len(found.replies) == len(found.header_sizes) == len(found.payloads)
        assert len(found.targets) in (0, len(found))


class TestInterest:
    def test_comes_back_as_it_was(self) -> None:
        changes = [(b"a.*", b"", 1), (b"b.>", b"q", 7), (b"c", b"", 0)]
        assert decode_interest(only_body(encode_interest("A", changes))) == ("A", changes)

    def test_is_refused_if_something_follows_it(self) -> None:
        body = only_body(encode_interest("A", [(b"a", b"", 1)]))
        with pytest.raises(MalformedFrame, match="longer than its parts"):
            decode_interest(body + b"x")


class TestRequests:
    REQUEST = ForwardedRequest("A", b"$JS.API.INFO", b"_INBOX.1", 12, BLOCK + b"body", b"{}")

    @pytest.mark.parametrize(
        "request_",
        [
            REQUEST,
            REQUEST._replace(reply=None, header_size=-1, payload=b"", client=b""),
            REQUEST._replace(account="Ünïted", client=b"x" * CLIENT_BYTES_MAX),
        ],
    )
    def test_come_back_as_they_were(self, request_: ForwardedRequest) -> None:
        assert decode_forward(only_body(encode_forward(request_))) == request_

    @pytest.mark.parametrize(
        ("changes", "reason"),
        [
            ({"subject": b"a\r\nb"}, "not one word"),
            ({"subject": b""}, "not one word"),
            ({"reply": b"a\tb"}, "not one word"),
            ({"reply": b"a b"}, "3 words instead of 2"),
            ({"header_size": 17}, "longer than its message"),
            ({"header_size": -2}, "longer than its message"),
            ({"client": b"x" * (CLIENT_BYTES_MAX + 1)}, "description of a client has 65537 bytes"),
        ],
    )
    def test_that_are_malformed_are_refused(self, changes: dict[str, Any], reason: str) -> None:
        body = only_body(encode_forward(self.REQUEST._replace(**changes)))
        with pytest.raises(MalformedFrame, match=reason):
            decode_forward(body)

    @given(st.binary(max_size=40), st.integers(0, 80), st.integers(0, 80))
    def test_that_are_damaged_are_refused_or_whole(self, junk: bytes, at: int, cut: int) -> None:
        body = only_body(encode_forward(self.REQUEST))
        try:
            found = decode_forward(body[:at] + junk + body[at + cut :])
        except MalformedFrame:
            return
        assert is_one_word(found.subject)
        assert found.reply is None or is_one_word(found.reply)
        assert -1 <= found.header_size <= len(found.payload)


class TestDecoder:
    frames = frame(Kind.PING, bytes(8)) + encode_messages("A", some_messages()) + frame(Kind.INFO)

    def test_reads_frames_whole_and_byte_by_byte(self) -> None:
        whole, slow = PeerDecoder(), PeerDecoder()
        whole.feed(self.frames)
        found = []
        for each in range(len(self.frames)):
            slow.feed(self.frames[each : each + 1])
            found += slow.frames()
        assert found == whole.frames()
        assert [kind for kind, _ in found] == [Kind.PING, Kind.MESSAGES, Kind.INFO]
        assert slow.unread_bytes == 0

    def test_reads_lines_before_frames(self) -> None:
        decoder = PeerDecoder()
        decoder.feed(b"INFO {}\r\n+O")
        assert decoder.next_line() == b"INFO {}"
        assert decoder.next_line() is None
        decoder.feed(b"K\r\n" + frame(Kind.PONG, b"x"))
        assert decoder.next_line() == b"+OK"
        assert decoder.frames() == [(Kind.PONG, b"x")]

    def test_bounds_the_length_of_a_line(self) -> None:
        decoder = PeerDecoder()
        decoder.feed(b"x" * LINE_BYTES_MAX)
        assert decoder.next_line() is None
        decoder.feed(b"x")
        with pytest.raises(MalformedFrame, match="too long"):
            decoder.next_line()

    def test_bounds_the_size_of_a_frame_before_its_body_is_there(self) -> None:
        decoder = PeerDecoder(bytes_max=100)
        decoder.feed(frame(Kind.CONSENSUS, bytes(101))[:9])
        with pytest.raises(MalformedFrame, match="a frame of 101 bytes is too large"):
            decoder.frames()

    @pytest.mark.parametrize(
        ("kind", "bytes_max"),
        [(Kind.PONG, 8), (Kind.INFO, LINE_BYTES_MAX), (Kind.CONSENSUS, FRAME_BYTES_MAX)],
    )
    def test_bounds_the_size_of_a_frame_by_its_kind(self, kind: Kind, bytes_max: int) -> None:
        decoder = PeerDecoder()
        decoder.feed(struct.pack("<IIB", bytes_max, 0, kind))
        assert decoder.frames() == []
        decoder = PeerDecoder()
        decoder.feed(struct.pack("<IIB", bytes_max + 1, 0, kind))
        with pytest.raises(MalformedFrame, match="is too large"):
            decoder.frames()

    def test_has_the_frames_before_a_large_one_taken_first(self) -> None:
        decoder = PeerDecoder(bytes_max=100)
        large = frame(Kind.CONSENSUS, bytes(101))
        decoder.feed(frame(Kind.CONSENSUS, b"greeting") + large * 2)
        assert decoder.frames() == [(Kind.CONSENSUS, b"greeting")]
        decoder.bytes_max = 101
        assert len(decoder.frames()) == 2

    def test_has_room_for_the_largest_raft_entry(self) -> None:
        assert FRAME_BYTES_MAX > ENTRY_DATA_BYTES_MAX + 64 * 1024

    def test_refuses_an_unknown_kind(self) -> None:
        decoder = PeerDecoder()
        decoder.feed(struct.pack("<IIB", 0, 0, 77))
        with pytest.raises(MalformedFrame, match="unknown kind of frame 77"):
            decoder.frames()

    @pytest.mark.parametrize("position", range(4, 14))
    def test_refuses_a_wrong_checksum(self, position: int) -> None:
        data = bytearray(frame(Kind.CONSENSUS, b"ballot"))
        data[position] ^= 1
        decoder = PeerDecoder()
        decoder.feed(bytes(data))
        with pytest.raises(MalformedFrame, match=r"checksum|unknown kind"):
            decoder.frames()
