"""Subjects and payloads by which receivers acknowledge."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.jetstream.consumers.acks import (
    NO_NUMBER,
    AckAddress,
    nak_delay_ns,
    read_address,
    read_sequences,
    term_reason,
)

HOME = (b"_", b"hash")
ADDRESS = AckAddress(b"S", b"C", 2, 30, 40)


@pytest.mark.parametrize(
    "subject",
    [
        b"$JS.ACK.S.C.2.30.40.1800000000000000000.5",
        b"$JS.ACK._.hash.S.C.2.30.40.1800000000000000000.5",
        b"$JS.ACK._.hash.S.C.2.30.40.1800000000000000000.5.more.words",
        b"$JS.ACK.S.C.002.030.0040.x.y",
    ],
)
def test_both_forms_are_understood(subject: bytes) -> None:
    assert read_address(subject, HOME) == ADDRESS


@pytest.mark.parametrize(
    "subject",
    [
        b"$JS.ACK.S.C.2.30.40.1800000000000000000",
        b"$JS.ACK.S.C.2.30.40.1800000000000000000.5.6",
        b"$JS.ACK.hub.hash.S.C.2.30.40.1800000000000000000.5",
        b"$JS.ACK._.other.S.C.2.30.40.1800000000000000000.5",
        b"$JS.ACK",
    ],
)
def test_others_are_none(subject: bytes) -> None:
    assert read_address(subject, HOME) is None


@pytest.mark.parametrize("word", [b"x", b"-5", b"+5", b"1_0", b"", b"9" * 20, b"9" * 5000, b"\xb2"])
def test_what_is_no_number_is_no_message(word: bytes) -> None:
    found = read_address(b"$JS.ACK.S.C.%b.%b.%b.1.5" % (word, word, word), HOME)
    assert found == (b"S", b"C", NO_NUMBER, NO_NUMBER, NO_NUMBER)


WORDS = st.sampled_from([b"S", b"C", b"1", b"20", b"x", b"", b"9" * 20, b"1_0", b"_"])
ORDINARY = st.integers(min_value=1, max_value=99).map(
    lambda number: b"$JS.ACK.S.C.1.%d.%d.5.6" % (number, number)
)
ANY = st.lists(WORDS, min_size=1, max_size=10).map(lambda words: b"$JS.ACK." + b".".join(words))


@given(st.lists(st.one_of(ORDINARY, ORDINARY, ANY), min_size=1, max_size=4))
def test_many_at_once_are_read_as_one_by_one(subjects: list[bytes]) -> None:
    found = read_sequences(subjects)
    if found is not None:
        stream, consumer, sequences = found
        each = [read_address(subject, HOME) for subject in subjects]
        assert [(stream, consumer, sequence) for sequence in sequences] == [
            address and (address.stream, address.consumer, address.stream_sequence)
            for address in each
        ]


def test_acks_of_one_consumer_are_read_at_once() -> None:
    subjects = [b"$JS.ACK.S.C.1.%d.1.5.6" % number for number in (5, 3, 12)]
    assert read_sequences(subjects) == (b"S", b"C", [5, 3, 12])
    assert read_sequences([*subjects, b"$JS.ACK.S.D.1.1.1.5.6"]) is None
    assert read_sequences([*subjects, b"$JS.ACK.S.C.1.x.1.5.6"]) is None


@pytest.mark.parametrize(
    ("payload", "delay_ns"),
    [
        (b"-NAK", None),
        (b"-NAK ", None),
        (b'-NAK {"delay": 5}', 5),
        (b'-NAK{"delay":5}', 5),
        (b"-NAK {}", 0),
        (b"-NAK 2s", 2_000_000_000),
        (b"-NAK -5s", -5_000_000_000),
        (b"-NAK 100", None),
        (b"-NAK {", None),
        (b"-NAKX", None),
        (b"-NAK \xff", None),
        (b'-NAK {"delay": "1s"}', None),
    ],
)
def test_a_nak_may_say_when(payload: bytes, delay_ns: int | None) -> None:
    assert nak_delay_ns(payload) == delay_ns


@pytest.mark.parametrize(
    ("payload", "reason"),
    [(b"+TERM", ""), (b"+TERM  too bad ", "too bad"), (b"+TERM\xff", "\ufffd"), (b"+TERMx", "x")],
)
def test_a_term_may_say_why(payload: bytes, reason: str) -> None:
    assert term_reason(payload) == reason
