"""The leader's view of a follower, phase by phase."""

from headwater.raft.config import RaftConfig
from headwater.raft.progress import Phase, Progress

CONFIG = RaftConfig(window_messages_max=2, append_bytes_max=50, window_bytes_max=100)


def replicating(match: int = 5) -> Progress:
    """A follower that has confirmed entries."""
    progress = Progress(match + 1)
    progress.sent(match, 0, 0)
    progress.confirm(match, 0, 1)
    assert progress.phase is Phase.REPLICATE
    return progress


def test_a_probe_is_sent_once_until_it_is_answered() -> None:
    progress = Progress(8)
    assert progress.may_send(CONFIG)
    progress.sent(9, 10, 3)
    assert not progress.may_send(CONFIG)
    assert progress.next == 8
    progress.confirm(9, 3, 1)
    assert (progress.phase, progress.match, progress.next) == (Phase.REPLICATE, 9, 10)


def test_a_follower_is_asked_again_whatever_is_on_its_way() -> None:
    progress = replicating()
    progress.sent(6, 10, 3)
    progress.sent(7, 10, 3)
    progress.ask()
    assert progress.may_send(CONFIG)
    assert progress.commit_sent == progress.commit_known
    progress.sent(7, 0, 3)
    assert not progress.may_send(CONFIG)
    assert (progress.phase, progress.match, progress.next) == (Phase.REPLICATE, 5, 8)
    progress.confirm(7, 3, 1)
    assert (progress.phase, progress.match, progress.next) == (Phase.REPLICATE, 7, 8)


def test_a_probe_that_is_not_answered_is_asked_again_in_its_place() -> None:
    progress = Progress(8)
    progress.sent(9, 10, 3)
    progress.ask()
    assert progress.may_send(CONFIG)
    progress.sent(7, 0, 3)
    assert not progress.may_send(CONFIG)
    assert (progress.phase, progress.next) == (Phase.PROBE, 8)


def test_a_snapshot_that_is_not_answered_is_begun_again() -> None:
    progress = replicating()
    progress.sent_snapshot(9)
    progress.ask()
    assert progress.phase is Phase.PROBE
    assert progress.may_send(CONFIG)


def test_a_window_is_limited_in_messages() -> None:
    progress = replicating()
    progress.sent(6, 10, 0)
    assert progress.may_send(CONFIG)
    progress.sent(7, 10, 0)
    assert not progress.may_send(CONFIG)
    progress.confirm(6, 0, 1)
    assert progress.may_send(CONFIG)
    assert (progress.match, progress.next) == (6, 8)


def test_a_window_is_limited_in_bytes() -> None:
    progress = replicating()
    progress.sent(6, 100, 0)
    assert not progress.may_send(CONFIG)
    progress.confirm(6, 0, 1)
    assert progress.may_send(CONFIG)


def test_a_message_without_entries_takes_no_room() -> None:
    progress = replicating()
    for commit in range(5):
        progress.sent(5, 0, commit)
    assert progress.may_send(CONFIG)
    assert progress.commit_sent == 4


def test_a_late_confirmation_takes_nothing_back() -> None:
    progress = replicating(5)
    progress.confirm(3, 2, 1)
    assert (progress.match, progress.commit_known) == (5, 2)


def test_a_refusal_goes_back_to_the_hint_and_not_behind_what_is_confirmed() -> None:
    progress = replicating(5)
    progress.sent(9, 10, 0)
    progress.refuse(9, 7)
    assert (progress.phase, progress.next) == (Phase.PROBE, 8)
    progress.sent(8, 10, 0)
    progress.refuse(7, 2)
    assert progress.next == 6


def test_a_refusal_that_was_overtaken_is_of_no_use() -> None:
    progress = replicating(5)
    progress.refuse(5, 1)
    assert (progress.phase, progress.next) == (Phase.REPLICATE, 6)
    probing = Progress(8)
    probing.refuse(3, 1)
    assert probing.next == 8
    probing.refuse(7, 3)
    assert probing.next == 4


def test_a_snapshot_stops_everything_until_the_log_goes_on_behind_it() -> None:
    progress = replicating(5)
    progress.sent_snapshot(20)
    assert (progress.phase, progress.next) == (Phase.SNAPSHOT, 21)
    assert not progress.may_send(CONFIG)
    progress.refuse(20, 1)
    assert (progress.phase, progress.next) == (Phase.SNAPSHOT, 21)
    progress.confirm(7, 7, 21)
    assert progress.phase is Phase.SNAPSHOT
    progress.confirm(20, 20, 21)
    assert (progress.phase, progress.next) == (Phase.REPLICATE, 21)


def test_a_lost_message_is_sent_again_from_what_is_confirmed() -> None:
    progress = replicating(5)
    progress.sent(9, 10, 4)
    progress.probe()
    assert (progress.phase, progress.next, progress.commit_sent) == (Phase.PROBE, 6, 0)
    assert progress.may_send(CONFIG)


def test_a_lost_probe_is_sent_again_where_it_was() -> None:
    progress = Progress(8)
    progress.sent(9, 10, 0)
    progress.probe()
    assert (progress.next, progress.may_send(CONFIG)) == (8, True)


def test_a_follower_that_has_forgotten_has_confirmed_nothing() -> None:
    progress = replicating(5)
    progress.readmit_index = 3
    progress.forget(77)
    assert (progress.match, progress.recovery, progress.readmit_index) == (0, 77, 0)
    progress.confirm(9, 0, 1)
    progress.forget(0)
    assert (progress.match, progress.recovery) == (0, 0)
