"""The ledger of an account's subscriptions, as other servers are told of them."""

from headwater.server.cluster.local_interest import (
    INTEREST_BYTES_MAX,
    INTERESTS_PER_FRAME_MAX,
    Ledger,
    in_frames,
)
from headwater.wire.peer_frames import Interest


def ledger() -> tuple[Ledger, list[None]]:
    calls: list[None] = []
    return Ledger(lambda: calls.append(None), lambda: 0), calls


def test_the_first_and_the_last_subscription_are_news() -> None:
    book, calls = ledger()
    book.add(b"a", None)
    assert book.take_news() == [(b"a", b"", 1)]
    book.add(b"a", None)
    book.remove(b"a", None)
    assert book.take_news() == []
    book.remove(b"a", None)
    assert book.take_news() == [(b"a", b"", 0)]
    assert len(calls) == 2


def test_a_frame_has_room_for_a_number_of_interests_and_bytes() -> None:
    short = [(b"a.%d" % number, b"", 1) for number in range(INTERESTS_PER_FRAME_MAX + 1)]
    assert [len(part) for part in in_frames(short)] == [INTERESTS_PER_FRAME_MAX, 1]
    half = b"a" * (INTEREST_BYTES_MAX // 2)
    long: list[Interest] = [(half, b"", 1), (half, b"", 2), (half, b"q", 3), (half * 3, b"", 4)]
    assert [*in_frames(long)] == [long[:2], long[2:3], long[3:]]
    assert [*in_frames([])] == []


def test_every_change_of_a_queue_group_is_news() -> None:
    book, _ = ledger()
    book.add(b"a", b"q")
    book.add(b"a", b"q")
    assert book.take_news() == [(b"a", b"q", 2)]
    book.remove(b"a", b"q")
    assert book.take_news() == [(b"a", b"q", 1)]


def test_a_subscription_that_comes_and_goes_is_told_as_it_is_now() -> None:
    book, _ = ledger()
    book.add(b"a", None)
    book.remove(b"a", None)
    assert book.take_news() == [(b"a", b"", 0)]


def test_a_server_that_comes_is_told_everything() -> None:
    book, _ = ledger()
    for queue in (None, None, b"q", b"q"):
        book.add(b"a", queue)
    book.take_news()
    assert [*book.all()] == [(b"a", b"", 1), (b"a", b"q", 2)]
