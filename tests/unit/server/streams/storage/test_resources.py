"""The resources that JetStream takes of the machine, and the reasons not to start."""

import errno
from typing import Any

import pytest

from headwater.base.errors import OperatingError
from headwater.jetstream.account import AccountLimits
from headwater.server.configuration.options import (
    AccountOptions,
    JetStreamOptions,
    Options,
    StoreCipher,
)
from headwater.server.streams.storage.resources import (
    ResourceError,
    Resources,
    banner,
    friendly_bytes,
    resources_of,
)
from headwater.testing.disk import SimDisk
from tests.kit.monitored_world import MEMORY_BYTES
from tests.kit.stored_world import FOLDER, STORE, StoredWorld, streaming

CAPACITY_BYTES = 1 << 20


def resources(disk: SimDisk | None = None, **settings: Any) -> Resources:
    world = StoredWorld(disk=disk)
    return resources_of(JetStreamOptions(enabled=True, **settings), world.node.environment)


class TestWhatIsLeftOpen:
    def test_is_three_quarters_of_memory_and_free_disk(self) -> None:
        chosen = resources(SimDisk(capacity_bytes=CAPACITY_BYTES), store_dir=STORE)
        assert chosen.max_memory_bytes == MEMORY_BYTES // 4 * 3
        assert chosen.max_storage_bytes == CAPACITY_BYTES // 4 * 3
        assert chosen.is_dynamic

    def test_zero_is_none_and_not_open(self) -> None:
        chosen = resources(store_dir=STORE, max_memory_bytes=0, max_file_bytes=0)
        assert (chosen.max_memory_bytes, chosen.max_storage_bytes) == (0, 0)

    @pytest.mark.parametrize(
        ("settings", "folder"),
        [
            ({}, "/temporary/headwater/jetstream"),
            ({"max_memory_bytes": 1, "max_file_bytes": 1}, "/temporary/headwater/jetstream"),
            ({"store_dir": "/a/../b/"}, "/b/jetstream"),
        ],
    )
    def test_the_folder_is_the_one_that_was_named_or_our_own(
        self, settings: dict[str, Any], folder: str
    ) -> None:
        chosen = resources(**settings)
        assert chosen.folder == folder
        assert chosen.is_temporary == ("store_dir" not in settings)

    def test_a_temporary_folder_is_warned_about(self) -> None:
        world = StoredWorld(Options(jetstream=JetStreamOptions(enabled=True))).start()
        assert any("Temporary storage directory used" in line for line in world.log_lines)


class TestAFolder:
    def test_that_is_a_file_is_refused(self) -> None:
        disk = SimDisk()
        disk.create(STORE).close()
        with pytest.raises(ResourceError, match=r"^storage directory is not a directory$"):
            resources(disk, store_dir=STORE)

    def test_that_can_not_be_made_is_named(self) -> None:
        disk = SimDisk()
        disk.fail("make_folder", "*", code=errno.EACCES, times=None)
        with pytest.raises(
            ResourceError, match=r"could not create storage directory - mkdir .*: permission denied"
        ):
            resources(disk, store_dir=STORE)

    def test_that_can_not_be_written_to_is_named(self) -> None:
        disk = SimDisk()
        disk.make_folder(FOLDER)
        disk.fail("create", "*", code=errno.EROFS, times=None)
        with pytest.raises(
            ResourceError, match=f"storage directory is not writable: {FOLDER}: read-only"
        ):
            resources(disk, store_dir=STORE)

    def test_is_left_as_it_was_found(self) -> None:
        disk = SimDisk()
        disk.make_folder(FOLDER)
        resources(disk, store_dir=STORE)
        assert disk.list_folder(FOLDER) == []

    def test_of_another_server_is_refused(self) -> None:
        first = StoredWorld().start()
        with pytest.raises(OperatingError, match=f"{FOLDER} is in use by another server"):
            StoredWorld(disk=first.disk).start()

    def test_on_a_full_disk_is_refused(self) -> None:
        disk = SimDisk(capacity_bytes=0)
        with pytest.raises(OperatingError, match=f"{FOLDER} cannot be written: .*No space left"):
            StoredWorld(disk=disk).start()
        disk.capacity_bytes = None
        StoredWorld(disk=disk).start()

    def test_with_streams_of_nats_server_is_warned_about_and_not_touched(self) -> None:
        disk = SimDisk()
        disk.make_folder(f"{FOLDER}/$G/streams/ORDERS/msgs")
        disk.create(f"{FOLDER}/$G/streams/ORDERS/meta.inf").close()
        world = StoredWorld(disk=disk).start()
        assert any("a nats-server left for $G" in line for line in world.log_lines)
        assert disk.exists(f"{FOLDER}/$G/streams/ORDERS/meta.inf")


def test_a_full_disk_leaves_streams_that_can_be_read() -> None:
    world = StoredWorld().start()
    world.create("ORDERS")
    world.modern().ask(b"PUB orders 1\r\nx\r\n")
    after = world.after_restart()
    after.disk.fail("create", "*store.hw*", code=errno.ENOSPC, times=None)
    after.start()
    assert any("streams can be read only" in line for line in after.log_lines)
    assert after.request("$JS.API.STREAM.INFO.ORDERS")["state"]["messages"] == 1
    assert after.health(js_enabled_only=True).error.startswith("JetStream can not write: ")


class TestAccounts:
    def test_share_one_server_only_as_far_as_it_goes(self) -> None:
        accounts = (
            AccountOptions("A", jetstream=AccountLimits(max_storage=600)),
            AccountOptions("B", jetstream=AccountLimits(max_storage=600)),
        )
        options = Options(jetstream=streaming(max_file_bytes=1000), accounts=accounts)
        with pytest.raises(ResourceError, match=r"insufficient storage resources available"):
            StoredWorld(options).start()

    def test_of_which_none_was_given_streams_have_none(self) -> None:
        options = Options(jetstream=streaming(), accounts=(AccountOptions("A"),))
        world = StoredWorld(options).start()
        assert world.node.jetstream is not None
        assert not world.node.jetstream.accounts

    def test_besides_the_system_account_there_is_the_global_one(self) -> None:
        options = Options(
            jetstream=streaming(), accounts=(AccountOptions("S"),), system_account="S"
        )
        world = StoredWorld(options).start()
        assert world.node.jetstream is not None
        assert list(world.node.jetstream.accounts) == ["$G"]


class TestTheLog:
    def test_says_what_programs_look_for(self) -> None:
        world = StoredWorld().start()
        assert f'[7] [INF]   Store Directory: "{FOLDER}"\n' in world.log_lines

    def test_names_domain_and_cipher(self) -> None:
        options = streaming(domain="hub", encryption_key="k", cipher=StoreCipher.AES)
        lines = banner(options, Resources(FOLDER, 0, 0))
        assert "  Domain:          hub" in lines
        assert "  Encryption:      AES-GCM" in lines

    def test_never_has_the_key(self) -> None:
        options = streaming(encryption_key="tops3cret", previous_encryption_key="older")
        assert "tops3cret" not in repr(options)
        assert "older" not in repr(options)

    @pytest.mark.parametrize(
        ("size", "text"),
        [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.00 KB"),
            (1536, "1.50 KB"),
            (1 << 20, "1.00 MB"),
            ((1 << 30) - 1, "1024.00 MB"),
            (1 << 60, "1.00 EB"),
        ],
    )
    def test_has_sizes_for_people(self, size: int, text: str) -> None:
        assert friendly_bytes(size) == text
