"""Replicas that are equal, and that differ."""

from dataclasses import replace

from headwater.checker.evidence import Evidence
from headwater.checker.history import History, Stored
from headwater.checker.replicas import check_replicas
from tests.kit.histories import Story, with_message


def history_of(*bodies: str) -> History:
    story = Story()
    for body in bodies:
        story.publish(body, message_id=body)
    return story.end()


def test_equal_replicas_hold() -> None:
    assert check_replicas(Evidence(history_of("x", "y"))).holds


def test_a_single_replica_holds() -> None:
    history = history_of("x")
    del history.replicas[1:]
    assert check_replicas(Evidence(history)).holds


def test_a_message_that_differs_is_found() -> None:
    history = history_of("x", "y")
    with_message(history, 2, 2, Stored("a", "other"))
    [offence] = check_replicas(Evidence(history)).offences
    assert offence.text == "s1 and s3 differ in the messages at [2]"


def test_a_message_that_one_replica_lacks_is_found() -> None:
    history = history_of("x", "y")
    with_message(history, 0, 1, None)
    assert len(check_replicas(Evidence(history)).offences) == 2


def test_another_last_sequence_is_found() -> None:
    history = history_of("x")
    history.replicas[1] = replace(history.replicas[1], last_sequence=4)
    assert "last sequence: 1 and 4" in check_replicas(Evidence(history)).offences[0].text


def test_other_state_is_found_by_its_name() -> None:
    history = history_of("x")
    history.replicas[1] = replace(history.replicas[1], state={"ids": ["z"]})
    [offence] = check_replicas(Evidence(history)).offences
    assert offence.text == "s1 and s2 differ in ids: ['x'] and ['z']"
