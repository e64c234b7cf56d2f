"""The guide for people from the Kafka connector names options that there are."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from headwater.spark.options import OptionError, SinkOptions, SourceOptions

GUIDE: Final = Path(__file__).resolve().parents[2] / "docs" / "howto" / "from-kafka.md"
PARSERS: Final = {"Options for reading": SourceOptions, "Options for writing": SinkOptions}
# An option of Spark itself.
SPARKS: Final = "checkpointLocation"


def replacements(section: str) -> list[tuple[str, str]]:
    """The guide names a counterpart for each option of Kafka."""
    text = GUIDE.read_text("utf-8").split(f"## {section}\n")[1].split("\n## ")[0]
    rows = [line.split(" | ") for line in text.splitlines() if line.startswith("| ")]
    found = [
        (row[0].strip("| "), name)
        for row in rows[1:]
        if "column" not in row[1]
        for name in re.findall(r"`(\w+)`", row[1])
    ]
    assert all("`" in row[1] or row[1] == "none" or "column" in row[1] for row in rows[1:])
    return found


@pytest.mark.parametrize("section", PARSERS)
def test_every_option_that_takes_the_place_of_one_of_kafka_is_known(section: str) -> None:
    parser: type[SourceOptions | SinkOptions] = PARSERS[section]
    named = replacements(section)
    assert len(named) >= 8
    for kafka, name in named:
        if name == SPARKS:
            continue
        complaint = refusal(parser, {"stream": "S", name: "x"})
        assert "unknown" not in complaint, f"{name}, in place of {kafka}: {complaint}"


def test_an_option_that_is_not_there_would_be_noticed() -> None:
    assert "unknown" in refusal(SourceOptions, {"stream": "S", "subscribe": "x"})


def refusal(parser: type[SourceOptions | SinkOptions], options: Mapping[str, str]) -> str:
    """The error that refuses the options; an empty text if they are accepted."""
    try:
        parser.parse(options)
    except OptionError as error:
        return str(error)
    return ""
