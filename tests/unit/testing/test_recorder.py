"""A client whose operations are recorded: replies, refusals, and requests without an answer."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from headwater.checker import History, StreamRules, insist
from headwater.checker.history import Outcome
from headwater.testing import Cluster, World
from headwater.testing.recorder import Recorder

Story = Callable[[Recorder, Cluster], Awaitable[None]]


def tell(story: Story, **config: Any) -> Recorder:
    """Run a story with a stream on one server."""

    async def main(world: World) -> Recorder:
        cluster = Cluster(world, 1)
        await cluster.start()
        recorder = Recorder(
            await cluster.connect(), "p", History(StreamRules("S")), world.loop.now_s, answer_s=0.5
        )
        body = {"name": "S", "subjects": ["s.*"], "allow_atomic": True, **config}
        answer = await recorder.call("STREAM.CREATE.S", body)
        assert answer is not None
        assert "error" not in answer, answer
        await story(recorder, cluster)
        return recorder

    return World(1).run(main)


def test_the_operations_of_a_client_are_a_history_that_holds() -> None:
    async def story(recorder: Recorder, cluster: Cluster) -> None:
        await recorder.publish("s.a", "x", message_id="i")
        repeated = await recorder.publish("s.a", "x", message_id="i")
        assert (repeated.sequence, repeated.is_duplicate) == (1, True)
        batch = await recorder.publish_batch("s.a", "b", ["b1", "b2"])
        assert [*batch.placed()] == [(2, "b1"), (3, "b2")]
        assert (await recorder.publish("s.b", "y", expected=3)).sequence == 4
        assert (await recorder.read(1)).body == "x"
        assert await recorder.create_consumer("C")
        [(delivery, message)] = await recorder.fetch("C", 1, 0.5)
        assert (delivery.sequence, delivery.consumer_sequence, delivery.body) == (1, 1, "x")
        assert (await recorder.ack(delivery, message)).is_done
        assert (await recorder.delete(2)).is_done
        assert (await recorder.scan("new")).messages == {1: "x", 3: "b2", 4: "y"}
        assert (await recorder.purge(subject="s.a")).is_done
        empty = await recorder.read(1)
        assert (empty.outcome, empty.body) == (Outcome.DONE, None)
        recorder.history.replicas = cluster.replicas("S")

    recorder = tell(story)
    assert len(recorder.history.replicas) == 1
    insist(recorder.history)


def test_a_refusal_has_its_reason() -> None:
    async def story(recorder: Recorder, cluster: Cluster) -> None:
        refused = await recorder.publish("s.a", "x", expected=7)
        assert (refused.outcome, refused.reason) == (Outcome.REFUSED, "10071")

    tell(story)


def test_an_error_of_the_server_leaves_the_outcome_open() -> None:
    async def story(recorder: Recorder, cluster: Cluster) -> None:
        assert (await recorder.delete(7)).outcome is Outcome.UNKNOWN

    tell(story)


def test_a_batch_that_is_refused_before_its_end_is_not_there() -> None:
    async def story(recorder: Recorder, cluster: Cluster) -> None:
        batch = await recorder.publish_batch("s.a", "b", ["b1", "b2"])
        assert batch.outcome is Outcome.REFUSED

    tell(story, allow_atomic=False)


@pytest.mark.parametrize("kind", ["publish", "purge", "delete", "read", "scan"])
def test_a_request_without_an_answer_stays_open(kind: str) -> None:
    async def story(recorder: Recorder, cluster: Cluster) -> None:
        cluster.pause(1)
        arguments = {"publish": ("s.a", "x"), "purge": (), "scan": ("new",)}
        request = getattr(recorder, kind)
        assert (await request(*arguments.get(kind, (1,)))).outcome is Outcome.UNKNOWN

    assert [each.outcome for each in tell(story).history.operations] == [Outcome.UNKNOWN]


def test_a_double_ack_without_an_answer_stays_open() -> None:
    async def story(recorder: Recorder, cluster: Cluster) -> None:
        await recorder.publish("s.a", "x")
        await recorder.create_consumer("C")
        [(delivery, message)] = await recorder.fetch("C", 1, 0.5)
        cluster.pause(1)
        assert (await recorder.ack(delivery, message)).outcome is Outcome.UNKNOWN
        assert await recorder.fetch("C", 1, 0.5) == []

    tell(story)


def test_a_scan_reads_more_messages_than_one_request_brings() -> None:
    async def story(recorder: Recorder, cluster: Cluster) -> None:
        for number in range(230):
            await recorder.client.publish("s.a", str(number).encode())
        await recorder.client.flush()
        assert len((await recorder.scan("new")).messages) == 230

    tell(story)
