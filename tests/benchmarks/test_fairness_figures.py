"""The benchmark of fairness: its floods are whole operations, and its verdicts follow the aims."""

import json
from collections.abc import Iterator

import pytest

from benchmarks.fairness import Delays, Result, heading, main, measure, table_lines, verdict
from benchmarks.floods import FLOODS, PASS_MARK, Flood, Size
from benchmarks.servers import HEADWATER, NATS_SERVER

SMALL = Size(0.001)
# The bytes that a server takes by default in one message.
PAYLOAD_BYTES_MAX = 1 << 20


def operations(data: bytes) -> Iterator[tuple[list[bytes], bytes]]:
    """The words and the payload of each operation; fails where the bytes are not whole ones."""
    at = 0
    while at < len(data):
        end = data.index(b"\r\n", at)
        words, at = data[at:end].split(b" "), end + 2
        payload = b""
        if words[0] in (b"PUB", b"HPUB"):
            end = at + int(words[-1])
            payload = data[at:end]
            assert data[end : end + 2] == b"\r\n", words
            at = end + 2
        yield words, payload


@pytest.mark.parametrize("flood", FLOODS.values(), ids=lambda each: each.name)
def test_a_flood_is_whole_operations_that_a_server_knows(flood: Flood) -> None:
    known = {b"PING", b"SUB", b"UNSUB", b"PUB", b"HPUB"}
    for data in (flood.prelude(SMALL), flood.buffer(SMALL)):
        assert {words[0] for words, _ in operations(data)} <= known


@pytest.mark.parametrize(
    "flood", [each for each in FLOODS.values() if each.repeats_max], ids=lambda each: each.name
)
def test_a_long_request_has_its_full_size_and_is_valid_json(flood: Flood) -> None:
    requests = [
        payload
        for words, payload in operations(flood.buffer(Size()))
        if words[1].startswith(b"$JS.API.")
    ]
    assert all(len(each) < PAYLOAD_BYTES_MAX for each in requests)
    assert all(isinstance(json.loads(each), dict) for each in requests if each)


@pytest.mark.parametrize("name", ["sub", "subjects", "ids"])
def test_repetitions_of_what_must_not_repeat_differ_by_their_number(name: str) -> None:
    buffer = FLOODS[name].buffer(SMALL)
    first, second = (buffer.replace(PASS_MARK, b"%08d" % number) for number in (0, 1))
    assert first != second
    assert len(first) == len(second)
    assert len(list(operations(second))) == len(list(operations(first)))


def test_delays_are_the_median_p99_and_worst_in_milliseconds() -> None:
    delays = Delays.of([number / 1000 for number in range(200, 0, -1)])
    assert (delays.p50_ms, delays.p99_ms, delays.worst_ms) == (101.0, 199.0, 200.0)
    assert delays.count == 200


@pytest.mark.parametrize(
    ("delays", "text"),
    [
        (Delays(1.0, 10.0, 100.0, 9), "met"),
        (Delays(1.0, 10.1, 100.0, 9), "MISSED: p99"),
        (Delays(1.0, 10.0, 100.1, 9), "MISSED: worst"),
        (Delays(1.0, 10.1, 100.1, 9), "MISSED: p99, worst"),
        (None, ""),
    ],
)
def test_an_aim_is_met_at_its_bound_and_missed_past_it(delays: Delays | None, text: str) -> None:
    assert verdict(delays) == text


def test_a_server_without_a_result_has_dashes_and_no_ratio() -> None:
    kinds = (HEADWATER, NATS_SERVER)
    delays = Delays(1.0, 2.0, 30.0, 9)
    ours = Result(delays, delays, 4.0, 5.0)
    lines = table_lines("a flood", kinds, {HEADWATER: ours})
    assert [len(line) for line in lines] == [len(heading(kinds))] * 2
    assert lines[0] == (
        *("a flood", "ping", "1.00", "2.00", "30.0", "4.00", "-", "-", "-", "-", "", "met"),
    )
    both = table_lines("a flood", kinds, {HEADWATER: ours, NATS_SERVER: ours})
    assert both[1][-2] == "1.00"


def test_probes_are_answered_while_a_flood_is_sent() -> None:
    result = measure(HEADWATER, FLOODS["equal"], 0.1, SMALL)
    assert min(result.ping.count, result.publish.count) > 0
    assert result.sent_mb > 0


def test_an_unknown_flood_is_answered_with_the_known_ones(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--only", "pong"])
    assert ended.value.code == 2
    assert "subject-pages" in capsys.readouterr().err
