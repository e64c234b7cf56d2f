"""$SYS.REQ.USER.INFO: the server's answer to a user about its own login, in any account."""

import json
from typing import Any

from tests.interop.case import Catalogue
from tests.interop.masks import is_count, is_server_id, is_timestamp, is_version
from tests.interop.observation import Mask, Observation
from tests.interop.session import Session
from tests.kit.server_process import Setup
from tests.kit.wire_client import WireClient

USERS = Setup(
    """
accounts {
  A { users: [
    { user: ann, password: x }
    { user: art, password: x, permissions {
      publish { allow: ["a.>", "$SYS.REQ.USER.INFO"], deny: "a.b" }
      subscribe: ["c", "_INBOX.>"], allow_responses { max: 3, expires: "4s" } } }
  ] }
  $SYS { users: [ { user: admin, password: x } ] }
}
"""
)

SERVER = (
    Mask("payload.server.id", is_server_id, "every server draws its own key"),
    Mask("payload.server.ver", is_version, "the last digit is a build's own"),
    Mask("payload.server.seq", is_count, "counts what the server itself has published"),
    Mask("payload.server.time", is_timestamp, "time"),
)

catalogue = Catalogue(USERS)


def ask(client: WireClient) -> dict[str, Any]:
    """The answer: its control line without the size, and its payload as a tree."""
    frames = client.exchange("SUB _INBOX.me 1\r\nPUB $SYS.REQ.USER.INFO _INBOX.me 0\r\n\r\n")
    if not frames:
        frames = client.take(1)
    line, _, payload = str(frames[0]).partition("\r\n")
    words = line.split(" ")
    return {"line": words[:-1], "frames": len(frames), "payload": json.loads(payload)}


@catalogue.case("sys.user-info.plain", masks=SERVER)
def plain_user(session: Session) -> Observation:
    """A user without permissions is told its name and account."""
    return ask(session.connect(user="ann", **{"pass": "x"}))


@catalogue.case("sys.user-info.permissions", masks=SERVER)
def user_with_permissions(session: Session) -> Observation:
    """A user with permissions is told them, each list in no order."""
    answer = ask(session.connect(user="art", **{"pass": "x"}))
    for kind in answer["payload"]["data"]["permissions"].values():
        for subjects in kind.values():
            if isinstance(subjects, list):
                subjects.sort()
    return answer


@catalogue.case("sys.user-info.system", masks=SERVER)
def system_user(session: Session) -> Observation:
    """A user of the system account may ask as well."""
    return ask(session.connect(user="admin", **{"pass": "x"}))


@catalogue.case("sys.user-info.nobody", setup=Setup(), masks=SERVER)
def nobody(session: Session) -> Observation:
    """Without authentication there is no name, and the account is `$G`."""
    return ask(session.connect())


@catalogue.case("sys.subjects.no-other-services")
def other_services(session: Session) -> Observation:
    """Subjects of the system account have no responders in another account."""
    client = session.connect(user="ann", no_responders=True, **{"pass": "x"})
    client.exchange("SUB _INBOX.* 1\r\n")
    subjects = ("$SYS.REQ.SERVER.PING", "$SYS.REQ.NOPE", "$SYS.ACCOUNT.A.CONNECT", "$JS.API.INFO")
    return {subject: client.exchange(f"PUB {subject} _INBOX.1 0\r\n\r\n") for subject in subjects}
