"""Operations, their outcomes, and losses."""

from math import inf

from headwater.checker.history import Batch, History, Loss, Outcome, Publish, Purge, StreamRules


def publish(begin_s: float, end_s: float = inf) -> Publish:
    operation = Publish(client="p", begin_s=begin_s, subject="a", body="x")
    if end_s < inf:
        operation.complete(end_s)
    return operation


def test_an_operation_without_a_reply_may_have_happened() -> None:
    operation = publish(1)
    assert (operation.outcome, operation.end_s) == (Outcome.UNKNOWN, inf)
    assert operation.may_have_happened
    assert not operation.is_done


def test_a_refused_operation_has_not_happened() -> None:
    operation = publish(1)
    operation.refuse(2, "10071")
    assert not operation.may_have_happened
    assert (operation.end_s, operation.reason) == (2, "10071")


def test_the_ack_of_a_batch_gives_sequences_to_all_its_messages() -> None:
    batch = Batch(client="p", begin_s=1, subject="a", bodies=("x", "y", "z"), sequence=7)
    assert [*batch.placed()] == [(5, "x"), (6, "y"), (7, "z")]


def test_a_loss_concerns_operations_that_were_confirmed_within_its_window() -> None:
    loss = Loss(at_s=10, window_s=2)
    assert not loss.concerns(publish(7, 8))
    assert loss.concerns(publish(7, 8.5))
    assert loss.concerns(publish(9, 9.5))


def test_a_loss_concerns_a_reply_that_was_under_way() -> None:
    loss = Loss(at_s=10, window_s=2)
    assert loss.concerns(publish(9, 11))
    assert not loss.concerns(publish(10.5, 11))


def test_a_history_keeps_confirmed_operations_that_no_loss_concerns() -> None:
    history = History(StreamRules("S"), losses=[Loss(10, 2)])
    assert history.is_kept(publish(1, 2))
    assert not history.is_kept(publish(9, 9.5))
    assert not history.is_kept(publish(1))


def test_operations_are_found_by_kind() -> None:
    history = History(StreamRules("S"))
    purge = history.begin(Purge(client="o", begin_s=1))
    history.begin(publish(2))
    assert history.all_of(Purge) == [purge]
