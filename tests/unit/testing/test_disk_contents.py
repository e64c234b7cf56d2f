"""The bookkeeping of unsynced bytes costs what was changed, not what there is."""

import random

from headwater.testing.disk_contents import IMAGES_MAX, Contents, noise, zeros

PAGE_BYTES = 16


def synced(data: bytes) -> Contents:
    contents = Contents(PAGE_BYTES)
    contents.append(data)
    contents.sync()
    return contents


def outcomes(contents: Contents, seeds: int = 300) -> set[bytes]:
    found = set()
    for seed in range(seeds):
        twin = contents.clone()
        twin.keep_some(random.Random(seed), zeros)
        found.add(twin.read(0, twin.size))
    return found


def test_appending_keeps_no_images() -> None:
    contents = synced(b"")
    for _ in range(1000):
        contents.append(b"0123456789")
    assert contents._images == {}
    assert not contents.is_settled
    contents.sync()
    assert contents.is_settled


def test_a_page_written_over_and_over_keeps_few_states_and_the_first() -> None:
    contents = synced(b"0")
    for number in range(1000):
        contents.overwrite(0, b"%d" % (1 + number % 9))
    assert len(contents._images[0]) == IMAGES_MAX
    assert contents._images[0][0] == b"0"
    found = outcomes(contents)
    assert {b"0", b"1"} < found <= {b"%d" % digit for digit in range(10)}


def test_cutting_and_growing_over_and_over_keeps_few_stretches() -> None:
    contents = synced(b"x" * 100)
    for size in range(99, 0, -1):
        contents.truncate(size)
        contents.append(b"y")
        contents.truncate(size)
    assert len(contents._past_sizes) == 1
    contents.truncate(0)
    contents.sync()
    assert contents._past_sizes == []
    assert contents._images == {}


def test_cutting_to_the_same_size_is_no_change() -> None:
    contents = synced(b"data")
    contents.truncate(4)
    assert contents.is_settled


def test_a_page_given_up_and_then_cut_off_does_not_come_back() -> None:
    contents = synced(b"")
    contents.append(b"x" * 2 * PAGE_BYTES)
    contents.fail_sync()
    contents.truncate(0)
    contents.sync()
    assert contents.is_settled
    contents.append(b"y" * 2 * PAGE_BYTES)
    assert not any(b"x" in outcome for outcome in outcomes(contents))


def test_the_rest_of_a_page_that_was_synced_in_part_is_never_noise() -> None:
    contents = synced(b"x")
    contents.append(b"y" * (PAGE_BYTES - 1))
    for seed in range(100):
        twin = contents.clone()
        twin.keep_some(random.Random(seed), noise)
        assert set(twin.read(1, PAGE_BYTES)) <= {0, ord("y")}


def test_a_clone_knows_what_was_given_up() -> None:
    contents = synced(b"")
    contents.append(b"x")
    contents.fail_sync()
    twin = contents.clone()
    twin.sync()
    twin.keep_synced()
    assert twin.read(0, 9) == b"\0"


def test_clones_share_their_bytes_until_one_changes() -> None:
    contents = synced(b"data")
    twin = contents.clone()
    assert twin._data is contents._data
    twin.append(b"!")
    contents.overwrite(0, b"D")
    assert (contents.read(0, 9), twin.read(0, 9)) == (b"Data", b"data!")


def test_a_file_with_nothing_unsynced_stays_shared_through_a_power_loss() -> None:
    contents = synced(b"data")
    twin = contents.clone()
    assert twin.is_settled
    twin.keep_written()
    assert twin._data is contents._data


def test_what_was_decided_is_said() -> None:
    contents = synced(b"x" * PAGE_BYTES)
    contents.append(b"y" * 40 * PAGE_BYTES)
    said = set()
    for seed in range(60):
        twin = contents.clone()
        text = twin.keep_some(random.Random(seed), zeros)
        assert text.endswith(f": {twin.size} of {41 * PAGE_BYTES} bytes")
        assert len(text) < 400
        said.add(text.partition(":")[0].partition(" (")[0])
    assert said == {"as synced", "as written", "cut short", "page by page"}
