"""Three servers of each kind: what clients and operators see of a cluster is the same.

Each script is run on a cluster of nats-servers and on a cluster of the server under test; the
docstring of a script is the rule that it shows.
"""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.interop.masks import (
    MASKS,
    is_filled_text,
    is_positive,
    is_round_trip,
    is_server_id,
    is_timestamp,
    is_uptime,
)
from tests.interop.observation import Addition, Mask, Observation, Omission, differences
from tests.interop.trio import NAMES, Trio, trio
from tests.kit.server_process import HEADWATER, ORACLE
from tests.kit.wire_client import WireClient

Script = Callable[[Trio], Observation]
SCRIPTS: list[Script] = []

SYS = {"user": "sys", "pass": "sys"}
B = {"user": "b", "pass": "b"}

OWN_MASKS = (
    Mask("**.server_id", is_server_id, "every server draws its own key"),
    Mask("**.remote_id", is_server_id, "every server draws its own key"),
    Mask("**.rid", is_positive, "counts all connections since the start"),
    Mask("**.port", is_positive, "chosen by the kernel"),
    Mask("**.cluster_port", is_positive, "a free port"),
    Mask("**.rtt", is_round_trip, "time"),
    Mask("**.start", is_timestamp, "time"),
    Mask("**.now", is_timestamp, "time"),
    Mask("**.last_activity", is_timestamp, "time"),
    Mask("**.uptime", is_uptime, "time"),
    Mask("**.idle", is_uptime, "time"),
    Addition("**.purpose", is_filled_text, "a link has two connections, each for its own traffic"),
    Omission("**.pool_size", is_positive, "a link has two connections, and no pool"),
)


def script(function: Script) -> Script:
    SCRIPTS.append(function)
    return function


@pytest.fixture(scope="module")
def trios(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Trio, Trio]]:
    with (
        trio(ORACLE, tmp_path_factory.mktemp("oracle")) as oracle,
        trio(HEADWATER, tmp_path_factory.mktemp("subject")) as subject,
    ):
        yield oracle, subject


@pytest.mark.parametrize("run", SCRIPTS, ids=lambda run: run.__name__)
def test_a_cluster_is_seen_as_the_oracles_is(run: Script, trios: tuple[Trio, Trio]) -> None:
    seen = []
    for servers in trios:
        try:
            seen.append(run(servers))
        finally:
            servers.close_clients()
    found = differences(seen[0], seen[1], (*OWN_MASKS, *MASKS))
    assert not found, "\n".join(str(difference) for difference in found)


def test_there_are_enough_cases() -> None:
    """A list of cases that was emptied by mistake would pass."""
    assert len(SCRIPTS) >= 40


def payloads(frames: list[Any]) -> list[str]:
    return [frame.split("\r\n")[1] for frame in frames if str(frame).startswith(("MSG", "HMSG"))]


def without_ports(trio_: Trio, urls: list[str]) -> list[str]:
    """Client addresses with the names of their servers instead of ports."""
    names = {f"127.0.0.1:{server.port}": NAMES[n] for n, server in enumerate(trio_.servers)}
    return [names.get(url, url) for url in urls]


# --- INFO and addresses -------------------------------------------------------------------------


@script
def info_names_the_cluster_and_all_servers(trio: Trio) -> Observation:
    """INFO has the name of the cluster, and the addresses of all servers, its own first."""
    seen: list[Observation] = []
    for number in range(3):
        info = trio.info(number)
        urls = without_ports(trio, info.pop("connect_urls"))
        seen.append([urls[0], sorted(urls), {"INFO": info}])
    return seen


@script
def varz_has_the_addresses_too(trio: Trio) -> Observation:
    """/varz lists the addresses that clients are told."""
    return sorted(without_ports(trio, trio.get(1, "/varz")["connect_urls"]))


# --- messages -----------------------------------------------------------------------------------


@script
def a_message_crosses(trio: Trio) -> Observation:
    """A message reaches a subscriber of another server."""
    here, there = trio.connect(0), trio.connect(1)
    trio.subscribe(there, "SUB cross.a 1")
    here.exchange("PUB cross.a 5\r\nhello\r\n")
    return trio.heard(there, 1)


