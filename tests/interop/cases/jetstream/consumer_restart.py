"""The memory of consumers after their server was stopped and started on the same files."""

from collections.abc import Callable

from tests.interop.case import Catalogue
from tests.interop.cases.jetstream.consumer_push import (
    HEARTBEAT_NS,
    LONG_NS,
    SHORT_NS,
    listener,
    messages,
    progress_of,
    target,
    until_idle,
)
from tests.interop.cases.jetstream.retention_interest import kept
from tests.interop.consumers import (
    PAUSE_REMAINING,
    SECOND_NS,
    ack,
    consumer_info,
    create_consumer,
    delete_consumer,
    fetch,
    info_until,
    new_durable,
    seen,
)
from tests.interop.jetstream import JETSTREAM, JetStreamClient, jetstream
from tests.interop.messages import restarted, with_stream
from tests.interop.observation import Observation
from tests.interop.session import Session

catalogue = Catalogue(JETSTREAM)

S = "S"
"""The stream of each case: every one has a server of its own."""


def filled(session: Session, count: int = 0, **config: object) -> JetStreamClient:
    """The stream with so many messages."""
    js = with_stream(session, S, **config)
    js.fill(*(f"{S}.{number}" for number in range(1, count + 1)))
    return js


def after(session: Session, look: Callable[[Session, JetStreamClient], Observation]) -> Observation:
    """The observation of `look` after the server was stopped and started again."""
    with restarted(session, JETSTREAM) as later:
        return look(later, jetstream(later))


def info_after(session: Session, consumer: str = "C") -> Observation:
    return after(session, lambda _, js: consumer_info(js, S, consumer))


# --- the position of a consumer -----------------------------------------------------------------


@catalogue.case("js.restart.position", own_server=True)
def position(session: Session) -> Observation:
    """Deliveries, acks and the messages to come are remembered; the times of them are not."""
    js = filled(session, 6)
    new_durable(js, S, "C", ack_wait=LONG_NS, metadata={"k": "v"})
    received = fetch(js, S, "C", 4)
    ack(js, received[0], received[2])
    before = consumer_info(js, S, "C")
    return [before, info_after(session)]


@catalogue.case("js.restart.ack", own_server=True)
def acked_after(session: Session) -> Observation:
    """A message sent before may be acked after."""
    js = filled(session, 3)
    new_durable(js, S, "C", ack_wait=LONG_NS)
    received = fetch(js, S, "C", 3)

    def look(_: Session, js: JetStreamClient) -> Observation:
        ack(js, received[1], received[0])
        return progress_of(js, S)

    return after(session, look)


@catalogue.case("js.restart.goes-on", own_server=True)
def goes_on(session: Session) -> Observation:
    """The next pull gets the next message, with the next sequence of the consumer."""
    js = filled(session, 4)
    new_durable(js, S, "C", ack_wait=LONG_NS)
    fetch(js, S, "C", 2)
    return after(session, lambda _, js: seen(fetch(js, S, "C", 2)))


@catalogue.case("js.restart.redelivery", own_server=True)
def redelivery(session: Session) -> Observation:
    """A message sent before the restart and not acked in time comes again after it."""
    js = filled(session, 2)
    new_durable(js, S, "C", ack_wait=2 * SECOND_NS)
    received = fetch(js, S, "C", 2)
    ack(js, received[0])
    return after(session, lambda _, js: seen(fetch(js, S, "C", 1, expires=4 * SECOND_NS)))


@catalogue.case("js.restart.delivery-count", own_server=True)
def delivery_count(session: Session) -> Observation:
    """The delivery count of a message is remembered."""
    js = filled(session, 1)
    new_durable(js, S, "C", ack_wait=LONG_NS)
    for _ in range(2):
        ack(js, *fetch(js, S, "C"), body="-NAK")
    received = fetch(js, S, "C")

    def look(_: Session, js: JetStreamClient) -> Observation:
        before = progress_of(js, S)
        ack(js, *received, body="-NAK")
        return [before, seen(fetch(js, S, "C"))]

    return after(session, look)


