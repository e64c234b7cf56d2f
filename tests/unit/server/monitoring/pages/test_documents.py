"""Values spelled as nats-server's monitoring spells them."""

import json

import pytest

from headwater.base.clock import NS_PER_S
from headwater.server.monitoring.pages.documents import (
    Refused,
    View,
    encode,
    encode_indented,
    number,
    round_trip,
    text,
    timestamp,
    uptime,
)
from headwater.server.monitoring.pages.query import Query

MINUTE_S = 60
HOUR_S = 60 * MINUTE_S
DAY_S = 24 * HOUR_S


class Sample(View, kw_only=True):
    name: str = ""
    count: int
    empty: dict[str, int]


@pytest.mark.parametrize(
    ("wall_ns", "expected"),
    [
        (1_767_323_045_000_000_000, "2026-01-02T03:04:05Z"),
        (1_767_323_045_123_456_789, "2026-01-02T03:04:05.123456789Z"),
        (1_767_323_045_120_000_000, "2026-01-02T03:04:05.12Z"),
        (1_767_323_045_000_000_001, "2026-01-02T03:04:05.000000001Z"),
    ],
)
def test_a_timestamp_has_no_trailing_zeros(wall_ns: int, expected: str) -> None:
    assert timestamp(wall_ns) == expected


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (-5, "0s"),
        (0, "0s"),
        (59.999, "59s"),
        (2 * MINUTE_S + 3, "2m3s"),
        (HOUR_S, "1h0m0s"),
        (DAY_S + 7, "1d0h0m7s"),
        (365 * DAY_S + DAY_S + HOUR_S, "1y1d1h0m0s"),
    ],
)
def test_uptime_is_whole_seconds_from_the_largest_unit_down(seconds: float, expected: str) -> None:
    assert uptime(round(seconds * NS_PER_S)) == expected


@pytest.mark.parametrize(
    ("rtt_ns", "expected"),
    [
        (0, "0s"),
        (999, "999ns"),
        (1_000, "1µs"),
        (254_321, "254µs"),
        (1_234_567, "1.234567ms"),
        (2_500_000_000, "2.5s"),
    ],
)
def test_a_round_trip_below_a_millisecond_is_cut_to_microseconds(
    rtt_ns: int, expected: str
) -> None:
    assert round_trip(rtt_ns) == expected


def test_a_whole_number_is_written_without_a_fraction() -> None:
    assert encode([number(2.0), number(1.5), number(0)]) == b"[2,1.5,0]"


def test_a_field_at_its_default_is_left_out_and_one_without_default_never() -> None:
    assert encode(Sample(count=0, empty={})) == b'{"count":0,"empty":{}}'
    assert encode(Sample(name="x", count=1, empty={})) == b'{"name":"x","count":1,"empty":{}}'


def test_documents_are_indented_by_two_and_what_is_empty_stays_on_its_line() -> None:
    assert encode_indented({"a": [], "b": {}, "c": [1]}) == (
        b'{\n  "a": [],\n  "b": {},\n  "c": [\n    1\n  ]\n}'
    )


def test_what_html_could_mistake_is_escaped_and_reads_back_the_same() -> None:
    value = '<b>&\u2028\u2029µ"\\'
    data = encode([value])
    assert data == '["\\u003cb\\u003e\\u0026\\u2028\\u2029µ\\"\\\\"]'.encode()
    assert json.loads(data) == [value]


def test_a_subject_that_is_not_text_can_still_be_shown() -> None:
    assert text(b"foo.\xff") == "foo.\ufffd"


class TestQuery:
    def test_of_several_values_the_first_counts(self) -> None:
        assert Query("a=1&a=2").text("a") == "1"

    def test_values_are_unescaped(self) -> None:
        assert Query("subject=a.%3E&b=x+y%2B").text("subject") == "a.>"
        assert Query("subject=a.%3E&b=x+y%2B").text("b") == "x y+"

    @pytest.mark.parametrize("query", ["limit=%zz", "limit=1;cid=2", "limit", ""])
    def test_what_is_not_well_formed_is_as_if_it_were_not_there(self, query: str) -> None:
        assert Query(query).integer("limit") == 0

    @pytest.mark.parametrize("value", ["1", "t", "T", "TRUE", "true", "True"])
    def test_true(self, value: str) -> None:
        assert Query(f"auth={value}").boolean("auth")

    @pytest.mark.parametrize("value", ["", "0", "f", "F", "FALSE", "false", "False"])
    def test_false(self, value: str) -> None:
        assert not Query(f"auth={value}").boolean("auth")

    @pytest.mark.parametrize(
        ("value", "expected"),
        [("7", 7), ("%2B7", 7), ("-7", -7), ("9223372036854775807", 2**63 - 1)],
    )
    def test_a_signed_number(self, value: str, expected: int) -> None:
        assert Query(f"limit={value}").integer("limit") == expected

    def test_the_largest_unsigned_number(self) -> None:
        assert Query("cid=18446744073709551615").unsigned("cid") == 2**64 - 1

    @pytest.mark.parametrize("value", ["9223372036854775808", "-9223372036854775809", "9" * 5000])
    def test_a_signed_number_out_of_range(self, value: str) -> None:
        with pytest.raises(Refused, match="value out of range"):
            Query(f"limit={value}").integer("limit")

    @pytest.mark.parametrize("value", ["18446744073709551616", "9" * 5000])
    def test_an_unsigned_number_out_of_range(self, value: str) -> None:
        with pytest.raises(Refused, match="value out of range"):
            Query(f"cid={value}").unsigned("cid")

    @pytest.mark.parametrize("value", ["x", "1.5", "1_0", "٣", "--1"])
    def test_what_is_no_number(self, value: str) -> None:
        with pytest.raises(Refused, match="invalid syntax"):
            Query(f"limit={value}").integer("limit")
        with pytest.raises(Refused, match="invalid syntax"):
            Query(f"cid={value}").unsigned("cid")

    @pytest.mark.parametrize(
        ("query", "expected"),
        [
            ("", (False, False)),
            ("subs=1", (True, False)),
            ("subs=detail", (False, True)),
            ("subs=DETAIL", (False, True)),
        ],
    )
    def test_subscriptions_can_be_wanted_in_two_ways(
        self, query: str, expected: tuple[bool, bool]
    ) -> None:
        assert Query(query).subscriptions() == expected
