"""Messages of an origin as they arrive at a stream that copies them."""

from typing import Any, Final

from headwater.base.clock import NS_PER_S
from headwater.jetstream.config.stream_config import StreamSource
from headwater.jetstream.copying import mirroring, sourcing
from headwater.jetstream.copying.arrivals import Arrivals
from headwater.jetstream.copying.origins import Home, Origin
from headwater.jetstream.proposal import Copying
from headwater.testing.entropy import SeededEntropy, labelled_rng
from tests.kit.stream_driver import StreamDriver

CONSUMER: Final = b"C"
IDENTITY: Final = b"abcdefgh"
ENTROPY: Final = SeededEntropy(labelled_rng(1, "copies"))
# When the first message of an origin was stored.
ORIGIN_NS: Final = 1_700_000_000 * NS_PER_S


def origin_of(is_mirrored: bool, **settings: Any) -> Origin:
    """An origin with the name O, unless the settings name another one."""
    source = StreamSource(**{"name": "O", **settings})
    return Origin(source, Home("S", "$G", ""), is_mirrored)


def arrivals(
    *messages: tuple[int, str, bytes], header: bytes = b"", first_number: int = 1, pending: int = 0
) -> Arrivals:
    """Messages with sequence, subject and body, stored a second apart."""
    found = Arrivals(CONSUMER)
    for number, (sequence, subject, body) in enumerate(messages, first_number):
        found.sequences.append(sequence)
        found.subjects.append(subject.encode())
        found.headers.append(header)
        found.payloads.append(body)
        found.timestamps_ns.append(ORIGIN_NS + sequence * NS_PER_S)
        found.numbers.append(number)
    found.pending = pending
    return found


def mirror(driver: StreamDriver, arrived: Arrivals, **settings: Any) -> Copying:
    """Have a stream mirror messages of its origin."""
    decision = mirroring.decide(driver.stream, origin_of(True, **settings), arrived, ENTROPY)
    driver.propose(decision.proposal)
    return decision


def source(driver: StreamDriver, arrived: Arrivals, **settings: Any) -> Copying:
    """Have a stream source messages of its origin."""
    origin = origin_of(False, **settings)
    decision = sourcing.decide(driver.stream, origin, arrived, IDENTITY, ENTROPY, driver.now_ns)
    driver.propose(decision.proposal)
    return decision