@catalogue.case("js.restart.max-deliver", own_server=True)
def max_deliver(session: Session) -> Observation:
    """A message sent as often as is allowed is not sent again."""
    js = filled(session, 2)
    new_durable(js, S, "C", ack_wait=SHORT_NS, max_deliver=1)
    fetch(js, S, "C")
    info_until(js, S, "C", lambda info: info["num_ack_pending"] == 0)
    return after(session, lambda _, js: seen(fetch(js, S, "C", 2)))


@catalogue.case("js.restart.ack-none", own_server=True)
def ack_none(session: Session) -> Observation:
    """A consumer without acks remembers its deliveries."""
    js = filled(session, 3)
    new_durable(js, S, "C", ack_policy="none")
    fetch(js, S, "C", 2)
    return after(session, lambda _, js: [progress_of(js, S), seen(fetch(js, S, "C", 2))])


@catalogue.case("js.restart.ack-all", own_server=True)
def ack_all(session: Session) -> Observation:
    """A consumer that acks all remembers its floor and the deliveries above it."""
    js = filled(session, 5)
    new_durable(js, S, "C", ack_policy="all", ack_wait=LONG_NS)
    received = fetch(js, S, "C", 4)
    ack(js, received[1])

    def look(_: Session, js: JetStreamClient) -> Observation:
        before = progress_of(js, S)
        ack(js, received[3])
        return [before, progress_of(js, S)]

    return after(session, look)


@catalogue.case("js.restart.start", own_server=True)
def start(session: Session) -> Observation:
    """The start of a consumer that has sent nothing yet is remembered."""
    js = filled(session, 3)
    new_durable(js, S, "NEW", deliver_policy="new")
    new_durable(js, S, "LAST", deliver_policy="last")
    new_durable(js, S, "SEQ", deliver_policy="by_start_sequence", opt_start_seq=2)
    js.fill(f"{S}.4")

    def look(_: Session, js: JetStreamClient) -> Observation:
        names = ("NEW", "LAST", "SEQ")
        return [[progress_of(js, S, name), seen(fetch(js, S, name))] for name in names]

    return after(session, look)


@catalogue.case("js.restart.filter", own_server=True)
def filtered(session: Session) -> Observation:
    """A filter is remembered as it was changed last, and the messages to come are counted by it."""
    js = filled(session, 4)
    new_durable(js, S, "C", filter_subject=f"{S}.1", ack_wait=LONG_NS)
    fetch(js, S, "C")
    filters = [f"{S}.2", f"{S}.4"]
    new_durable(js, S, "C", filter_subjects=filters, ack_wait=LONG_NS)
    return after(session, lambda _, js: [progress_of(js, S), seen(fetch(js, S, "C", 2))])


# --- which consumers are there ------------------------------------------------------------------


@catalogue.case("js.restart.deleted", own_server=True)
def deleted(session: Session) -> Observation:
    """A deleted consumer stays deleted."""
    js = filled(session)
    for name in ("C", "D"):
        new_durable(js, S, name)
    delete_consumer(js, S, "C")

    def look(_: Session, js: JetStreamClient) -> Observation:
        names = js.api(f"CONSUMER.NAMES.{S}")["consumers"]
        return [names, js.state(S)["consumer_count"]]

    return after(session, look)


@catalogue.case("js.restart.ephemeral", own_server=True)
def ephemeral(session: Session) -> Observation:
    """An ephemeral is there again, and still one."""
    js = filled(session, 2)
    create_consumer(js, S, "C", ack_policy="explicit", inactive_threshold=LONG_NS)
    fetch(js, S, "C")
    return info_after(session)