@script
def a_message_reaches_all_three(trio: Trio) -> Observation:
    """A message reaches the subscribers of all servers, the publisher's own too."""
    clients = [trio.connect(number) for number in range(3)]
    for client in clients:
        trio.subscribe(client, "SUB all.a 1")
    echo = clients[2].exchange("PUB all.a 2\r\nhi\r\n")
    return [echo, trio.heard(clients[0], 1), trio.heard(clients[1], 1)]


@script
def several_subscriptions_of_one_client(trio: Trio) -> Observation:
    """Each matching subscription of another server gets its copy."""
    here, there = trio.connect(0), trio.connect(2)
    trio.subscribe(there, "SUB many.* 1", "SUB many.> 2", "SUB many.a 3", "SUB other 4")
    here.exchange("PUB many.a 1\r\nx\r\n")
    return sorted(map(str, trio.heard(there, 3)))


@script
def headers_and_reply_cross(trio: Trio) -> Observation:
    """Headers and the reply subject arrive as they were sent."""
    here, there = trio.connect(0), trio.connect(1)
    trio.subscribe(there, "SUB head.a 1")
    here.exchange("HPUB head.a to.me 22 27\r\nNATS/1.0\r\nX: y z\r\n\r\n\r\nhello\r\n")
    return trio.heard(there, 1)


@script
def a_client_without_headers_gets_the_body(trio: Trio) -> Observation:
    """A subscriber that takes no headers gets the payload alone."""
    here, there = trio.connect(0), trio.connect(1, headers=False, no_responders=False)
    trio.subscribe(there, "SUB bare.a 1")
    here.exchange("HPUB bare.a 12 17\r\nNATS/1.0\r\n\r\nhello\r\n")
    return trio.heard(there, 1)


@script
def many_messages_keep_their_order(trio: Trio) -> Observation:
    """The messages of one publisher arrive in order."""
    here, there = trio.connect(0), trio.connect(1)
    trio.subscribe(there, "SUB order.* 1")
    here.exchange("".join(f"PUB order.{n % 3} {len(str(n))}\r\n{n}\r\n" for n in range(500)))
    return payloads(trio.heard(there, 500))


@script
def a_large_message_crosses(trio: Trio) -> Observation:
    """A message of the largest size arrives whole."""
    here, there = trio.connect(0), trio.connect(1)
    trio.subscribe(there, "SUB large.a 1")
    here.exchange("PUB large.a 1048576\r\n" + "x" * 1048576 + "\r\n")
    return [len(str(frame)) for frame in trio.heard(there, 1)]


@script
def an_empty_message_crosses(trio: Trio) -> Observation:
    """A message without a payload arrives."""
    here, there = trio.connect(1), trio.connect(2)
    trio.subscribe(there, "SUB empty.a 1")
    here.exchange("PUB empty.a 0\r\n\r\n")
    return trio.heard(there, 1)


@script
def a_publisher_without_echo_is_not_answered_by_others(trio: Trio) -> Observation:
    """Echo concerns the publisher's own connection, on its own server."""
    quiet, there = trio.connect(0, echo=False), trio.connect(1)
    trio.subscribe(there, "SUB echo.a 1")
    quiet.exchange("SUB echo.a 1\r\n")
    return [quiet.exchange("PUB echo.a 1\r\nx\r\n"), trio.heard(there, 1)]


@script
def verbose_publishers_are_answered_once(trio: Trio) -> Observation:
    """A verbose client gets one +OK for a message that crosses."""
    here, there = trio.connect(0), trio.connect(1)
    trio.subscribe(there, "SUB loud.a 1")
    here.exchange('CONNECT {"verbose":true}\r\n')
    return [here.exchange("PUB loud.a 1\r\nx\r\n"), trio.heard(there, 1)]


@script
def forbidden_messages_do_not_cross(trio: Trio) -> Observation:
    """A publish that permissions forbid is refused where it was sent."""
    shy, there = trio.connect(0, **{"user": "shy", "pass": "b"}), trio.connect(1, **B)
    there.user = "b"  # type: ignore[attr-defined]
    trio.subscribe(there, "SUB no.a 1", "SUB yes.a 2")
    told = shy.exchange("PUB no.a 1\r\nx\r\nPUB yes.a 1\r\ny\r\n")
    return [told, trio.heard(there, 1)]


