"""The arithmetic behind the benchmark's verdicts, and the bytes it expects to be delivered."""

import socket

import pytest

from benchmarks.__main__ import main
from benchmarks.latency import percentile
from benchmarks.load import END_BODY, Counter, Traffic
from benchmarks.report import Aim, Row, as_json, figure, sentence, table
from benchmarks.scenarios import CORE_SCENARIOS, VARIED_SIZES
from benchmarks.servers import BenchmarkError


def rate(ours: list[float], theirs: list[float], aim: Aim | None = None) -> Row:
    return Row("rate", "msg/s", ours, theirs, higher_is_better=True, aim=aim)


def delay(ours: list[float], theirs: list[float], aim: Aim | None = None) -> Row:
    return Row("delay", "us", ours, theirs, higher_is_better=False, aim=aim)


# --- ratios and verdicts ------------------------------------------------------------------------


def test_a_ratio_is_taken_per_round_and_then_the_median() -> None:
    row = rate([1.0, 30.0, 8.0], [2.0, 20.0, 10.0])
    assert row.ratios == [0.5, 1.5, 0.8]
    assert row.ratio == 0.8


@pytest.mark.parametrize(
    ("row", "standing"),
    [
        (rate([2.0], [1.0]), "ahead"),
        (rate([1.0], [2.0]), "behind"),
        (delay([2.0], [1.0]), "behind"),
        (delay([1.0], [2.0]), "ahead"),
        (rate([1.04], [1.0]), "level"),
        (delay([0.96], [1.0]), "level"),
    ],
)
def test_ahead_is_more_of_a_rate_and_less_of_a_delay(row: Row, standing: str) -> None:
    assert row.standing == standing


@pytest.mark.parametrize(
    ("row", "met"),
    [
        (rate([1.0], [2.0], Aim("half", ratio_min=0.5)), True),
        (rate([0.99], [2.0], Aim("half", ratio_min=0.5)), False),
        (delay([3.0], [2.0], Aim("1.5", ratio_max=1.5)), True),
        (delay([3.01], [2.0], Aim("1.5", ratio_max=1.5)), False),
        (delay([0.4, 9.0, 0.1], [1.0, 1.0, 1.0], Aim("0.4 s", ours_max=0.4)), True),
        (delay([0.5, 9.0, 0.1], [1.0, 1.0, 1.0], Aim("0.4 s", ours_max=0.4)), False),
        (rate([0.95, 0.1, 2.0], [1.0, 1.0, 1.0], Aim("0.95", ours_min=0.95)), True),
        (rate([0.94, 0.1, 2.0], [1.0, 1.0, 1.0], Aim("0.95", ours_min=0.95)), False),
    ],
)
def test_an_aim_is_judged_by_medians_its_bound_included(row: Row, met: bool) -> None:
    assert row.aim is not None
    assert row.aim.is_met(row) is met
    assert as_json([row])[0]["aim_met"] is met
    assert table([row]).splitlines()[1].endswith("met" if met else "MISSED")
    assert sentence(row).endswith("is met." if met else "is missed.")


def test_a_difference_around_zero_has_an_aim_but_no_ratio() -> None:
    aim = Aim("under 10 MB", ours_max=10)
    row = Row("growth", "MB", [2.0], [0.0], False, aim, is_difference=True)
    assert sentence(row) == "growth: 2.00 against 0.000 MB; the aim, under 10 MB, is met."
    assert as_json([row])[0]["ratio"] is None
    assert table([row]).splitlines()[1].endswith("under 10 MB  met")


def test_a_figure_that_nats_server_has_not_stands_alone() -> None:
    aim = Aim("at least 0.95", ours_min=0.95)
    row = Row("level", "of weak", [0.9, 1.0, 1.1], (), True, aim)
    assert sentence(row) == "level: 1.00 of weak; the aim, at least 0.95, is met."
    assert as_json([row])[0]["ratio"] is None
    assert table([row]).splitlines()[1].endswith("at least 0.95  met")


