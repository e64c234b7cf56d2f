"""Messages and claims of a history."""

from headwater.checker.evidence import Evidence
from headwater.checker.history import Loss
from tests.kit.histories import Story


def test_acks_deliveries_reads_and_scans_claim_sequences() -> None:
    story = Story()
    ack, delivery, read = story.publish("x"), story.deliver(1), story.read(1)
    scan = story.scan()
    claims = Evidence(story.end()).claims
    assert [(each.sequence, each.body, each.operation) for each in claims] == [
        (1, "x", ack),
        (1, "x", delivery),
        (1, "x", read),
        (1, "x", scan),
    ]


def test_operations_without_a_reply_and_empty_reads_claim_nothing() -> None:
    story = Story()
    story.publish("x", is_answered=False)
    story.read(9)
    story.batch("y", "z", is_answered=False)
    assert Evidence(story.end()).claims == []


def test_attempts_of_one_message_are_one_message() -> None:
    story = Story()
    first = story.publish("x", message_id="i", is_answered=False)
    second = story.publish("x", message_id="i")
    [message] = Evidence(story.end()).messages.values()
    assert message.attempts == [first, second]
    assert message.begin_s == first.begin_s
    assert message.is_stored_once(duplicate_window_s=120)
    assert not message.is_stored_once(duplicate_window_s=0.5)


def test_a_message_that_is_published_again_without_an_id_may_be_there_twice() -> None:
    story = Story()
    story.publish("x")
    story.publish("x")
    assert not Evidence(story.end()).messages["x"].is_stored_once(120)


def test_the_last_sequence_is_the_highest_that_anybody_saw() -> None:
    story = Story()
    story.publish("x")
    story.publish("y", is_answered=False)
    assert Evidence(story.end()).last_sequence == 2
    story.history.replicas = []
    assert Evidence(story.history).last_sequence == 1


def test_bodies_are_found_by_sequence_and_by_replica() -> None:
    story = Story()
    ack = story.publish("x")
    story.publish("y", is_answered=False)
    evidence = Evidence(story.end())
    assert evidence.bodies_by_sequence == {1: {"x": [ack]}, 2: {"y": []}}
    assert evidence.last_by_body == {"x": 1, "y": 2}
    assert [places for _, places in evidence.places] == [{"x": [1], "y": [2]}] * 3


def test_a_loss_takes_the_weight_from_a_claim() -> None:
    story = Story()
    story.publish("x")
    evidence = Evidence(story.end())
    assert len(evidence.kept_claims(evidence.messages["x"])) == 1
    story.history.losses.append(Loss(at_s=5, window_s=5))
    assert evidence.kept_claims(evidence.messages["x"]) == []
