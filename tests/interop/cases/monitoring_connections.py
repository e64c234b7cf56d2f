"""/connz: the connections of a server and every way to ask for some of them."""

from typing import Any

from tests.interop.case import Catalogue
from tests.interop.observation import Mask, Observation
from tests.interop.session import Session
from tests.kit.server_process import Setup
from tests.kit.wire_client import WireClient

TWO_ACCOUNTS = Setup(
    """
accounts {
  A { users: [ { user: ann, password: x }, { user: art, password: x } ] }
  B { users: [ { user: ben, password: x } ] }
}
"""
)

catalogue = Catalogue(TWO_ACCOUNTS)


def crowd(session: Session) -> dict[str, WireClient]:
    """Three connections that differ in every number one can sort by.

    ann has 3 subscriptions and gets 4 messages, art has 1 and sends 4, ben sends 1 and gets none.
    """
    ann = session.connect(name="ann", user="ann", lang="go", version="1.2.3", **{"pass": "x"})
    art = session.connect(name="art", user="art", lang="python3", **{"pass": "x"})
    ben = session.connect(name="ben", user="ben", **{"pass": "x"})
    ann.exchange("SUB foo 1\r\nSUB bar.* group 2\r\nSUB max 3\r\nUNSUB 3 7\r\n")
    art.exchange("SUB never 1\r\n" + "PUB foo 10\r\n0123456789\r\n" * 4)
    ben.exchange("PUB nobody 50\r\n" + "x" * 50 + "\r\n")
    ann.exchange()
    return {"ann": ann, "art": art, "ben": ben}


def names(page: dict[str, Any]) -> list[str]:
    return [connection.get("name", "") for connection in page["connz"]["connections"]]


def closed_crowd(session: Session) -> None:
    """Connections that ended in four different ways, all of them listed as closed."""
    session.connect(name="left", user="ann", **{"pass": "x"}).half_close()
    session.connect(name="garbled", user="art", **{"pass": "x"}).until_closed("nope\r\n")
    session.handshake(name="stranger", user="who")
    past = session.connect(name="heavy", user="ben", **{"pass": "x"})
    past.until_closed("PUB foo 99999999\r\n")
    session.get_when("/connz?state=closed", lambda page: page["connz"]["total"] == 4)


def nanoseconds(timestamp: str) -> str:
    """A timestamp whose fraction has all its nine digits, so that texts compare as times do."""
    seconds, _, fraction = timestamp.rstrip("Z").partition(".")
    return f"{seconds}.{fraction:0<9}"


def by_name(page: dict[str, Any]) -> Observation:
    """A page whose order is chance: its connections sorted by name."""
    connz = page["connz"]
    connz["connections"].sort(key=lambda connection: connection.get("name", ""))
    return page


@catalogue.case("monitor.connz.plain", own_server=True)
def plain(session: Session) -> Observation:
    """All open connections by cid, with their counters; neither users nor subscriptions."""
    crowd(session)
    return session.get("/connz")


@catalogue.case("monitor.connz.none", own_server=True)
def none(session: Session) -> Observation:
    """Without connections the list is there, and empty."""
    return session.get("/connz")


@catalogue.case("monitor.connz.auth", own_server=True)
def with_users(session: Session) -> Observation:
    """`auth=1` adds the user and the account."""
    crowd(session)
    return session.get("/connz?auth=1")


@catalogue.case("monitor.connz.global-account-not-named", setup=Setup(), own_server=True)
def global_account(session: Session) -> Observation:
    """`auth=1` does not name the account of those in `$G`."""
    session.connect(name="me")
    return session.get("/connz?auth=true")


@catalogue.case("monitor.connz.subs", own_server=True)
def with_subscriptions(session: Session) -> Observation:
    """`subs=1` adds the subjects subscribed to, in no order."""
    crowd(session)
    page = session.get("/connz?subs=1")
    for connection in page["connz"]["connections"]:
        connection.get("subscriptions_list", []).sort()
    return page


@catalogue.case("monitor.connz.subs-detail", own_server=True)
def with_subscription_details(session: Session) -> Observation:
    """`subs=detail` adds queue, sid, the messages delivered and the number they end at."""
    crowd(session)
    page = session.get("/connz?subs=detail")
    for connection in page["connz"]["connections"]:
        connection.get("subscriptions_list_detail", []).sort(key=lambda detail: detail["sid"])
    return page