@script
def accounts_stay_apart(trio: Trio) -> Observation:
    """A message stays in its account on every server."""
    here, same, other = trio.connect(0), trio.connect(1), trio.connect(1, **B)
    other.user = "b"  # type: ignore[attr-defined]
    trio.subscribe(other, "SUB apart.a 1", "SUB > 2")
    trio.subscribe(same, "SUB apart.a 1")
    here.exchange("PUB apart.a 1\r\nx\r\n")
    return [trio.heard(same, 1), other.exchange()]


# --- the end of interest ------------------------------------------------------------------------


def is_unheard(trio: Trio, client: Any, subject: str) -> bool:
    """Whether a request is told that nobody hears it."""
    frames = client.exchange(f"PUB {subject} gone.reply 0\r\n\r\n")
    return any("NATS/1.0 503" in str(frame) for frame in frames)


@script
def unsubscribing_ends_interest_elsewhere(trio: Trio) -> Observation:
    """After UNSUB a request from another server is told that nobody hears it."""
    here, there = trio.connect(0), trio.connect(1)
    trio.subscribe(there, "SUB gone.a 1")
    here.exchange("SUB gone.reply 1\r\n")
    before = is_unheard(trio, here, "gone.a")
    there.exchange("UNSUB 1\r\n")
    trio.wait_until(lambda: is_unheard(trio, here, "gone.a"))
    return before


@script
def leaving_ends_interest_elsewhere(trio: Trio) -> Observation:
    """A client that leaves takes its interest with it."""
    here, there = trio.connect(0), trio.connect(2)
    trio.subscribe(there, "SUB left.a 1", "SUB left.a q 2")
    here.exchange("SUB gone.reply 1\r\n")
    before = is_unheard(trio, here, "left.a")
    there.close()
    trio.wait_until(lambda: is_unheard(trio, here, "left.a"))
    return before


@script
def a_limit_of_messages_holds_across_servers(trio: Trio) -> Observation:
    """UNSUB with a number ends a subscription after as many messages of another server."""
    here, there = trio.connect(0), trio.connect(1)
    trio.subscribe(there, "SUB limit.a 1", "UNSUB 1 2")
    here.exchange("PUB limit.a 1\r\nx\r\n" * 4)
    return trio.heard(there, 2)


# --- queue groups -------------------------------------------------------------------------------


@script
def a_queue_group_on_several_servers_has_each_message_once(trio: Trio) -> Observation:
    """A group with members here and elsewhere gets each message once.

    nats-server chooses among all members; the server under test prefers those of its own.
    """
    here, there = trio.connect(0), trio.connect(1)
    trio.subscribe(there, "SUB local.a q 1")
    trio.subscribe(here, "SUB local.a q 1")
    count = len(payloads(here.exchange("PUB local.a 1\r\nx\r\n" * 50)))
    return count + len(payloads(trio.heard(there, 50 - count)))


@script
def a_queue_group_elsewhere_has_each_message_once(trio: Trio) -> Observation:
    """Without a local member each message goes to one member on one of the other servers."""
    here, there, far = trio.connect(0), trio.connect(1), trio.connect(2)
    trio.subscribe(there, "SUB spread.a q 1", "SUB spread.a q 2")
    trio.subscribe(far, "SUB spread.a q 1")
    here.exchange("PUB spread.a 1\r\nx\r\n" * 200)
    counts = [0, 0]

    def all_came() -> bool:
        counts[0] += len(payloads(there.exchange()))
        counts[1] += len(payloads(far.exchange()))
        return sum(counts) >= 200

    trio.wait_until(all_came)
    return [sum(counts), min(counts) > 0]


@script
def two_queue_groups_have_a_copy_each(trio: Trio) -> Observation:
    """Each queue group gets a message once, and plain subscriptions all get it."""
    here, there, far = trio.connect(0), trio.connect(1), trio.connect(2)
    trio.subscribe(there, "SUB two.a q 1", "SUB two.a r 2", "SUB two.a 3")
    trio.subscribe(far, "SUB two.a 1")
    here.exchange("PUB two.a 1\r\nx\r\n")
    return [sorted(map(str, trio.heard(there, 3))), trio.heard(far, 1)]


