"""The consumer API gives what nats-server gives, in its order: the recorded calls, one by one."""

import pytest

from tests.kit.api_world import ApiWorld
from tests.kit.recorded.consumers import CALLS, answer, body_of
from tests.kit.recorded.streams import Document, load

CASES = [
    pytest.param(case, group["limits"], id=f"{number}: {case['title']}")
    for number, group in enumerate(load(CALLS))
    for case in group["cases"]
]


@pytest.mark.parametrize(("case", "limits"), CASES)
def test_the_answer_is_that_of_nats_server(case: Document, limits: dict[str, int]) -> None:
    world = ApiWorld(case.get("stream"), **limits)
    world.listened.update(subject.encode() for subject in case.get("listeners", []))
    for call in case.get("before", []):
        reply = world.ask(f"CONSUMER.{call[0]}", body_of(call))
        assert reply is None or "error" not in reply
    call = case["call"]
    family = "" if call[0].startswith("STREAM.") else "CONSUMER."
    told = {key: part for key, part in case.items() if key != "reply"}
    assert answer(told, world.ask(family + call[0], body_of(call))) == case["reply"]
