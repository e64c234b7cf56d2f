"""tests/unit mirrors src/headwater: a unit test is found by the path of the module it is about.

A file tests/unit/<folder>/test_<name>.py belongs to the module src/headwater/<folder>/<module>.py
whose name is `<name>`, or the longest beginning of it before an underscore: test_stream_limits.py
belongs to stream.py, unless there is a stream_limits.py.

`MIRRORS_NOTHING` and `WITHOUT_A_UNIT_TEST` are debts by name. They may only shrink: a new entry
is refused in review, and an entry that is no longer needed fails here.
"""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parent.parent
UNIT: Final = "tests/unit"
PACKAGE: Final = "src/headwater"

# Unit tests of several modules at once.
MIRRORS_NOTHING: Final = frozenset({"spark/jobs/test_paths"})

# Modules by folder that other tests reach: through their callers, a scenario, a simulation, Spark
# or a comparison with nats-server.
WITHOUT_A_UNIT_TEST: Final[Mapping[str, str]] = {
    "base": "checksums clock entropy ids invariants",
    "cli": "commands serve",
    "cli/api": "advice client command configuring",
    "cli/connection": "failures options session target",
    "cli/consumers": "commands render",
    "cli/messaging": "messages render",
    "cli/pipeline": "checks commands demo file_commands jobs options render union",
    "cli/server": "account",
    "cli/shell": (
        "confirm output parameters pipe_reader progress sections settings settings_options "
        "tables templates units versions"
    ),
    "cli/store": "opening read_only_files",
    "cli/streams": "archive commands render transfer",
    "client/link": "api errors option_files pipelined server_urls tls",
    "client/link/reads": "ranges sizes temporary_consumers",
    "go": "json_syntax",
    "jetstream": "account advisories error_codes header_names records server_room",
    "jetstream/api": "consumer_documents documents keepers operation stream_identity streams",
    "jetstream/backup": (
        "archive archive_form blocks consumer_document consumer_files cursor documents errors "
        "filling form tar"
    ),
    "jetstream/config": "api_level consumer_defaults",
    "jetstream/config/consumer_checks": "address delivery",
    "jetstream/config/stream_checks": "sources subjects",
    "jetstream/consumers": "advisories effects records",
    "jetstream/streams": "removal republish view",
    "jetstream/streams/publishing": "admission batch_limits incoming",
    "jetstream/streams/schedules": "scheduling",
    "runtime": "environment file_watch loop_thread loops real scratch time_zones",
    "server": "lifecycle main",
    "server/cluster": "channel remote_interest",
    "server/cluster/assignment": "answers group_members",
    "server/cluster/consensus": "leaders machine",
    "server/configuration": "jetstream_section lexer reading",
    "server/connections": "closing",
    "server/core": "counters",
    "server/monitoring": "facts",
    "server/monitoring/pages": "absent accountz connz healthz index_page query subsz varz",
    "server/streams": "advisories facts hosted_streams requests routing",
    "server/streams/backups": "restores snapshots staging transfers",
    "server/system": "events",
    "spark": "buckets catalog_tables datasource demo objects rows session",
    "spark/jobs": "progress reading",
    "spark/jobs/archive": "compaction opening query reader settings sink spark_checkpoint",
    "spark/jobs/archive/files": "delta_log durable_files parquet_files",
    "spark/jobs/replay": "job lane marker",
    "spark/jobs/stats": "figures job",
    "spark/jobs/table": "catch_up delta_table history job latest",
    "spark/read": "batches pushdown source stream_source streams_source unplanned_source",
    "spark/write": "sink tail",
    "store": "errors",
    "store/disk": "disposal filesystem room store_file unfinished wal",
    "store/index": (
        "block_counts filter_cursor index_snapshot sorted_page subject_filter subject_order "
        "subject_table walks"
    ),
    "store/log": "memory_log recovered",
    "store/recovery": "cuts inspection stream_inspection",
    "store/upkeep": "checkpoint_writing log_check log_sync",
    "testing": "clock disk_faults disk_folders entropy pytest_plugin tcp trace",
    "testing/checkers": "delivery",
    "wire/credentials": "creds",
}


def module_of(test: PurePosixPath, modules: Iterable[PurePosixPath]) -> PurePosixPath | None:
    """The module that a unit test is about; both without suffix, from their roots on."""
    name = test.name.removeprefix("test_")
    found = [
        module
        for module in modules
        if module.parent == test.parent and f"{name}_".startswith(f"{module.name}_")
    ]
    return max(found, key=lambda module: len(module.name), default=None)


def strays(tests: Iterable[str], modules: Iterable[str]) -> set[str]:
    """Unit tests that are about no module of their folder."""
    known = [PurePosixPath(module) for module in modules]
    return {test for test in tests if module_of(PurePosixPath(test), known) is None}


def untested(tests: Iterable[str], modules: Iterable[str]) -> set[str]:
    """Modules that no unit test is named after."""
    known = [PurePosixPath(module) for module in modules]
    return {*map(str, known)} - {str(module_of(PurePosixPath(test), known)) for test in tests}


def changes(found: set[str], allowed: set[str] | frozenset[str]) -> list[str]:
    """Entries that a list of debts lacks, and those it need not have."""
    return [
        *(f"{name}: new" for name in sorted(found - allowed)),
        *(f"{name}: remove it from the list" for name in sorted(allowed - found)),
    ]


def paths_below(folder: str, pattern: str) -> list[str]:
    """Python files below a folder, without suffix and the folder's own path."""
    root = ROOT / folder
    files = (path.relative_to(root).with_suffix("") for path in root.rglob("*.py"))
    return [path.as_posix() for path in files if re.fullmatch(pattern, path.name)]


TESTS: Final = paths_below(UNIT, r"test_.*")
MODULES: Final = paths_below(PACKAGE, r"(?!__).*")


def test_every_unit_test_is_named_after_a_module_of_its_folder() -> None:
    assert changes(strays(TESTS, MODULES), MIRRORS_NOTHING) == []


def test_modules_without_a_unit_test_become_fewer() -> None:
    listed = {
        f"{folder}/{name}"
        for folder, names in WITHOUT_A_UNIT_TEST.items()
        for name in names.split()
    }
    assert changes(untested(TESTS, MODULES), listed) == []


@pytest.mark.parametrize(
    ("test", "module"),
    [
        ("wire/test_decoder", "wire/decoder"),
        ("wire/test_decoder_limits", "wire/decoder"),
        ("wire/test_decoder_runs", "wire/decoder_runs"),
        ("wire/test_decoders", None),
        ("test_decoder", None),
        ("store/test_decoder", None),
    ],
)
def test_a_unit_test_belongs_to_the_longest_name_in_its_folder(
    test: str, module: str | None
) -> None:
    modules = [PurePosixPath(name) for name in ("wire/decoder", "wire/decoder_runs", "wire/batch")]
    found = module_of(PurePosixPath(test), modules)
    assert (None if found is None else str(found)) == module


def test_a_test_out_of_place_and_a_module_without_one_are_found() -> None:
    tests, modules = ["wire/test_decoder", "test_batch"], ["wire/decoder", "wire/batch"]
    assert strays(tests, modules) == {"test_batch"}
    assert untested(tests, modules) == {"wire/batch"}


def test_a_debt_that_is_new_or_paid_is_found() -> None:
    assert changes({"a"}, {"b"}) == ["a: new", "b: remove it from the list"]
