"""The how-to guides about Spark: their commands parse, and all options and columns are named."""

import dataclasses
import re
import shlex
from pathlib import Path
from typing import Final

import pytest

from headwater.cli.pipeline.group import pipeline
from headwater.client.link.login import Login
from headwater.spark.jobs.pipeline_file import KINDS, SparkSettings, parse_pipeline
from headwater.spark.options import OptionError, SinkOptions, SourceOptions
from headwater.spark.schema import COLUMNS

HOWTO: Final = Path(__file__).resolve().parents[2] / "docs" / "howto"
PIPELINE: Final = (HOWTO / "pipeline.md").read_text("utf-8")
SPARK: Final = (HOWTO / "spark.md").read_text("utf-8")


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def commands() -> list[str]:
    """The commands behind the prompts of the guide, without their remarks."""
    lines = "\n".join(blocks(PIPELINE, "console")).splitlines()
    return [line[2:].partition("  #")[0] for line in lines if line.startswith("$ ")]


def named(text: str) -> set[str]:
    """The words of a text that are set as code."""
    return {word for code in re.findall(r"`([^`\n]+)`", text) for word in re.split(r"[\s,]+", code)}


def known_options(parser: type[SourceOptions] | type[SinkOptions]) -> set[str]:
    """The options that the error for an unknown option lists."""
    with pytest.raises(OptionError) as caught:
        parser.parse({"0": ""})
    return set(str(caught.value).partition("known are ")[2].split(", "))


@pytest.mark.parametrize("line", commands())
def test_a_command_of_the_guide_parses(line: str) -> None:
    words = shlex.split(line)
    assert words[:2] == ["headwater", "pipeline"]
    pipeline.commands[words[2]].make_context(words[2], words[3:])


def test_the_file_of_the_guide_has_every_kind_of_job() -> None:
    (text,) = blocks(PIPELINE, "toml")
    told = parse_pipeline(text, "pipelines.toml", {"PIPELINE_PASSWORD": "secret"})
    assert {job.kind for job in told.jobs} == set(KINDS)
    assert told.login.password == "secret"


def test_the_keys_of_a_file_are_in_the_guide() -> None:
    keys = {each.name for each in (*dataclasses.fields(Login), *dataclasses.fields(SparkSettings))}
    assert keys - {"conf"} <= named(PIPELINE)


def test_every_option_of_the_format_is_in_the_guide() -> None:
    reading, writing = SPARK.split("## Write\n")
    for_reading, for_writing = known_options(SourceOptions), known_options(SinkOptions)
    assert for_reading <= named(reading)
    assert for_writing - for_reading <= named(writing)


def test_every_column_of_the_tables_is_in_the_guide() -> None:
    types = {f"{name} {kind}" for columns in COLUMNS.values() for name, kind in columns.items()}
    assert types <= set(re.findall(r"`([^`\n]+)`", SPARK))
