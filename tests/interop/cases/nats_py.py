"""The real client of Python users: nats-py sees the same answers, errors and order."""

import asyncio
import gc
import warnings
from collections.abc import Awaitable, Callable

import nats
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error as NatsError

from tests.interop.case import Catalogue
from tests.interop.masks import is_positive
from tests.interop.observation import Mask, Observation
from tests.interop.session import Session
from tests.kit.server_process import Setup

GUARDED = Setup(
    """
authorization {
  users: [ { user: ada, password: secret, permissions { publish: "ok.>", subscribe: "ok.>" } } ]
}
"""
)
ANSWER_S_MAX = 5.0

catalogue = Catalogue(Setup())


def run(script: Callable[[], Awaitable[Observation]]) -> Observation:
    """Run a script on a loop of its own.

    nats-py leaves the closing of its sockets to the garbage collector, which would warn of it in
    whatever test runs then; so it is made to happen here.
    """

    async def bounded() -> Observation:
        return await asyncio.wait_for(script(), 4 * ANSWER_S_MAX)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        seen = asyncio.run(bounded())
        gc.collect()
    return seen


async def connect(session: Session, errors: list[str], **options: object) -> Client:
    async def keep(error: Exception) -> None:
        errors.append(f"{type(error).__name__}: {error}")

    return await nats.connect(
        session.url, error_cb=keep, allow_reconnect=False, connect_timeout=ANSWER_S_MAX, **options
    )


async def refusal(attempt: Awaitable[object]) -> str:
    """The exception an attempt ends in."""
    try:
        await attempt
    except (NatsError, OSError) as error:
        return f"{type(error).__name__}: {error}"
    return "no error"


@catalogue.case("client.publish-subscribe")
def publish_subscribe(session: Session) -> Observation:
    """Messages arrive whole and in order, headers and reply included."""

    async def script() -> Observation:
        client = await connect(session, [])
        subscription = await client.subscribe("greet.*")
        await client.publish("greet.a", b"one", reply="back", headers={"x": "1", "y": "2"})
        await client.publish("greet.b", b"")
        seen = [await subscription.next_msg(ANSWER_S_MAX) for _ in range(2)]
        await client.close()
        return [[m.subject, m.reply, m.data.decode(), dict(m.headers or {})] for m in seen]

    return run(script)


@catalogue.case("client.request-reply")
def request_reply(session: Session) -> Observation:
    """Requests find their answers among many at once."""

    async def script() -> Observation:
        client = await connect(session, [])

        async def echo(message: Msg) -> None:
            await message.respond(message.data[::-1])

        await client.subscribe("echo", "workers", cb=echo)
        calls = [client.request("echo", f"n{n}".encode(), ANSWER_S_MAX) for n in range(20)]
        answers = await asyncio.gather(*calls)
        await client.close()
        return [answer.data.decode() for answer in answers]

    return run(script)


@catalogue.case("client.no-responders", text="NoRespondersError")
def no_responders(session: Session) -> Observation:
    """A request without responders fails at once, not by timeout."""

    async def script() -> Observation:
        client = await connect(session, [])
        error = await refusal(client.request("nobody.home", b"", ANSWER_S_MAX))
        await client.close()
        return error

    return run(script)


@catalogue.case("client.drain")
def drain(session: Session) -> Observation:
    """Draining delivers messages on their way, then closes; the other side sees all of it."""

    async def script() -> Observation:
        errors: list[str] = []
        client, other = await connect(session, errors), await connect(session, errors)
        seen: list[str] = []

        async def keep(message: Msg) -> None:
            seen.append(message.data.decode())

        await client.subscribe("work", cb=keep)
        await client.flush()
        for number in range(50):
            await other.publish("work", str(number).encode())
        await other.flush()
        # The flush waits for all deliveries: nats-server does not promise an order across clients.
        await client.flush()
        await other.drain()
        await client.drain()
        return {"seen": seen, "closed": [client.is_closed, other.is_closed], "errors": errors}

    return run(script)


@catalogue.case("client.unsubscribe-max")
def unsubscribe_max(session: Session) -> Observation:
    """Automatic unsubscription ends the iteration after that many messages."""

    async def script() -> Observation:
        client = await connect(session, [])
        subscription = await client.subscribe("few")
        await subscription.unsubscribe(3)
        for number in range(5):
            await client.publish("few", str(number).encode())
        await client.flush()
        seen = [message.data.decode() async for message in subscription.messages]
        await client.close()
        return seen

    return run(script)


@catalogue.case(
    "client.server-facts",
    masks=(Mask("client_id", is_positive, "counts all connections"),),
)
def server_facts(session: Session) -> Observation:
    """The facts about the server that the client tells its user."""

    async def script() -> Observation:
        client = await connect(session, [])
        version = client.connected_server_version
        facts: dict[str, Observation] = {
            "version": [version.major, version.minor],
            "client_id": client.client_id,
            "max_payload": client.max_payload,
            "discovered": [str(url) for url in client.discovered_servers],
            "statistics": dict(client.stats),
        }
        await client.close()
        return facts

    return run(script)


@catalogue.case("client.max-payload", text="MaxPayloadError")
def max_payload(session: Session) -> Observation:
    """The client itself refuses messages larger than `max_payload` of INFO."""

    async def script() -> Observation:
        client = await connect(session, [])
        error = await refusal(client.publish("foo", b"x" * (client.max_payload + 1)))
        await client.close()
        return error

    return run(script)


@catalogue.case("client.wrong-password", setup=GUARDED)
def wrong_password(session: Session) -> Observation:
    """A refused login is reported as an authorization violation."""

    async def script() -> Observation:
        errors: list[str] = []
        attempt = connect(session, errors, user="ada", password="wrong", max_reconnect_attempts=0)
        return {"raised": await refusal(attempt), "errors": errors}

    return run(script)


@catalogue.case("client.permission-error", setup=GUARDED, text="permissions violation for publish")
def permission_error(session: Session) -> Observation:
    """A refused publish and a refused subscription reach the error callback; the client goes on."""

    async def script() -> Observation:
        told: asyncio.Queue[str] = asyncio.Queue()

        async def keep(error: Exception) -> None:
            told.put_nowait(f"{type(error).__name__}: {error}")

        client = await nats.connect(session.url, user="ada", password="secret", error_cb=keep)
        await client.publish("not.ok", b"")
        errors = [await told.get()]
        await client.subscribe("not.ok")
        errors.append(await told.get())
        connected = client.is_connected
        await client.close()
        return {"errors": errors, "connected": connected}

    return run(script)


@catalogue.case("client.no-jetstream")
def no_jetstream(session: Session) -> Observation:
    """Without JetStream its API has no responders, which nats-py reports in its own way."""

    async def script() -> Observation:
        client = await connect(session, [])
        error = await refusal(client.jetstream().account_info())
        await client.close()
        return error

    return run(script)
