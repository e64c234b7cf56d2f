"""Configurations of streams and consumers: every recorded request, asked of both servers.

The table of requests is `tests/kit/recorded`: its answers are those of nats-server, the unit tests
of the checks compare with them, and here both servers have to give them. A rule about one request
and its answer is a line of that table and no script.

Requests meet no other stream, as when they were recorded, so their servers are shared by no other
topic and each request begins by removing what the one before it left.
"""

import json
import re
from collections.abc import Callable
from typing import Final, cast

from tests.interop.case import Catalogue
from tests.interop.jetstream import NO_REPLY, JetStreamClient, Reply, jetstream
from tests.interop.observation import Observation
from tests.interop.session import Session
from tests.kit.recorded import consumers, streams
from tests.kit.recorded.consumers import CALLS, STREAM
from tests.kit.recorded.streams import CONFIGS, Document, load
from tests.kit.server_process import LOOPBACK_FLAGS, Setup

catalogue = Catalogue()

FLAGS: Final = (*LOOPBACK_FLAGS, "-js", "-sd", "store")
SLUG_LENGTH_MAX: Final = 60


def alone(session: Session) -> JetStreamClient:
    """A client of a server without streams."""
    js = jetstream(session)
    for name in js.api("STREAM.NAMES").get("streams") or []:
        js.api(f"STREAM.DELETE.{name}")
    return js


def ask_for_stream(js: JetStreamClient, case: Document) -> Observation:
    """A create or an update is answered as recorded, and the stream afterwards is as answered.

    The observation is the rest of the reply: the configuration or the error is compared here. The
    answers were recorded with one server; on several ones the whole reply is the observation.
    """
    for config in case.get("streams", []):
        made = js.api(f"STREAM.CREATE.{config['name']}", config)
        assert "error" not in made, made
    request = case["request"]
    name = case.get("addressed", request.get("name", ""))
    reply = without_origins(js.api(f"STREAM.{case['operation'].upper()}.{name}", request))
    if js.replicas > 1:
        return [reply, js.info(name).get("config")]
    answer = streams.answer(reply)
    assert answer == case["reply"], answer
    after = js.info(name).get("config")
    if "error" in reply:
        before = [config for config in case.get("streams", []) if config["name"] == name]
        assert (after is None) is (not before), after
    else:
        assert after == reply["config"], after
    return {key: part for key, part in reply.items() if key not in ("config", "error")}


def without_origins(reply: Reply) -> Reply:
    """A reply without the documents about origins: how far a copy has come is a matter of time."""
    return {key: part for key, part in reply.items() if key not in ("mirror", "sources")}


def ask_for_consumer(js: JetStreamClient, case: Document) -> Observation:
    """The answer to the last of some calls about consumers, which is the recorded one."""
    made = js.api("STREAM.CREATE.S", STREAM | case.get("stream", {}))
    assert "error" not in made, made
    for number, subject in enumerate(case.get("listeners", []), 2):
        js.wire.exchange(f"SUB {subject} {number}\r\n")
    for call in case.get("before", []):
        reply = js.api(f"CONSUMER.{call[0]}", consumers.body_of(call))
        assert "error" not in reply, reply
    call = case["call"]
    family = "" if call[0].startswith("STREAM.") else "CONSUMER."
    subject, body = f"{js.prefix}{family}{call[0]}", consumers.body_of(call)
    if case["reply"] is None:
        silence = js.unanswered(subject, body)
        assert silence == NO_REPLY, silence
        return silence
    told = {key: part for key, part in case.items() if key != "reply"}
    answer = consumers.answer(told, document(js.request(subject, body)))
    assert js.replicas > 1 or answer == case["reply"], answer
    return answer


def document(reply: Reply) -> Document:
    """The document of a reply, whose header may name the stream."""
    is_wrapped = str(reply.get("data", "")).startswith("{")
    return cast(Document, json.loads(reply["data"])) if is_wrapped else reply


def slug(text: str) -> str:
    """A title as a word of a rule's id."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:SLUG_LENGTH_MAX].strip("-")


def add(
    family: str,
    case: Document,
    setup: Setup,
    ask: Callable[[JetStreamClient, Document], Observation],
) -> None:
    """A case of the catalogue for a line of the table."""

    def script(session: Session) -> Observation:
        return ask(alone(session), case)

    rule = f"js.config.{family}.{slug(case['title']) or 'untitled'}"
    taken = {each.rule for each in catalogue.cases}
    number = 1
    while (chosen := rule if number == 1 else f"{rule}-{number}") in taken:
        number += 1
    script.__name__ = re.sub(r"\W", "_", chosen)
    script.__doc__ = f"The answer is the recorded one: {chosen}, {case['title']}."
    catalogue.case(chosen, setup=setup)(script)


for group in load(CONFIGS):
    for case in group["cases"]:
        add(f"stream-{case['operation']}", case, Setup(group["server"], FLAGS), ask_for_stream)
for group in load(CALLS):
    for case in group["cases"]:
        add("consumer", case, Setup(group["server"], FLAGS), ask_for_consumer)