@script
def a_queue_group_with_a_wildcard_is_one_group(trio: Trio) -> Observation:
    """Members with different patterns and one queue name form one group across servers."""
    here, there = trio.connect(0), trio.connect(1)
    trio.subscribe(there, "SUB wild.* q 1", "SUB wild.a q 1x")
    here.exchange("PUB wild.a 1\r\nx\r\n")
    return [len(trio.heard(there, 1))]


@script
def a_queue_group_whose_local_member_is_silent_to_itself(trio: Trio) -> Observation:
    """A publisher without echo that is the only local member leaves the message to others."""
    quiet, there = trio.connect(0, echo=False), trio.connect(1)
    trio.subscribe(there, "SUB own.a q 1")
    quiet.exchange("SUB own.a q 1\r\n")
    return [quiet.exchange("PUB own.a 1\r\nx\r\n"), trio.heard(there, 1)]


# --- requests -----------------------------------------------------------------------------------


@script
def a_request_is_answered_across_servers(trio: Trio) -> Observation:
    """The inbox that is subscribed to in the write of the request gets the reply."""
    here, there = trio.connect(0), trio.connect(2)
    trio.subscribe(there, "SUB ask.a 1")
    here.send("SUB inbox.1.* 1\r\nPUB ask.a inbox.1.x 1\r\n?\r\n")
    asked = trio.heard(there, 1)
    there.exchange("PUB inbox.1.x 1\r\n!\r\n")
    return [asked, trio.heard(here, 1)]


@script
def a_request_that_nobody_hears(trio: Trio) -> Observation:
    """A request without a responder on any server is told so."""
    here = trio.connect(1)
    return here.exchange("SUB alone.reply 1\r\nPUB alone.a alone.reply 0\r\n\r\n")


@script
def a_request_that_a_queue_group_elsewhere_hears(trio: Trio) -> Observation:
    """A queue group on another server is a responder."""
    here, there = trio.connect(0), trio.connect(1)
    trio.subscribe(there, "SUB serve.a q 1")
    told = here.exchange("SUB serve.reply 1\r\nPUB serve.a serve.reply 0\r\n\r\n")
    return [told, trio.heard(there, 1)]


# --- the system account -------------------------------------------------------------------------


def documents(frames: list[Any]) -> list[dict[str, Any]]:
    return [json.loads(text) for text in payloads(frames)]


@script
def all_servers_answer_a_ping(trio: Trio) -> Observation:
    """`$SYS.REQ.SERVER.PING` is answered by every server of the cluster."""
    client = trio.connect(0, **SYS)
    client.send("SUB r.1 1\r\nPUB $SYS.REQ.SERVER.PING r.1 0\r\n\r\n")
    answers = documents(client.take(3))
    return sorted(
        (each["server"]["name"], each["server"]["cluster"], each["statsz"]["active_servers"])
        for each in answers
    )


@script
def a_server_is_asked_by_its_id(trio: Trio) -> Observation:
    """A server answers requests to its id on behalf of clients elsewhere."""
    client = trio.connect(0, **SYS)
    server_id = trio.get(2, "/varz")["server_id"]
    client.send(f"SUB r.1 1\r\nPUB $SYS.REQ.SERVER.{server_id}.IDZ r.1 0\r\n\r\n")
    (answer,) = documents(client.take(1))
    return [answer["name"], answer["id"] == server_id]


@script
def a_request_may_name_servers(trio: Trio) -> Observation:
    """A request to all servers is answered by those that it names."""
    client = trio.connect(0, **SYS)
    body = '{"server_name":"s2"}'
    client.send(f"SUB r.1 1\r\nPUB $SYS.REQ.SERVER.PING.VARZ r.1 {len(body)}\r\n{body}\r\n")
    return [each["server"]["name"] for each in documents(client.take(1))]


@script
def a_request_may_name_the_cluster(trio: Trio) -> Observation:
    """A request to servers of another cluster is answered by nobody, and to this one by all."""
    client = trio.connect(0, **SYS)
    client.exchange("SUB r.1 1\r\n")
    for name in ("elsewhere", "trio"):
        body = f'{{"cluster":"{name}"}}'
        client.send(f"PUB $SYS.REQ.SERVER.PING.HEALTHZ r.1 {len(body)}\r\n{body}\r\n")
    return sorted(each["server"]["name"] for each in documents(client.take(3)))