@catalogue.case("js.restart.ephemeral-left", own_server=True)
def ephemeral_left(session: Session) -> Observation:
    """An ephemeral whose listener does not come back is removed."""
    js = filled(session)
    inbox = listener(session, target(S))
    config = {"deliver_subject": target(S), "inactive_threshold": SHORT_NS}
    create_consumer(js, S, "C", idle_heartbeat=HEARTBEAT_NS, **config)
    inbox.take(1)
    return after(session, lambda _, js: info_until(js, S, "C", lambda info: "error" in info))


@catalogue.case("js.restart.memory", own_server=True)
def memory(session: Session) -> Observation:
    """A consumer in memory is forgotten."""
    js = filled(session, 2)
    new_durable(js, S, "C", mem_storage=True)
    fetch(js, S, "C")
    return info_after(session)


# --- push and pause -----------------------------------------------------------------------------


@catalogue.case("js.restart.push", own_server=True)
def push(session: Session) -> Observation:
    """A push consumer waits for its listener, and goes on where it was."""
    js = filled(session, 2)
    inbox = listener(session, target(S))
    config = {"deliver_subject": target(S), "idle_heartbeat": HEARTBEAT_NS}
    new_durable(js, S, "C", ack_wait=LONG_NS, **config)
    ack(js, messages(inbox, 2)[0])

    def look(later: Session, js: JetStreamClient) -> Observation:
        before = progress_of(js, S)
        again = listener(later, target(S))
        silent = seen(until_idle(again))
        js.fill(f"{S}.3")
        return [before, silent, seen(messages(again, 1))]

    return after(session, look)


@catalogue.case("js.restart.paused", own_server=True, masks=(PAUSE_REMAINING,))
def paused(session: Session) -> Observation:
    """A pause goes on."""
    js = filled(session, 1)
    new_durable(js, S, "C")
    js.api(f"CONSUMER.PAUSE.{S}.C", {"pause_until": "2125-01-01T00:00:00Z"})

    def look(_: Session, js: JetStreamClient) -> Observation:
        info = consumer_info(js, S, "C")
        js.api(f"CONSUMER.PAUSE.{S}.C", {})
        return [info, seen(fetch(js, S, "C"))]

    return after(session, look)


# --- retention ----------------------------------------------------------------------------------


@catalogue.case("js.restart.interest", own_server=True)
def interest(session: Session) -> Observation:
    """A message acked by all stays gone; one that misses an ack stays, and goes with that ack."""
    js = filled(session, retention="interest")
    for name in ("C", "D"):
        new_durable(js, S, name, ack_wait=LONG_NS)
    js.fill(*(f"{S}.{number}" for number in range(3)))
    ack(js, *fetch(js, S, "C", 3))
    received = fetch(js, S, "D", 3)
    ack(js, received[1])

    def look(_: Session, js: JetStreamClient) -> Observation:
        before = kept(js, S)
        ack(js, received[0])
        return [before, kept(js, S)]

    return after(session, look)


@catalogue.case("js.restart.interest-nobody", own_server=True)
def interest_nobody(session: Session) -> Observation:
    """The sequences of messages that no consumer wanted stay used."""
    js = filled(session, retention="interest")
    new_durable(js, S, "C", filter_subject=f"{S}.1")
    js.fill(f"{S}.1", f"{S}.2", f"{S}.2")
    return after(session, lambda _, js: [kept(js, S), js.ack_text(f"{S}.2", "x")])


@catalogue.case("js.restart.queue", own_server=True)
def queue(session: Session) -> Observation:
    """Acked messages of a work queue stay gone; the others are there, and still wait for acks."""
    js = filled(session, 4, retention="workqueue")
    new_durable(js, S, "C", ack_wait=LONG_NS)
    received = fetch(js, S, "C", 3)
    ack(js, received[0], received[2])

    def look(_: Session, js: JetStreamClient) -> Observation:
        state = [kept(js, S), progress_of(js, S), seen(fetch(js, S, "C", 2))]
        ack(js, received[1])
        return [*state, kept(js, S)]

    return after(session, look)
