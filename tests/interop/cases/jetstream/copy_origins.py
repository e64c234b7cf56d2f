"""Origins that are made again, or later than their copies."""

from tests.interop.case import Catalogue
from tests.interop.copies import (
    copied,
    new_aggregate,
    new_mirror,
    new_origin,
    origins_told,
    with_origin,
)
from tests.interop.jetstream import JETSTREAM, JetStreamClient, jetstream
from tests.interop.messages import state_in_time
from tests.interop.observation import Observation
from tests.interop.session import Session

catalogue = Catalogue(JETSTREAM)


def _made_again(js: JetStreamClient, name: str, *subjects: str) -> None:
    """Delete a stream, and make another one of that name."""
    js.api(f"STREAM.DELETE.{name}")
    new_origin(js, name, *subjects)


def _settled(js: JetStreamClient, name: str, messages: int) -> None:
    """Wait for as long as the oracle needs to find a stream that was made again."""
    for _ in range(3):
        if state_in_time(js, name, messages=messages)["messages"] == messages:
            return


@catalogue.case("js.source.origin-made-again")
def source_made_again(session: Session) -> Observation:
    """A source that is made again is copied from its beginning."""
    js = with_origin(session, "SRCNEW", "a", "b")
    new_aggregate(js, "SRCNEW-S", "SRCNEW")
    state_in_time(js, "SRCNEW-S", messages=2)
    _made_again(js, "SRCNEW", "c")
    _settled(js, "SRCNEW-S", 3)
    return [copied(js, "SRCNEW-S", messages=3), origins_told(js, "SRCNEW-S")]


@catalogue.case("js.mirror.origin-comes-late")
def origin_comes_late(session: Session) -> Observation:
    """A mirror of an origin that is not there tells an error, and copies it once it is made."""
    js = jetstream(session)
    js.api("STREAM.DELETE.MIRLATE")
    new_mirror(js, "MIRLATE-M", "MIRLATE")
    new_origin(js, "MIRLATE", "a", "b")
    _settled(js, "MIRLATE-M", 2)
    return [copied(js, "MIRLATE-M", messages=2), origins_told(js, "MIRLATE-M")]