@catalogue.case("monitor.connz.cid", own_server=True)
def by_cid(session: Session) -> Observation:
    """`cid` picks one connection; `total` still counts all, and the limit becomes 1."""
    clients = crowd(session)
    return session.get(f"/connz?cid={clients['art'].client_id}")


@catalogue.case("monitor.connz.cid-unknown", own_server=True)
def by_unknown_cid(session: Session) -> Observation:
    """A `cid` nobody has gives an empty list, not an error."""
    return session.get("/connz?cid=4000000")


@catalogue.case("monitor.connz.cid-of-closed", own_server=True)
def by_cid_of_closed(session: Session) -> Observation:
    """A closed connection is found by `cid` when closed ones are asked for."""
    client = session.connect(name="gone", user="ann", **{"pass": "x"})
    client.until_closed("nope\r\n")
    page = session.get_when("/connz?state=closed", lambda page: page["connz"]["total"] == 1)
    cid = client.client_id
    return {
        "listed": names(page),
        "open": names(session.get(f"/connz?cid={cid}")),
        "closed": names(session.get(f"/connz?cid={cid}&state=closed")),
        "any": names(session.get(f"/connz?cid={cid}&state=any")),
    }


@catalogue.case("monitor.connz.state-closed", own_server=True)
def closed(session: Session) -> Observation:
    """`state=closed` lists the connections that ended, each with its reason."""
    closed_crowd(session)
    return by_name(session.get("/connz?state=closed"))


@catalogue.case("monitor.connz.state-closed-auth", own_server=True)
def closed_with_users(session: Session) -> Observation:
    """Users of closed connections are remembered; one that was refused has none."""
    closed_crowd(session)
    return by_name(session.get("/connz?state=closed&auth=1"))


@catalogue.case("monitor.connz.state-closed-subs", own_server=True)
def closed_with_subscriptions(session: Session) -> Observation:
    """Subscriptions a connection had when it closed are remembered."""
    client = session.connect(name="gone", user="ann", **{"pass": "x"})
    client.exchange("SUB foo 1\r\nSUB bar 2\r\nUNSUB 2\r\n")
    client.until_closed("nope\r\n")
    session.get_when("/connz?state=closed", lambda page: page["connz"]["total"] == 1)
    return session.get("/connz?state=closed&subs=detail")


@catalogue.case("monitor.connz.state-any", own_server=True)
def any_state(session: Session) -> Observation:
    """`state=any` and `state=all` list both; the word may be in any case."""
    closed_crowd(session)
    session.connect(name="here", user="ann", **{"pass": "x"})
    return {state: sorted(names(session.get(f"/connz?state={state}"))) for state in ("any", "ALL")}


@catalogue.case("monitor.connz.state-bad", text="Error decoding state for dead")
def bad_state(session: Session) -> Observation:
    """An unknown state is refused by name."""
    return session.get("/connz?state=dead")


@catalogue.case("monitor.connz.paging", own_server=True)
def paging(session: Session) -> Observation:
    """`offset` and `limit` cut a page out of the connections; `total` counts them all."""
    crowd(session)
    queries = (
        "limit=1",
        "offset=1",
        "offset=1&limit=1",
        "offset=9",
        "limit=0",
        "limit=-1&offset=-1",
    )
    pages = {}
    for query in queries:
        connz = session.get(f"/connz?{query}")["connz"]
        numbers = {key: connz[key] for key in ("num_connections", "total", "offset", "limit")}
        pages[query] = {**numbers, "names": [entry["name"] for entry in connz["connections"]]}
    return pages


@catalogue.case("monitor.connz.bad-number", text="Error decoding int for 'limit'")
def bad_number(session: Session) -> Observation:
    """Malformed numbers are refused with the name of the option."""
    queries = ("limit=x", "offset=1.5", "cid=-1", "cid=x", "limit=99999999999999999999")
    return {query: session.get(f"/connz?{query}") for query in queries}


@catalogue.case("monitor.connz.bad-boolean", text="Error decoding boolean for 'auth'")
def bad_boolean(session: Session) -> Observation:
    """Truth values may be written 1, t, true, 0, f, false; anything else is refused."""
    words = ("t", "TRUE", "False", "0", "yes", "2", "tRUE")
    return {word: session.get(f"/connz?auth={word}")["status"] for word in words} | {
        "auth=yes": session.get("/connz?auth=yes"),
        "subs=some": session.get("/connz?subs=some"),
    }