def test_a_sentence_says_who_is_ahead_and_by_how_much() -> None:
    assert sentence(rate([500_000.0], [1_000_000.0])) == (
        "rate: headwater is behind, 0.50 of nats-server (500 k against 1.00 M msg/s)."
    )
    assert sentence(delay([100.0], [100.0])) == (
        "delay: headwater and nats-server are level (100 against 100 us)."
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.1234, "0.123"), (1.234, "1.23"), (9.999, "10.0"), (12.34, "12.3"), (9999, "9,999"),
     (12_345, "12.3 k"), (999_499, "999 k"), (999_500, "1.00 M"), (12_345_678, "12.3 M")],
)  # fmt: skip
def test_figures_have_three_digits(value: float, text: str) -> None:
    assert figure(value) == text


def test_percentiles_are_values_that_occurred() -> None:
    values = [float(number) for number in range(1, 101)]
    assert (percentile(values, 0.50), percentile(values, 0.99)) == (51.0, 100.0)
    assert percentile([7.0], 0.99) == 7.0
    with pytest.raises(BenchmarkError):
        percentile([], 0.5)


# --- what is sent, and what must arrive ---------------------------------------------------------


@pytest.mark.parametrize(
    "traffic",
    [
        Traffic("one", "one", (16,)),
        Traffic("v{:03d}", "*", VARIED_SIZES, subjects=1000),
        Traffic("r.{:08d}", "r.*", (16,), subjects=100_000_000, is_distinct=True),
    ],
    ids=["one", "varied", "distinct"],
)
def test_a_blob_is_whole_frames_of_about_a_megabyte(traffic: Traffic) -> None:
    blob = traffic.blob(0)
    assert 0.5 < len(blob) / (1 << 20) < 1.5
    rest, frames, subjects = blob, 0, set()
    while rest:
        line, _, rest = rest.partition(b"\r\n")
        operation, subject, size = line.split(b" ")
        assert operation == b"PUB"
        assert rest[int(size) : int(size) + 2] == b"\r\n"
        rest = rest[int(size) + 2 :]
        frames += 1
        subjects.add(subject)
    assert frames == traffic.messages_per_blob
    assert len(subjects) == (frames if traffic.is_distinct else traffic.subjects)


def test_blobs_repeat_unless_their_subjects_are_distinct() -> None:
    same = Traffic("one", "one", (16,))
    distinct = Traffic("r.{:08d}", "r.*", (16,), subjects=100_000_000, is_distinct=True)
    assert same.blob(0) == same.blob(7)
    assert distinct.blob(0) != distinct.blob(7)
    assert len(distinct.blob(0)) == len(distinct.blob(7))


END = b"MSG the.end 2 3\r\n" + END_BODY + b"\r\n"


def counted(*chunks: bytes, expected: int) -> Counter:
    """A counter that has read `chunks`, one at a time."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        counter = Counter(ours, expected)
        buffer = memoryview(bytearray(4096))
        for chunk in chunks:
            theirs.sendall(chunk)
            counter.read(buffer)
    return counter


@pytest.mark.parametrize("cut", range(len(END)))
def test_the_end_is_seen_however_it_is_cut(cut: int) -> None:
    counter = counted(b"x" * 10, *filter(None, [END[:cut], END[cut:]]), expected=10)
    assert counter.is_done
    counter.verify(len(END))


def test_a_ping_among_the_messages_is_not_a_message() -> None:
    counter = counted(b"x" * 10 + b"PING\r\n" + END, expected=10)
    assert counter.is_done
    counter.verify(len(END))


@pytest.mark.parametrize("delivered", [9, 11, 20])
def test_a_lost_or_repeated_message_fails_the_round(delivered: int) -> None:
    counter = counted(b"x" * delivered + END, expected=10)
    with pytest.raises(BenchmarkError, match="bytes against what was published"):
        counter.verify(len(END))


def test_a_subscriber_that_was_cut_off_fails_the_round() -> None:
    ours, theirs = socket.socketpair()
    with ours:
        theirs.sendall(b"-ERR 'Slow Consumer'\r\n")
        theirs.close()
        counter, buffer = Counter(ours, 100), memoryview(bytearray(64))
        counter.read(buffer)
        with pytest.raises(BenchmarkError, match="Slow Consumer"):
            counter.read(buffer)


def test_an_unknown_scenario_is_answered_with_the_known_ones(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["core-17"])
    assert ended.value.code == 2
    assert (
        f"no scenario 'core-17'; there are: {', '.join(CORE_SCENARIOS)}" in capsys.readouterr().err
    )