@script
def routes_are_shown_by_request(trio: Trio) -> Observation:
    """ROUTEZ of another server names its remotes."""
    client = trio.connect(0, **SYS)
    server_id = trio.get(1, "/varz")["server_id"]
    client.send(f"SUB r.1 1\r\nPUB $SYS.REQ.SERVER.{server_id}.ROUTEZ r.1 0\r\n\r\n")
    (answer,) = documents(client.take(1))
    return sorted({route["remote_name"] for route in answer["data"]["routes"]})


@script
def connections_elsewhere_are_events_here(trio: Trio) -> Observation:
    """The system account hears of clients of all servers."""
    client = trio.connect(0, **SYS)
    client.user = "sys"  # type: ignore[attr-defined]
    trio.subscribe(client, "SUB $SYS.ACCOUNT.B.CONNECT 1", "SUB $SYS.ACCOUNT.B.DISCONNECT 2")
    other = trio.connect(2, name="visitor", **B)
    (came,) = documents(client.take(1))
    other.close()
    (went,) = documents(client.take(1))
    return [
        (each["type"], each["server"]["name"], each["client"]["name"], each["client"]["acc"])
        for each in (came, went)
    ]


# --- monitoring ---------------------------------------------------------------------------------


@script
def routez_names_every_remote(trio: Trio) -> Observation:
    """/routez lists the connections to each of the other servers."""
    return [trio.remotes(number) for number in range(3)]


@script
def a_route_on_routez(trio: Trio) -> Observation:
    """The document of a route, but for its counts."""
    page = trio.get(1, "/routez")
    counts = ("in_msgs", "out_msgs", "in_bytes", "out_bytes", "subscriptions", "pending_size")
    route = next(route for route in page["routes"] if route["remote_name"] == "s1")
    kinds = {name: isinstance(route.pop(name), int) for name in counts}
    route.pop("account", None)
    page.pop("num_routes")
    return [kinds, route, {name: value for name, value in page.items() if name != "routes"}]


@script
def routes_are_configured_or_heard_of(trio: Trio) -> Observation:
    """The route to the first server was configured; the one to the third was heard of."""
    page = trio.get(1, "/routez")
    return sorted(
        {(r["remote_name"], r["is_configured"]) for r in page["routes"] if r["did_solicit"]}
        & {("s1", True)}
    )


@script
def interest_is_shown_on_routez(trio: Trio) -> Observation:
    """/routez?subs=1 lists the subjects that the other servers listen to."""
    there = trio.connect(1)
    trio.subscribe(there, "SUB shown.a 1", "SUB shown.b q 2")
    page = trio.get(0, "/routez?subs=1")
    subjects = {s for route in page["routes"] for s in route.get("subscriptions_list", ())}
    return sorted(subject for subject in subjects if subject.startswith("shown."))


@script
def interest_is_shown_in_detail(trio: Trio) -> Observation:
    """/routez?subs=detail names account, subject and queue group."""
    there = trio.connect(1)
    trio.subscribe(there, "SUB detail.a 1", "SUB detail.b q 2")
    page = trio.get(0, "/routez?subs=detail")
    found = [
        (each["subject"], each.get("qgroup", ""), each.get("account", ""))
        for route in page["routes"]
        for each in route.get("subscriptions_list_detail", ())
        if each["subject"].startswith("detail.")
    ]
    return sorted(found)


@script
def the_cluster_on_varz(trio: Trio) -> Observation:
    """/varz has the configuration of the cluster, and the number of remotes."""
    page = trio.get(1, "/varz")
    part = page["cluster"]
    part["urls"] = [url == f"127.0.0.1:{trio.route_ports[0]}" for url in part["urls"]]
    return {"cluster": part, "remotes": page["remotes"], "routes": page["routes"] > 0}


