"""Several requests under way at once, each with one answer.

Only for what may be asked again: if the connection is lost, nothing says which were answered.
"""

from collections.abc import Sequence

from headwater.client.link.connection import Connection, Reply, status_of
from headwater.client.link.errors import TimedOutError
from headwater.wire.frames import publish_frame


def ask_all(connection: Connection, requests: Sequence[tuple[str, bytes]]) -> list[Reply]:
    """The first answer to each request (subject, payload), in the order of the requests.

    Raises TimedOutError if for as long as one request may take there was no further answer.
    """
    inbox = connection.new_inbox().encode()
    sid = connection.subscribe(f"{inbox.decode()}.*")
    places = {b"%b.%d" % (inbox, place): place for place in range(len(requests))}
    answers: dict[int, Reply] = {}
    try:
        connection.send(
            b"".join(
                [
                    publish_frame(subject.encode(), reply, b"", payload)
                    for reply, (subject, payload) in zip(places, requests, strict=True)
                ]
            )
        )
        wait_s = connection.login.request_timeout_s
        while len(answers) < len(requests):
            arrived = connection.receive(wait_s)
            if not len(arrived):
                missing = next(at for at in range(len(requests)) if at not in answers)
                raise TimedOutError(f"no answer from {requests[missing][0]} within {wait_s:g} s")
            for each, to, header, payload in zip(
                arrived.sids, arrived.subjects, arrived.headers, arrived.payloads, strict=True
            ):
                if each == sid:
                    answers.setdefault(places[to], Reply(to, header, payload, status_of(header)))
    finally:
        if connection.is_open:
            connection.unsubscribe(sid)
    return [answers[place] for place in range(len(requests))]
