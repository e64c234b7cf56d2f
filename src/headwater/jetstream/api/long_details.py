"""Parts of a reply that may be long: written some at a time, before the rest of the reply.

A page of STREAM.INFO tells of 100,000 subjects, and of a million deleted messages. To write them as
JSON takes some tens of milliseconds, in which nobody else would be served. So would a list of 256
streams or consumers whose configurations are as large as they may be. Written in parts they are
pieces of text that the reply takes over as they are.
"""

from collections.abc import Iterable
from itertools import islice
from typing import Final

import msgspec

from headwater.base.sliced import Work
from headwater.go.json import escaped, write

# So many numbers are written in one step, and what that costs in units of work.
NUMBERS_AT_A_TIME: Final = 8192
NUMBERS_PER_UNIT: Final = 16
NAMES_PER_UNIT: Final = 4
# A document costs something however short it is.
DOCUMENT_UNITS: Final = 32
DOCUMENT_BYTES_PER_UNIT: Final = 64

# Text of a reply that is written already.
Written = msgspec.Raw


def writing_counts(parts: list[dict[str, int]]) -> Work[Written]:
    """One object of all the parts, which are emptied: a number for each name, in order."""
    texts: list[bytes] = []
    for part in parts:
        if part:
            texts.append(escaped(msgspec.json.encode(part))[1:-1])
            yield 1 + len(part) // NAMES_PER_UNIT
            # Given back one by one: 100,000 texts at once take a while.
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
    """Each of the documents, which may be made as they are asked for."""
    texts: list[Written] = []
    for document in documents:
        text = write(document)
        texts.append(Written(text))
        yield DOCUMENT_UNITS + len(text) // DOCUMENT_BYTES_PER_UNIT
    return texts
