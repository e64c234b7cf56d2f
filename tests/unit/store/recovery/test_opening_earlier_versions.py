"""Stores that earlier versions of the program wrote open unchanged, and go on."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest

from headwater.store.disk.format import HEADER_BYTES
from headwater.store.log.message_log import Batch
from headwater.store.store import Store
from headwater.testing.disk import SimDisk
from tests.kit.format_versions import with_version
from tests.kit.logs import add_messages, log_after_kill, new_log, sequences_in
from tests.kit.stores.write_stores import ENCODINGS, MODES, contents_of, open_sample

VERSIONS = ("version_1", "version_2")
STORES = Path(__file__).parents[3] / "kit" / "stores"
SAMPLES = [(version, sample) for version in VERSIONS for sample in ENCODINGS]
each_sample = pytest.mark.parametrize(("version", "sample"), SAMPLES)


def expected_in(version: str, sample: str) -> dict[str, dict[str, Any]]:
    expected = json.loads((STORES / version / "expected.json").read_text())
    found: dict[str, dict[str, Any]] = expected[sample]
    return found


@contextmanager
def opened(folder: Path, sample: str) -> Iterator[Store]:
    store = open_sample(str(folder), sample, "boot 2")
    try:
        yield store
    finally:
        store.abandon()


@pytest.fixture
def folder(tmp_path: Path, version: str, sample: str) -> Path:
    copytree(STORES / version / sample, tmp_path / sample)
    return tmp_path / sample


def append_one(store: Store, name: str) -> int:
    return store.logs[name].append(Batch([b"s.0"], [b""], [b"added"], [5000]))


@each_sample
def test_a_store_of_an_earlier_version_has_all_that_was_in_it(
    folder: Path, version: str, sample: str
) -> None:
    with opened(folder, sample) as store:
        found = {name: contents_of(log) for name, log in sorted(store.logs.items())}
        assert found == expected_in(version, sample)
        assert not any(log.offline for log in store.logs.values())


@each_sample
def test_it_goes_on_with_the_next_sequence_and_opens_again(
    folder: Path, version: str, sample: str
) -> None:
    expected = expected_in(version, sample)
    with opened(folder, sample) as store:
        for name in MODES:
            assert append_one(store, name) == expected[name]["last_sequence"] + 1
            store.logs[name].delete([18])
        store.close()
    with opened(folder, sample) as store:
        for name, log in store.logs.items():
            kept = [each for each in expected[name]["messages"] if each[0] != 18]
            added = [log.last_sequence, "s.0", "", "added", 5000]
            found = contents_of(log)
            assert found["messages"] == [*kept, added]
            assert found["entries"] == expected[name]["entries"]
            assert found["lost"] == expected[name]["lost"]


@each_sample
def test_its_segments_are_compacted(folder: Path, version: str, sample: str) -> None:
    expected = expected_in(version, sample)
    with opened(folder, sample) as store:
        for name, log in store.logs.items():
            append_one(store, name)
            log.applied_entry = log.applied_entry
            work = log.compactions.begin(log.index.segments[0].first_sequence)
            work.run()
            assert log.compactions.finish(work)
            assert contents_of(log)["messages"][:-1] == expected[name]["messages"]
        store.close()
    with opened(folder, sample) as store:
        for name, log in store.logs.items():
            assert contents_of(log)["messages"][:-1] == expected[name]["messages"]


def test_an_empty_segment_of_version_1_is_replaced_by_the_first_append() -> None:
    disk = SimDisk()
    log = new_log(disk)
    path = log.segments.last.path
    log.release()
    file = disk.open(path)
    header = file.read(0, HEADER_BYTES)
    file.overwrite(0, with_version(header, 1, HEADER_BYTES - 4))
    file.close()
    log = log_after_kill(disk)
    assert log.segments.last.is_outdated
    add_messages(log, 2)
    assert not log.segments.last.is_outdated
    assert sequences_in(log_after_kill(disk)) == [1, 2]
