"""Questions about a cluster: to every server at once, or to the JetStream API of an account."""

import asyncio
import json
import time
from typing import Any, Final

import nats.errors

from headwater.base.errors import PeerError
from headwater.base.quantities import duration_text
from headwater.cli.api.client import AsyncApiClient, NoAnswer
from headwater.cli.cluster.view import ClusterView, view_of_account, view_of_system
from headwater.cli.connection.session import STATUS_NO_RESPONDERS
from headwater.cli.shell.exits import CommandFailed
from headwater.client.api.requests import Document
from headwater.wire.info import decode_object

JSZ_OF_ALL: Final = "$SYS.REQ.SERVER.PING.JSZ"
# The silence after an answer that means that no other server will answer.
QUIET_S: Final = 0.5
# A server that the others know is waited for longer, so that a busy one is not taken for offline.
KNOWN_SERVER_QUIET_S: Final = 2.0
ANSWERS_MAX: Final = 1_000
"""The most servers that are listened to; clusters have up to some dozens."""
# Accounts come in pages of 1,024 unless a request names another limit.
ACCOUNTS_MAX: Final = 1_000_000
EVERYTHING: Final = {"accounts": True, "streams": True, "config": True, "limit": ACCOUNTS_MAX}


async def look_at_cluster(calls: AsyncApiClient) -> ClusterView:
    """The cluster as the user may see it. Raises CommandFailed."""
    answers = await ask_servers(calls, EVERYTHING)
    if answers is not None:
        return view_of_system(answers)
    info = calls.session.client.server_info
    listed = await calls.streams()
    return view_of_account(info, listed.infos, listed.missing)


async def look_at_servers(calls: AsyncApiClient) -> ClusterView:
    """The servers and their group, without streams. Raises CommandFailed for other users."""
    answers = await ask_servers(calls, {})
    if answers is None:
        raise not_of_system()
    return view_of_system(answers)


def not_of_system() -> CommandFailed:
    """The failure of a command that a user of another account may not give."""
    return CommandFailed(
        "Only users of the system account may do this",
        "Connect as one of them: --user and --password, or --creds.",
    )


async def ask_servers(calls: AsyncApiClient, options: dict[str, Any]) -> list[Document] | None:
    """The answers of all servers to JSZ; None if the user is not of the system account."""
    client = calls.session.client
    # The server tells of the account behind its first PONG. A request of another account's user
    # would be a permissions violation for some of them.
    await calls.session.flush()
    if client.server_info.get("connect_info") and not client.server_info.get("acc_is_sys"):
        return None
    inbox = client.new_inbox()
    replies = await client.subscribe(inbox)
    await client.publish(JSZ_OF_ALL, json.dumps(options).encode(), reply=inbox)
    answers: list[Document] = []
    end = time.monotonic() + calls.timeout_s
    while len(answers) < min(expected_count(answers), ANSWERS_MAX):
        left_s = end - time.monotonic()
        wait_s = min(quiet_s(answers), left_s) if answers else left_s
        received = asyncio.ensure_future(replies.next_msg(max(wait_s, 0.001)))
        try:
            reply = await calls.session.until(received)
        except nats.errors.TimeoutError:
            break
        finally:
            received.cancel()
        if (reply.headers or {}).get("Status") == STATUS_NO_RESPONDERS:
            return None
        try:
            answers.append(decode_object(reply.data))
        except PeerError as error:
            raise CommandFailed("The answer of a server is not a JSON object") from error
    await replies.unsubscribe()
    if not answers:
        raise NoAnswer(
            f"No server answers to {JSZ_OF_ALL} within {duration_text(calls.timeout_s)}",
            "Allow more time with --timeout.",
        )
    return answers


def quiet_s(answers: list[Document]) -> float:
    """The longest silence before the next answer."""
    return QUIET_S if expected_count(answers) == ANSWERS_MAX else KNOWN_SERVER_QUIET_S


def expected_count(answers: list[Document]) -> int:
    """The number of answers to wait for: that of the servers which the answers know of.

    A server without JetStream knows of no others, so that only silence is the end then.
    """
    sizes = [
        int(((each.get("data") or {}).get("meta_cluster") or {}).get("cluster_size") or 0)
        for each in answers
    ]
    return max(sizes, default=0) or ANSWERS_MAX