@script
def messages_of_others_are_counted(trio: Trio) -> Observation:
    """/varz counts messages that crossed beside those of clients."""
    here, there = trio.connect(0), trio.connect(1)
    trio.subscribe(there, "SUB count.a 1")
    before = trio.get(1, "/varz")
    here.exchange("PUB count.a 1\r\nx\r\n" * 30)
    trio.heard(there, 30)
    after = trio.get(1, "/varz")
    return [
        after["in_msgs"] - before["in_msgs"] >= 30,
        after["in_client_msgs"] - before["in_client_msgs"],
    ]


# --- strangers on the port for servers ----------------------------------------------------------


@script
def a_client_on_the_port_for_servers(trio: Trio) -> Observation:
    """A client library that connects to the port for servers is told so."""
    return trio.stranger(0, 'CONNECT {"lang":"python3","verbose":false}\r\n')


@script
def nonsense_on_the_port_for_servers(trio: Trio) -> Observation:
    """An operation before CONNECT is refused, and the connection closed."""
    return trio.stranger(0, "SUB a 1\r\n")[:1]


# --- reload -------------------------------------------------------------------------------------


@script
def a_reload_of_the_cluster(trio: Trio) -> Observation:
    """Permissions and timings of a cluster are taken over, and told in the log."""
    last = "Reloaded server configuration"
    more = ', permissions { export { deny: "secret.>" } }'
    lines = trio.reload(2, trio.config(2, more), last)
    back = trio.reload(2, trio.config(2), last)
    trio.wait_until_whole()
    return [line for line in [*lines, *back] if "cluster" in line]


@script
def a_reload_of_the_address(trio: Trio) -> Observation:
    """The port of a cluster does not change by a reload."""
    config = trio.config(2).replace(str(trio.route_ports[2]), "1")
    last = "Failed to reload"
    lines = trio.reload(2, config, last)
    trio.servers[2].rewrite_config(trio.config(2))
    port = str(trio.route_ports[2])
    return [re.sub(r"^.*Failed", "Failed", line).replace(port, "PORT") for line in lines]


@script
def a_reload_of_routes(trio: Trio) -> Observation:
    """Another route is taken over by a reload, and told in the log."""
    both = ", ".join(f'"nats://127.0.0.1:{port}"' for port in (trio.route_ports[0], 1))
    lines = trio.reload(2, trio.config(2, routes=both), "Reloaded server configuration")
    back = trio.reload(2, trio.config(2), "Reloaded server configuration")
    trio.wait_until_whole()
    return [line for line in [*lines, *back] if "cluster" in line]


@script
def a_reload_of_the_authorization(trio: Trio) -> Observation:
    """Accepted connections that could still log in stay; others are closed, and made again."""
    last = "Reloaded server configuration"
    routes = f'"nats://u:p@127.0.0.1:{trio.route_ports[0]}"'
    for number in (1, 2):
        trio.reload(number, trio.config(number, routes=routes), last)
    trio.wait_until(lambda: len(trio.links_to(0)) == trio.links_from(1, 2) > 0)
    trio.wait_until_whole()
    first = trio.links_to(0)
    trio.reload(0, trio.config(0, ", authorization { user: u, password: p }"), last)
    are_kept = first <= trio.links_to(0)
    trio.reload(0, trio.config(0, ", authorization { user: u, password: q }"), last)
    trio.wait_until(lambda: not trio.links_to(0))
    for number in range(len(NAMES)):
        trio.reload(number, trio.config(number), last)
    trio.wait_until_whole()
    return [are_kept, sorted({name for name, _ in first})]


# --- members that go and come; last, because the others need all three ---------------------------


def next_info(client: WireClient) -> dict[str, Any]:
    """The next INFO that a server sends of its own accord; it may send PING too."""
    while not isinstance(frame := client.frame(), dict):
        client.send("PONG\r\n")
    info: dict[str, Any] = frame["INFO"]
    return info


@script
def clients_are_told_of_a_server_that_goes_and_comes(trio: Trio) -> Observation:
    """INFO is sent again when a server leaves the cluster, and when it is back."""
    client = trio.connect(0, protocol=1)
    client.exchange()
    server = trio.servers[2]
    server.stop()
    without = sorted(without_ports(trio, next_info(client)["connect_urls"]))
    trio.servers[2] = trio.launch(2)
    trio.servers[2].wait_until_ready()
    back = sorted(without_ports(trio, next_info(client)["connect_urls"]))
    trio.wait_until_whole()
    return [without, back]
