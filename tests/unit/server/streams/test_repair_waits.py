"""A read waits for a message that is being repaired, and not for ever."""

import pytest

from headwater.jetstream import error_codes
from headwater.jetstream.api.documents import ErrorDocument, MessageGetResponse, Response
from headwater.jetstream.errors import ApiError, ErrorCode
from headwater.server.streams.repair_waits import LOOK_S, LOOKS_MAX, AwaitedRead, ReplyTo
from tests.kit.world import ManualClock, ManualScheduler


def refused(code: ErrorCode) -> MessageGetResponse:
    return MessageGetResponse(error=ErrorDocument.of(ApiError.of(code)))


DAMAGED = refused(error_codes.CLUSTER_NOT_AVAIL)
FOUND = MessageGetResponse()
MISSING = refused(error_codes.NO_MESSAGE_FOUND)


@pytest.mark.parametrize(
    ("answers", "reads"),
    [
        ([FOUND], 1),
        ([MISSING], 1),
        ([DAMAGED, DAMAGED, FOUND], 3),
        ([DAMAGED, MISSING], 2),
        ([DAMAGED] * (LOOKS_MAX + 9), LOOKS_MAX + 1),
    ],
)
def test_a_read_is_made_again_while_its_message_is_damaged(
    answers: list[MessageGetResponse], reads: int
) -> None:
    clock = ManualClock()
    scheduler = ManualScheduler(clock)
    replies: list[Response | None] = []
    made = 0

    def begin(reply_to: ReplyTo) -> None:
        nonlocal made
        made += 1
        reply_to(answers[made - 1], True)

    AwaitedRead(scheduler, begin, lambda response, _: replies.append(response)).read()
    for _ in range(LOOKS_MAX + 9):
        scheduler.advance(LOOK_S)
    assert made == reads
    assert replies == [answers[reads - 1]]
