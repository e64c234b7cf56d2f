"""/varz, /subsz, /healthz, and the monitoring port as such."""

import http.client
from typing import Any

from tests.interop.case import Catalogue
from tests.interop.masks import is_filled_text
from tests.interop.observation import Mask, Observation
from tests.interop.session import HOST, Session
from tests.kit.server_process import Setup

AUTHORIZED = Setup(
    """
max_connections: 100
max_subscriptions: 200
max_payload: 300
max_pending: 4000
max_control_line: 500
ping_interval: "7s"
ping_max: 8
write_deadline: "9s"
server_tags: ["a:b", "c"]
server_metadata { region: here }
authorization { user: ada, password: secret, timeout: 3 }
"""
)

catalogue = Catalogue(Setup())


def sorted_subscriptions(page: dict[str, Any]) -> dict[str, Any]:
    """The page with its subscriptions, which come in no order, in one."""
    page["subsz"].get("subscriptions_list", []).sort(key=lambda entry: (entry["sid"], entry["cid"]))
    return page


def request(session: Session, method: str, path: str) -> Observation:
    """One request with its headers, but for the date."""
    link = http.client.HTTPConnection(HOST, session.server.http_port, timeout=5)
    try:
        link.request(method, path)
        answer = link.getresponse()
        body = answer.read()
    finally:
        link.close()
    headers = {name.lower(): value for name, value in answer.getheaders()}
    return {
        "status": answer.status,
        "headers": {name: value for name, value in headers.items() if name != "content-length"},
        "length is right": headers.get("content-length") == str(len(body)) or method == "HEAD",
        "empty": not body,
    }


DATE = (Mask("**.headers.date", is_filled_text, "time"),)


@catalogue.case("monitor.varz.fresh", own_server=True)
def varz_fresh(session: Session) -> Observation:
    """/varz of a server that has done nothing yet: defaults and zeros."""
    return session.get("/varz")


@catalogue.case("monitor.varz.configured", setup=AUTHORIZED, own_server=True)
def varz_configured(session: Session) -> Observation:
    """/varz shows limits, intervals in nanoseconds, tags and metadata as configured."""
    return session.get("/varz")


@catalogue.case("monitor.varz.counters", own_server=True)
def varz_counters(session: Session) -> Observation:
    """Connections, messages and bytes are counted in and out; each page counts its requests."""
    one, other = session.connect(), session.connect()
    one.exchange("SUB foo 1\r\nSUB foo 2\r\n")
    other.exchange("PUB foo 5\r\nhello\r\nPUB nobody 3\r\nabc\r\n")
    one.exchange()
    other.until_closed("nope\r\n")
    session.wait_until_gone(other)
    for path in ("/subsz", "/subscriptionsz", "/healthz", "/", "/nope"):
        session.get(path)
    page = session.get("/varz")
    page["varz"]["http_req_stats"].pop("/connz")
    return page


@catalogue.case("monitor.varz.subscriptions")
def varz_subscriptions(session: Session) -> Observation:
    """`subscriptions` goes up and down with the subscriptions of clients."""
    client = session.connect()
    counts = [session.get("/varz")["varz"]["subscriptions"]]
    for change in (
        "SUB foo 1\r\n",
        "SUB foo q 2\r\n",
        "SUB foo 1\r\n",
        "UNSUB 1\r\n",
        "UNSUB 2\r\n",
    ):
        client.exchange(change)
        counts.append(session.get("/varz")["varz"]["subscriptions"])
    return [count - counts[0] for count in counts]


@catalogue.case("monitor.subsz.summary")
def subsz_summary(session: Session) -> Observation:
    """/subsz without options counts and lists nothing."""
    return session.get("/subsz")


@catalogue.case("monitor.subsz.alias")
def subsz_alias(session: Session) -> Observation:
    """/subscriptionsz is the old name of /subsz."""
    page = session.get("/subscriptionsz")
    return {"status": page["status"], "keys": sorted(page["subscriptionsz"])}


@catalogue.case("monitor.subsz.test")
def subsz_test(session: Session) -> Observation:
    """`subs=1&test=…` lists the subscriptions a message to that subject would reach."""
    client = session.connect()
    client.exchange("SUB t.a 1\r\nSUB t.* 2\r\nSUB t.> group 3\r\nSUB t.b 4\r\nUNSUB 2 5\r\n")
    client.exchange("PUB t.a 1\r\nx\r\n")
    return sorted_subscriptions(session.get("/subsz?subs=1&test=t.a"))


@catalogue.case("monitor.subsz.test-without-subs")
def subsz_test_without_subs(session: Session) -> Observation:
    """`test` alone lists nothing."""
    session.connect().exchange("SUB t.a 1\r\n")
    return session.get("/subsz?test=t.a")


@catalogue.case("monitor.subsz.test-invalid", text="invalid test subject, must be valid publish")
def subsz_test_invalid(session: Session) -> Observation:
    """`test` has to be a subject one can publish to."""
    return {
        subject: session.get(f"/subsz?subs=1&test={subject}") for subject in ("t.*", "t..a", ">")
    }


