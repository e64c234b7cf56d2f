"""Each level of consistency has one name, in its page, the API, the command line and Spark."""

import re
from pathlib import Path
from typing import Final

from headwater.cli.streams.settings import SETTINGS
from headwater.client.link.reads.levels import ReadLevel
from headwater.jetstream.config.stream_config import PersistMode, ReadConsistency, WriteConsistency

PAGE: Final = (Path(__file__).resolve().parents[2] / "docs" / "consistency.md").read_text("utf-8")
LEVELS: Final = set(re.findall(r"\*\*(\w+)\*\*", PAGE.partition("## Messages")[0])) - {"level"}


def choices(key: str) -> set[str]:
    (setting,) = (each for each in SETTINGS if each.key == key)
    return set(setting.choices)


def test_the_command_line_has_the_words_of_the_api() -> None:
    assert choices("read_consistency") == {each.value for each in ReadConsistency}
    assert choices("write_consistency") == {each.value for each in WriteConsistency}
    assert choices("persist_mode") == {each.value for each in PersistMode}


def test_every_word_of_the_api_and_of_spark_is_in_the_table() -> None:
    for key, values in (
        ("read_consistency: ", {each.value for each in ReadConsistency} - {"default"}),
        ("write_consistency: ", {each.value for each in WriteConsistency}),
        ("--write-consistency ", {each.value for each in WriteConsistency}),
        ("readConsistency: ", {each.value for each in ReadLevel}),
    ):
        assert set(re.findall(f"`{key}(\\w+)`", PAGE)) == values


def test_what_is_chosen_by_spark_and_by_writes_is_a_level() -> None:
    assert {each.value for each in ReadLevel} <= LEVELS
    assert {each.value for each in WriteConsistency} <= LEVELS


def test_the_tables_about_crashes_name_levels_of_durability() -> None:
    rows = re.findall(r"^\| (\w+) \|", PAGE.partition("## Messages")[2], re.MULTILINE)
    assert set(rows) - {"durability"} == {"interval", "always", "async", "memory"} <= LEVELS
