"""Sentences in docstrings and comments name their subject.

A sentence that begins with a relative clause ("What was read is given back") has to be solved
before it can be understood: the reader looks for the noun. The rule is mechanical and catches the
beginnings only. CONTRIBUTING.md shows sentences before and after.
"""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parent.parent

NAMELESS_BEGINNING: Final = re.compile(
    r"(?:What|Who|Whoever|Whose|Whom|Where|How|The same|One that|Those that|Such)\b"
)
NAMELESS_PHRASE: Final = re.compile(
    r"\bthat (?:is|are) none\b|\bwhich is none\b|\bwhoever\b|\b(?:for|of|to) who\b|\bcan not\b",
    re.IGNORECASE,
)
# A sentence ends before a capital letter; a colon and a semicolon begin another clause.
SENTENCE_END: Final = re.compile(r"(?<=[.!?:;])\s+(?=[A-Z])")
QUOTED: Final = re.compile(r"`[^`]*`|\"[^\"]*\"")


def docstrings(source: str) -> Iterator[tuple[int, str]]:
    """Every docstring with its line, also those below the fields of a class."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))):
                yield node.lineno, text


def comments(source: str) -> Iterator[tuple[int, str]]:
    """Every comment with its line; comments on neighbouring lines are one text."""
    begin, lines = 0, [""]
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT:
            continue
        line, text = token.start[0], token.string.lstrip("#").strip()
        if line == begin + len(lines):
            lines.append(text)
            continue
        yield begin, " ".join(lines)
        begin, lines = line, [text]
    yield begin, " ".join(lines)


def sentences(text: str) -> Iterator[str]:
    """The sentences of a text, with quoted names and texts taken out."""
    for paragraph in re.split(r"\n\s*\n", QUOTED.sub("X", text)):
        yield from SENTENCE_END.split(" ".join(paragraph.split()))


def nameless(source: str) -> Iterator[str]:
    """Sentences whose subject has no name, each with its line."""
    for line, text in (*docstrings(source), *comments(source)):
        for sentence in sentences(text):
            if NAMELESS_BEGINNING.match(sentence) or NAMELESS_PHRASE.search(sentence):
                yield f"line {line}: {sentence}"


def read_files() -> Iterator[Path]:
    """The Python files whose sentences are checked."""
    for folder in ("benchmarks", "src", "tests"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            # This file has examples of such sentences.
            if path != Path(__file__):
                yield path


def test_every_sentence_names_its_subject() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {sentence}"
        for path in read_files()
        for sentence in nameless(path.read_text())
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "source",
    [
        '"""What was read."""',
        'def read() -> None:\n    """Read a block. The same for a journal."""',
        "class Log:\n    size: int\n    " + '"""How much it holds."""',
        "size = 1  # Where it ends",
        "# A name\n# that is none",
        "# Bytes can not be read",
    ],
)
def test_a_sentence_without_a_subject_is_found(source: str) -> None:
    assert len([*nameless(source)]) == 1


@pytest.mark.parametrize(
    "source",
    [
        '"""The bytes that were read."""',
        '"""Whatever the client sends, the server answers."""',
        '"""Raises `What` for an unknown word."""',
        'TEXT = "What was read"',
    ],
)
def test_a_sentence_with_a_subject_is_left_alone(source: str) -> None:
    assert [*nameless(source)] == []