@catalogue.case("monitor.connz.sort", own_server=True)
def sorting(session: Session) -> Observation:
    """`sort=cid`, `start` and `uptime` go up, all others down from the largest."""
    crowd(session)
    orders = ("cid", "start", "subs", "msgs_to", "msgs_from", "bytes_to", "bytes_from", "uptime")
    first = {order: names(session.get(f"/connz?sort={order}")) for order in orders}
    counted = ("subs", "msgs_to", "bytes_to")
    return {order: found[:1] if order in counted else found for order, found in first.items()}


@catalogue.case("monitor.connz.sort-of-the-moment", own_server=True)
def sorting_of_the_moment(session: Session) -> Observation:
    """`pending`, `last`, `idle` and `rtt` are orders too, whatever comes first at the moment."""
    crowd(session)
    orders = ("pending", "last", "idle", "rtt")
    return {order: sorted(names(session.get(f"/connz?sort={order}"))) for order in orders}


@catalogue.case("monitor.connz.sort-bad", text="invalid sorting option: height")
def bad_sort(session: Session) -> Observation:
    """An unknown order is refused by name."""
    return session.get("/connz?sort=height")


@catalogue.case("monitor.connz.sort-stop", text="sort by stop only valid on closed connections")
def sort_by_stop(session: Session) -> Observation:
    """`sort=stop` makes sense for closed connections alone."""
    return {
        "open": session.get("/connz?sort=stop"),
        "any": session.get("/connz?sort=stop&state=any"),
    }


@catalogue.case("monitor.connz.sort-reason", text="sort by reason only valid on closed connections")
def sort_by_reason(session: Session) -> Observation:
    """`sort=reason` makes sense for closed connections alone."""
    return session.get("/connz?sort=reason")


@catalogue.case("monitor.connz.sort-closed", own_server=True)
def sort_closed(session: Session) -> Observation:
    """Closed connections sort by reason in alphabetical order, and by stop, the last one first."""
    closed_crowd(session)
    by_reason = session.get("/connz?state=closed&sort=reason")["connz"]["connections"]
    by_stop = session.get("/connz?state=closed&sort=stop")["connz"]["connections"]
    stops = [nanoseconds(entry["stop"]) for entry in by_stop]
    return {
        "reason": [entry["reason"] for entry in by_reason],
        "stop goes down": stops == sorted(stops, reverse=True),
    }


@catalogue.case("monitor.connz.user", own_server=True)
def by_user(session: Session) -> Observation:
    """`user` picks the connections of one user."""
    crowd(session)
    return {user: session.get(f"/connz?user={user}&auth=1") for user in ("ann", "nobody")}


@catalogue.case("monitor.connz.account", own_server=True)
def by_account(session: Session) -> Observation:
    """`acc` picks the connections of one account, and counts only those."""
    crowd(session)
    return session.get("/connz?acc=A&auth=1")


@catalogue.case(
    "monitor.connz.account-unknown",
    masks=(Mask("connz.server_id", lambda value: value == "", "not even the id is filled in"),),
)
def by_unknown_account(session: Session) -> Observation:
    """An account that is not there has no list at all, and the page no server id."""
    return session.get("/connz?acc=NOPE")


@catalogue.case("monitor.connz.filter-subject-not-over-http", own_server=True)
def filter_subject(session: Session) -> Observation:
    """`filter_subject` is for the system account: over HTTP it is ignored, unknown."""
    crowd(session)
    return names(session.get("/connz?filter_subject=foo&acc=A&flavour=salt"))


@catalogue.case("monitor.connz.before-connect", setup=Setup(), own_server=True)
def before_connect(session: Session) -> Observation:
    """A connection is listed before it has sent CONNECT; its round trip is not known yet."""
    session.dial().frame()
    return session.get_when("/connz", lambda page: page["connz"]["total"] == 1)


@catalogue.case("monitor.connz.counts-payload-bytes", setup=Setup(), own_server=True)
def counts_bytes(session: Session) -> Observation:
    """Bytes are those of headers and payloads; control lines and refused messages do not count."""
    client = session.connect(name="counted")
    client.exchange("SUB foo 1\r\nPUB foo 5\r\nhello\r\nHPUB foo 12 14\r\nNATS/1.0\r\n\r\nhi\r\n")
    client.exchange("PUB nobody back 3\r\nabc\r\nUNSUB 1\r\nPUB foo 1\r\nx\r\n")
    return session.get("/connz")
