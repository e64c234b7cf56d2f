"""Leaders that change: what clients hear, and what remains."""

from tests.interop.cluster_case import ClusterCatalogue
from tests.interop.jetstream import opened
from tests.interop.observation import Observation
from tests.interop.stage import PATIENCE_S, Stage
from tests.interop.trio import NAMES

catalogue = ClusterCatalogue()


@catalogue.case()
def a_preferred_server_leads_then(stage: Stage) -> Observation:
    """The server that a step-down prefers leads the stream afterwards."""
    stage.make("PREFERRED")
    seen = []
    for number in stage.others(stage.who_leads("PREFERRED")):
        name = NAMES[number]
        body = {"placement": {"preferred": name}}
        reply = stage.client(number).all_answers("STREAM.LEADER.STEPDOWN.PREFERRED", body)
        after = stage.settled("PREFERRED", leader=name)["cluster"]["leader"]
        seen.append([reply, after == name])
    return seen


@catalogue.case()
def a_leader_is_not_preferred(stage: Stage) -> Observation:
    """A leader does not step down for itself."""
    leader = NAMES[stage.who_leads_new("PREFERRED-SELF")]
    body = {"placement": {"preferred": leader}}
    reply = stage.client().api("STREAM.LEADER.STEPDOWN.PREFERRED-SELF", body)
    reply["error"]["description"] = reply["error"]["description"].replace(leader, "LEADER")
    return reply


@catalogue.case()
def tags_choose_the_next_leader(stage: Stage) -> Observation:
    """A step-down may name the next leader by its tags."""
    leader = stage.who_leads_new("PREFERRED-TAG")
    name = NAMES[stage.others(leader)[0]]
    body = {"placement": {"tags": [f"node:{name}"]}}
    reply = stage.client().api("STREAM.LEADER.STEPDOWN.PREFERRED-TAG", body)
    after = stage.settled("PREFERRED-TAG", leader=name)["cluster"]["leader"]
    return [reply, after == name]


@catalogue.case()
def a_consumer_steps_down_to_a_preferred_server(stage: Stage) -> Observation:
    """The server that a consumer's step-down prefers leads the consumer afterwards."""
    stage.make("PREFERRED-C")
    leader = stage.make_consumer("PREFERRED-C", "C")["cluster"]["leader"]
    name = NAMES[stage.others(NAMES.index(leader))[1]]
    body = {"placement": {"preferred": name}}
    reply = stage.client().api("CONSUMER.LEADER.STEPDOWN.PREFERRED-C.C", body)
    after = stage.settled_consumer("PREFERRED-C", "C", leader=name)["cluster"]["leader"]
    return [reply, after == name]


@catalogue.case()
def the_meta_leader_steps_down(stage: Stage) -> Observation:
    """Another server leads the meta group after a step-down, the one that is preferred."""
    before = stage.meta_leader()
    name = NAMES[stage.others(before)[0]]
    body = {"placement": {"preferred": name}}
    reply = stage.admin(before).all_answers("META.LEADER.STEPDOWN", body)
    after = stage.trio.leader(other_than=NAMES[before])
    return [reply, after == name]


@catalogue.case()
def the_meta_leader_steps_down_for_anyone(stage: Stage) -> Observation:
    """Without a preference another server leads the meta group."""
    before = stage.meta_leader()
    reply = stage.admin(stage.others(before)[0]).all_answers("META.LEADER.STEPDOWN")
    return [reply, stage.trio.leader(other_than=NAMES[before]) in NAMES]


@catalogue.case()
def streams_are_made_by_the_next_meta_leader(stage: Stage) -> Observation:
    """Streams stay, and more can be made, when the meta group has another leader."""
    stage.make("BEFORE-META", num_replicas=1)
    before = stage.meta_leader()
    stage.admin().api("META.LEADER.STEPDOWN")
    stage.trio.leader(other_than=NAMES[before])
    stage.make("AFTER-META", num_replicas=3)
    client = stage.client(1)
    return [sorted(client.info(name)["cluster"]) for name in ("BEFORE-META", "AFTER-META")]


@catalogue.case()
def messages_stay_when_the_leader_changes(stage: Stage) -> Observation:
    """Messages, sequences and ids are those that the leader before had acknowledged."""
    stage.make("KEPT")
    client = stage.client()
    for number in range(20):
        client.publish(f"KEPT.{number}", str(number), {"Nats-Msg-Id": str(number)})
    client.api("STREAM.LEADER.STEPDOWN.KEPT")
    stage.settled("KEPT")
    again = client.publish("KEPT.0", "0", {"Nats-Msg-Id": "0"})
    following = client.publish("KEPT.20", "20", {"Nats-Msg-Id": "20"})
    return [again, following, client.state("KEPT")]


