"""Files under a key, and compressed files: their bytes on the disk, and the keys to open them."""

import pytest

from headwater.base.errors import OperatingError
from headwater.server.configuration.options import Options, StoreCipher
from headwater.testing.disk import SimDisk
from tests.kit.stored_world import FOLDER, StoredWorld, streaming

SECRET_TEXT = b"attack at dawn"


def keyed(key: str, previous: str = "", cipher: StoreCipher = StoreCipher.CHACHA) -> Options:
    return Options(
        jetstream=streaming(encryption_key=key, previous_encryption_key=previous, cipher=cipher)
    )


def filled(options: Options) -> StoredWorld:
    """A server with one stream of one message."""
    world = StoredWorld(options).start()
    world.create("ORDERS")
    world.modern().ask(b"PUB orders %d\r\n%b\r\n" % (len(SECRET_TEXT), SECRET_TEXT))
    return world


def message(world: StoredWorld) -> str:
    reply = world.request("$JS.API.STREAM.MSG.GET.ORDERS", {"seq": 1})
    return str(reply["message"]["data"])


def bytes_on(disk: SimDisk) -> bytes:
    return b"".join(disk.dump().values())


@pytest.mark.parametrize("cipher", list(StoreCipher))
def test_nothing_readable_is_on_the_disk(cipher: StoreCipher) -> None:
    world = filled(keyed("k", cipher=cipher))
    world.node.close_jetstream()
    assert SECRET_TEXT not in bytes_on(world.disk)
    assert b"ORDERS" not in bytes_on(world.disk)


def test_without_a_key_it_is() -> None:
    world = filled(Options(jetstream=streaming()))
    world.node.close_jetstream()
    assert SECRET_TEXT in bytes_on(world.disk)


def test_the_key_opens_it_again() -> None:
    world = filled(keyed("k"))
    before = message(world)
    assert message(world.after_restart().start()) == before


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (keyed("other"), "encryption key does not open"),
        (keyed("other", "wrong too"), "encryption key and the previous key do not open"),
        (Options(jetstream=streaming()), "is encrypted: set the key it was made with"),
    ],
)
def test_a_wrong_key_refuses_to_start_and_touches_nothing(options: Options, reason: str) -> None:
    after = filled(keyed("k")).after_restart(options)
    before = after.disk.dump()
    with pytest.raises(OperatingError, match=reason):
        after.start()
    assert after.disk.dump() == before


def test_a_previous_key_is_replaced_by_the_new_one() -> None:
    world = filled(keyed("old"))
    before = message(world)
    rotated = world.after_restart(keyed("new", "old", StoreCipher.AES)).start()
    assert message(rotated) == before
    assert message(rotated.after_restart(keyed("new")).start()) == before
    with pytest.raises(OperatingError, match="does not open"):
        rotated.after_restart(keyed("old")).start()


def test_what_was_there_before_the_key_stays_readable_and_is_warned_about() -> None:
    world = filled(Options(jetstream=streaming()))
    before = message(world)
    after = world.after_restart(keyed("k")).start()
    assert message(after) == before
    assert any("made without a key and stays unencrypted" in line for line in after.log_lines)


def segment_bytes(world: StoredWorld) -> int:
    """The bytes that the messages of a stream take on the disk."""
    files = world.disk.dump()
    return sum(len(data) for path, data in files.items() if "segment-" in path)


def publish(world: StoredWorld) -> None:
    world.modern().ask(b"PUB orders 4000\r\n%b\r\n" % (b"a" * 4000))


def test_a_stream_is_compressed_where_it_asks_for_it() -> None:
    sizes = {}
    for compression in ("none", "s2"):
        world = StoredWorld().start()
        world.create("ORDERS", compression=compression)
        publish(world)
        sizes[compression] = segment_bytes(world)
        before = message(world)
        assert message(world.after_restart().start()) == before
    assert sizes["s2"] < sizes["none"] / 4


def test_compressed_and_encrypted_go_together() -> None:
    world = StoredWorld(keyed("k")).start()
    world.create("ORDERS", compression="s2")
    publish(world)
    assert b"aaaa" not in bytes_on(world.disk)
    assert segment_bytes(world) < 1000
    before = message(world)
    assert message(world.after_restart().start()) == before


def test_the_folder_is_where_it_is_without_a_key() -> None:
    world = filled(keyed("k"))
    assert world.disk.exists(f"{FOLDER}/key.hw")
