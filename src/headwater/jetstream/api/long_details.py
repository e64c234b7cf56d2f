"""Long parts of a reply: written some at a time, before the rest of the reply.

A page of STREAM.INFO has up to 100,000 subjects, and a million deleted messages. Writing them as
JSON takes some tens of milliseconds, in which no other client would be served. So does a list of
all 256 streams or consumers of a page with the largest possible configurations. Written in parts
they are pieces of text that the reply includes as they are.
"""

from collections.abc import Iterable
from itertools import islice
from typing import Final

import msgspec

from headwater.base.sliced import Work
from headwater.go.json import escaped, write

# The numbers that one step writes, and their cost in units of work.
NUMBERS_AT_A_TIME: Final = 8192
NUMBERS_PER_UNIT: Final = 16
NAMES_PER_UNIT: Final = 4
# A document has a cost however short it is.
DOCUMENT_UNITS: Final = 32
DOCUMENT_BYTES_PER_UNIT: Final = 64

# Text that is part of a reply.
Written = msgspec.Raw


def writing_counts(parts: list[dict[str, int]]) -> Work[Written]:
    """One object of all the parts, which are emptied: a number for each name, in order."""
    texts: list[bytes] = []
    for part in parts:
        if part:
            texts.append(escaped(msgspec.json.encode(part))[1:-1])
            yield 1 + len(part) // NAMES_PER_UNIT
            # Emptied one by one: freeing 100,000 texts at once takes a while.
            part.clear()
    return Written(b"{%b}" % b",".join(texts))


def writing_numbers(numbers: list[int]) -> Work[Written]:
    """One list of all the numbers."""
    texts: list[bytes] = []
    rest = iter(numbers)
    while part := list(islice(rest, NUMBERS_AT_A_TIME)):
        texts.append(msgspec.json.encode(part)[1:-1])
        yield 1 + len(part) // NUMBERS_PER_UNIT
    return Written(b"[%b]" % b",".join(texts))


def writing_documents(documents: Iterable[msgspec.Struct]) -> Work[list[Written]]:
    """The text of each document; the iterable may make the documents on demand."""
    texts: list[Written] = []
    for document in documents:
        text = write(document)
        texts.append(Written(text))
        yield DOCUMENT_UNITS + len(text) // DOCUMENT_BYTES_PER_UNIT
    return texts