@catalogue.case()
def a_deleted_message_stays_deleted(stage: Stage) -> Observation:
    """Gaps and purges are the next leader's too."""
    stage.make("GAPS")
    client = stage.client()
    client.fill(*[f"GAPS.{number % 3}" for number in range(9)])
    client.api("STREAM.MSG.DELETE.GAPS", {"seq": 5})
    client.api("STREAM.PURGE.GAPS", {"filter": "GAPS.0"})
    client.api("STREAM.LEADER.STEPDOWN.GAPS")
    stage.settled("GAPS")
    return client.state("GAPS", deleted_details=True)


@catalogue.case()
def acks_stay_when_the_leader_changes(stage: Stage) -> Observation:
    """Messages that were acknowledged do not come again from the next leader of a consumer."""
    stage.make("ACKS-KEPT")
    stage.make_consumer("ACKS-KEPT", "C")
    client = stage.client()
    client.fill("ACKS-KEPT.a", "ACKS-KEPT.b")
    [frame] = client.pull("ACKS-KEPT", "C")
    client.request(frame.split("\r\n", 1)[0].split(" ")[3], "+ACK")
    client.api("CONSUMER.LEADER.STEPDOWN.ACKS-KEPT.C")
    info = stage.settled_consumer("ACKS-KEPT", "C")
    [following] = client.pull("ACKS-KEPT", "C")
    floor = [info["ack_floor"]["stream_seq"], info["num_ack_pending"]]
    return [floor, opened(following)]


@catalogue.case()
def a_waiting_pull_hears_of_the_change(stage: Stage) -> Observation:
    """A pull that waits is told `409 Leadership Change` when the leader of its consumer goes."""
    stage.make("WAITING")
    stage.make_consumer("WAITING", "C")
    client = stage.client(1)
    inbox = client.send("$JS.API.CONSUMER.MSG.NEXT.WAITING.C", {"batch": 3, "expires": 30 * 10**9})
    stage.ask_until("CONSUMER.INFO.WAITING.C", lambda reply: reply.get("num_waiting") == 1)
    stage.client(2).api("CONSUMER.LEADER.STEPDOWN.WAITING.C")
    return [opened(frame) for frame in client.heard(inbox, 1, PATIENCE_S)]


@catalogue.case()
def a_waiting_pull_hears_of_the_streams_end(stage: Stage) -> Observation:
    """A pull that waits is told when its stream is deleted through another server."""
    stage.make("WAITING-END")
    stage.make_consumer("WAITING-END", "C")
    client = stage.client(1)
    request = "$JS.API.CONSUMER.MSG.NEXT.WAITING-END.C"
    inbox = client.send(request, {"batch": 3, "expires": 30 * 10**9})
    stage.ask_until("CONSUMER.INFO.WAITING-END.C", lambda reply: reply.get("num_waiting") == 1)
    stage.client(2).api("STREAM.DELETE.WAITING-END")
    return [opened(frame) for frame in client.heard(inbox, 1, PATIENCE_S)]


@catalogue.case()
def a_push_goes_on_when_the_leader_changes(stage: Stage) -> Observation:
    """A subscriber of a push consumer gets what is published after the change."""
    stage.make("PUSH-ON")
    ear = stage.watch("push.on", 1)
    stage.make_consumer("PUSH-ON", "C", deliver_subject="push.on", ack_policy="none")
    client = stage.client(2)
    client.fill("PUSH-ON.a")
    first = ear.await_subject("PUSH-ON")
    client.api("CONSUMER.LEADER.STEPDOWN.PUSH-ON.C")
    stage.settled_consumer("PUSH-ON", "C")
    client.fill("PUSH-ON.b")
    return [first, ear.await_subject("PUSH-ON.b")]


@catalogue.case()
def pending_messages_come_again_from_the_next_leader(stage: Stage) -> Observation:
    """A message that was delivered and not acknowledged comes again after its time."""
    stage.make("PENDING")
    stage.make_consumer("PENDING", "C", ack_wait=500_000_000)
    client = stage.client()
    client.fill("PENDING.a")
    [first] = client.pull("PENDING", "C")
    client.api("CONSUMER.LEADER.STEPDOWN.PENDING.C")
    stage.settled_consumer("PENDING", "C")
    [second] = client.pull("PENDING", "C", batch=1, expires=20 * 10**9)
    return [frame.split("\r\n", 1)[0].split(" ")[3].split(".")[4:6] for frame in (first, second)]