@catalogue.case("monitor.subsz.paging")
def subsz_paging(session: Session) -> Observation:
    """`offset` and `limit` cut a page out of the list; `total` counts the whole."""
    session.connect().exchange("SUB p.a 1\r\nSUB p.* 2\r\nSUB p.> 3\r\n")
    pages = {}
    for query in ("limit=2", "offset=2", "offset=9", "limit=-1&offset=-1"):
        subsz = session.get(f"/subsz?subs=1&test=p.a&{query}")["subsz"]
        numbers = {key: subsz[key] for key in ("total", "offset", "limit")}
        pages[query] = {**numbers, "listed": len(subsz.get("subscriptions_list", []))}
    return pages


@catalogue.case("monitor.subsz.bad-options", text="Error decoding boolean for 'subs'")
def subsz_bad_options(session: Session) -> Observation:
    """Options that cannot be read are refused with their name."""
    return {
        query: session.get(f"/subsz?{query}") for query in ("subs=detail", "limit=x", "offset=x")
    }


@catalogue.case("monitor.subsz.account")
def subsz_account(session: Session) -> Observation:
    """`acc` picks the subscriptions of one account; an unknown account has none."""
    session.connect().exchange("SUB only.here 1\r\n")
    pages = {
        account: session.get(f"/subsz?subs=1&test=only.here&acc={account}")
        for account in ("$G", "$SYS", "NOPE")
    }
    return {account: sorted_subscriptions(page) for account, page in pages.items()}


@catalogue.case("monitor.healthz.ok")
def healthz(session: Session) -> Observation:
    """/healthz of a server that is up."""
    return session.get("/healthz")


@catalogue.case("monitor.healthz.jetstream-asked-for")
def healthz_jetstream(session: Session) -> Observation:
    """A server that was not asked to run JetStream is well without it, whatever the question."""
    queries = ("js-enabled-only=true", "js-server-only=true", "js-enabled=true", "details=true")
    return {query: session.get(f"/healthz?{query}") for query in queries}


@catalogue.case("monitor.healthz.bad-option", text="Error decoding boolean for 'details'")
def healthz_bad_option(session: Session) -> Observation:
    """Options of /healthz that cannot be read are refused."""
    return session.get("/healthz?details=maybe")


@catalogue.case("monitor.http.unknown-page", text="404 page not found")
def unknown_page(session: Session) -> Observation:
    """A page that is not there, also by a trailing slash or another case."""
    return {path: session.get(path) for path in ("/nope", "/varz/", "/VARZ", "/varz/x")}


@catalogue.case("monitor.http.root")
def root_page(session: Session) -> Observation:
    """/ is an HTML page that links to the others."""
    page = session.get("/")
    links = ("varz", "connz", "subsz", "healthz")
    return {
        "status": page["status"],
        "type": page["type"],
        "links": [link for link in links if f"/{link}" in page["text"]],
    }


@catalogue.case("monitor.http.headers", masks=DATE)
def response_headers(session: Session) -> Observation:
    """JSON pages may be read by any origin."""
    return request(session, "GET", "/healthz")


@catalogue.case("monitor.http.error-headers", masks=DATE)
def error_headers(session: Session) -> Observation:
    """Pages that are not there are plain text, not to be guessed at."""
    return request(session, "GET", "/nope")


@catalogue.case("monitor.http.bad-option-headers", masks=DATE)
def bad_option_headers(session: Session) -> Observation:
    """A refused option is plain text."""
    return request(session, "GET", "/connz?sort=x")


@catalogue.case("monitor.http.methods", masks=DATE)
def methods(session: Session) -> Observation:
    """The method of a request does not matter; HEAD gets no body."""
    return {method: request(session, method, "/healthz") for method in ("HEAD", "POST", "PUT")}


@catalogue.case("monitor.http.callback")
def callback(session: Session) -> Observation:
    """A `callback` is an unknown option: the answer is JSON, not a script."""
    return session.get("/healthz?callback=show")


@catalogue.case("monitor.http.indented")
def indented(session: Session) -> Observation:
    """/varz, /connz and /subsz are indented by two spaces; /healthz is one line."""
    starts = {}
    for path in ("/varz", "/connz", "/subsz", "/healthz"):
        link = http.client.HTTPConnection(HOST, session.server.http_port, timeout=5)
        link.request("GET", path)
        starts[path] = link.getresponse().read()[:5].decode()
        link.close()
    return starts


@catalogue.case("monitor.http.keep-alive")
def keep_alive(session: Session) -> Observation:
    """One connection serves one request after another."""
    link = http.client.HTTPConnection(HOST, session.server.http_port, timeout=5)
    statuses = []
    for path in ("/healthz", "/varz", "/nope", "/connz?sort=x", "/healthz"):
        link.request("GET", path)
        answer = link.getresponse()
        answer.read()
        statuses.append(answer.status)
    link.close()
    return statuses
