"""`headwater stream backup` and `restore`: against a real server, and against one that misbehaves.

The other server is this test: it answers under an API prefix of its own.
"""

import asyncio
import io
import json
import signal
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, Final

import nats
import pytest
from nats.aio.msg import Msg

from headwater.cli.commands import run
from headwater.cli.streams.archive import BEGINNINGS, DATA_FILE, META_FILE
from headwater.cli.streams.transfer import RESTORE_CHUNK_BYTES, RESTORE_CHUNKS_IN_FLIGHT_MAX
from tests.kit.command_line import (
    JETSTREAM_SERVERS,
    NUMBERS,
    PATIENCE_S,
    Ended,
    serving,
)
from tests.kit.fake_api import Fake, ended, faking
from tests.kit.terminal import at_terminal

MESSAGES: Final = 300
MESSAGE_BYTES: Final = 1000


@pytest.fixture(scope="module", params=JETSTREAM_SERVERS)
def streams_of(request: pytest.FixtureRequest) -> str:
    """The kind of server that has the streams."""
    return str(request.param)


@pytest.fixture(scope="module")
def jetstream(streams_of: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a server with streams."""
    store = tmp_path_factory.mktemp("store")
    with serving(streams_of, "-js", "-sd", str(store)) as url:
        yield url


@pytest.fixture
def stream(
    jetstream: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Ended]:
    """Run `headwater stream` in this process."""
    monkeypatch.setenv("NATS_URL", jetstream)

    def called(*arguments: object) -> Ended:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO()))
        code = run(["stream", *map(str, arguments)])
        out, err = capsys.readouterr()
        return Ended(code, out, err)

    return called


def api(url: str, *requests: tuple[str, bytes]) -> list[Any]:
    """Send requests, one after the other; their answers."""

    async def ask() -> list[Any]:
        client = await nats.connect(url)
        answers = [await client.request(subject, body, PATIENCE_S) for subject, body in requests]
        await client.close()
        return [json.loads(answer.data) for answer in answers]

    return asyncio.run(ask())


@pytest.fixture
def filled(jetstream: str, stream: Callable[..., Ended]) -> str:
    """A stream of some 300 KB that do not compress well, with a gap and a consumer."""
    name = f"B{next(NUMBERS)}"
    assert stream("add", name, "--subjects", f"{name}.>").code == 0
    messages = [
        (
            f"{name}.{number}",
            bytes((number * place * place) % 251 for place in range(MESSAGE_BYTES)),
        )
        for number in range(1, MESSAGES + 1)
    ]
    durable = {"stream_name": name, "config": {"durable_name": "C", "ack_policy": "explicit"}}
    api(
        jetstream,
        *messages,
        (f"$JS.API.STREAM.MSG.DELETE.{name}", b'{"seq": 7}'),
        (f"$JS.API.CONSUMER.DURABLE.CREATE.{name}.C", json.dumps(durable).encode()),
    )
    return name


def info_of(stream: Callable[..., Ended], name: str) -> dict[str, Any]:
    """The configuration and state of a stream, to be compared."""
    info = json.loads(stream("info", name, "--json", "--deleted", "--subjects").out)
    return {"config": info["config"], "state": info["state"]}


# --- there and back -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sizes", [(), ("--chunk-size", "1KB", "--window-size", "4KB")], ids=["default", "small pieces"]
)
def test_a_restored_stream_is_the_stream_that_was_backed_up(
    stream: Callable[..., Ended],
    filled: str,
    tmp_path: Path,
    sizes: tuple[str, ...],
) -> None:
    before = info_of(stream, filled)
    backed_up = stream("backup", filled, tmp_path, *sizes)
    assert backed_up.code == 0
    assert backed_up.out.startswith(f"Backed up stream {filled}: 299 messages (")
    assert sorted(path.name for path in tmp_path.iterdir()) == [META_FILE, DATA_FILE]
    stream("rm", filled, "--force")
    restored = stream("restore", tmp_path)
    assert (restored.code, restored.err) == (0, "")
    assert restored.out.startswith(f"Restored stream {filled}: 299 messages (")
    assert ", 1 consumer, " in backed_up.out
    assert ", 1 consumer, " in restored.out
    after = info_of(stream, filled)
    assert after == before
    assert after["state"]["consumer_count"] == 1
    assert json.loads(stream("get", filled, "300", "--json").out)["subject"] == f"{filled}.300"


def test_a_backup_is_laid_out_as_the_nats_tool_has_it(
    stream: Callable[..., Ended], filled: str, tmp_path: Path
) -> None:
    outcome = json.loads(stream("backup", filled, tmp_path / "new" / "folder", "--json").out)
    folder = tmp_path / "new" / "folder"
    described = json.loads((folder / META_FILE).read_text())
    archive = (folder / DATA_FILE).read_bytes()
    assert set(described) == {"config", "state", "archive"}
    assert (described["config"]["name"], described["state"]["messages"]) == (filled, 299)
    assert archive.startswith(BEGINNINGS)
    assert outcome["archive_bytes"] == len(archive) == described["archive"]["bytes"]
    assert (outcome["stream"], outcome["messages"]) == (filled, 299)


def test_a_backup_of_the_nats_tool_is_restored(
    stream: Callable[..., Ended], filled: str, tmp_path: Path
) -> None:
    stream("backup", filled, tmp_path)
    described = json.loads((tmp_path / META_FILE).read_text())
    del described["archive"]
    (tmp_path / META_FILE).write_text(json.dumps(described, indent=2))
    stream("rm", filled, "--force")
    outcome = json.loads(stream("restore", tmp_path, "--json").out)
    assert (outcome["stream"], outcome["messages"]) == (filled, 299)


def test_consumers_can_be_left_out(
    stream: Callable[..., Ended], filled: str, tmp_path: Path
) -> None:
    backed_up = stream("backup", filled, tmp_path, "--no-consumers", "--check", "--json")
    stream("rm", filled, "--force")
    restored = stream("restore", tmp_path, "--replicas", "1")
    assert (restored.code, restored.err) == (0, "")
    assert json.loads(backed_up.out)["consumers"] == 0
    assert "1 consumer" not in restored.out
    assert info_of(stream, filled)["state"]["consumer_count"] == 0


def test_consumers_that_a_backup_tells_of_and_does_not_have_are_missed(
    stream: Callable[..., Ended], filled: str, tmp_path: Path
) -> None:
    """Backups that the `nats` tool makes without consumers are like that."""
    stream("backup", filled, tmp_path, "--no-consumers")
    described = json.loads((tmp_path / META_FILE).read_text())
    described["state"]["consumer_count"] = 1
    (tmp_path / META_FILE).write_text(json.dumps(described))
    stream("rm", filled, "--force")
    restored = stream("restore", tmp_path, "--json")
    assert restored.code == 0
    assert "tells of 1 consumer that it does not have" in restored.err
    assert json.loads(restored.out)["consumers"] == 0


def test_an_older_backup_is_replaced_by_force_only(
    stream: Callable[..., Ended], filled: str, tmp_path: Path
) -> None:
    stream("backup", filled, tmp_path)
    before = (tmp_path / META_FILE).read_bytes()
    refused = stream("backup", filled, tmp_path)
    assert refused.code == 2
    assert f"Replace the backup in {tmp_path}?\nNothing was changed." in refused.err
    assert (tmp_path / META_FILE).read_bytes() == before
    stream("purge", filled, "--keep", "1", "--force")
    assert stream("backup", filled, tmp_path, "--force").code == 0
    assert json.loads((tmp_path / META_FILE).read_text())["state"]["messages"] == 1


def test_a_stream_with_the_name_is_not_overwritten(
    stream: Callable[..., Ended], filled: str, tmp_path: Path
) -> None:
    stream("backup", filled, tmp_path)
    ended = stream("restore", tmp_path)
    assert (ended.code, ended.err) == (
        1,
        "Error: stream name already in use, cannot restore (err_code 10130)\n"
        f"Remove the stream first with: headwater stream rm {filled}\n",
    )


def test_a_name_can_not_be_changed(
    stream: Callable[..., Ended], filled: str, tmp_path: Path
) -> None:
    stream("backup", filled, tmp_path)
    (tmp_path / "other.json").write_text('{"name": "OTHER"}')
    ended = stream("restore", tmp_path, "--config", tmp_path / "other.json")
    assert ended.code == 2
    assert "restored under the name it had" in ended.err


@pytest.mark.parametrize("keep", [0, 5, 1000, -1], ids=str)
def test_a_damaged_archive_is_refused_before_anything_is_sent(
    stream: Callable[..., Ended], filled: str, tmp_path: Path, keep: int
) -> None:
    stream("backup", filled, tmp_path)
    stream("rm", filled, "--force")
    whole = (tmp_path / DATA_FILE).read_bytes()
    (tmp_path / DATA_FILE).write_bytes(whole[:keep])
    ended = stream("restore", tmp_path)
    assert ended.code == 1
    assert f"{DATA_FILE} is damaged: " in ended.err
    assert stream("info", filled).code == 1


def test_what_only_the_server_can_see_it_refuses(
    stream: Callable[..., Ended], filled: str, tmp_path: Path
) -> None:
    stream("backup", filled, tmp_path)
    stream("rm", filled, "--force")
    archive = bytearray((tmp_path / DATA_FILE).read_bytes())
    archive[len(archive) // 2] ^= 0xFF
    (tmp_path / DATA_FILE).write_bytes(archive)
    assert "not those that were backed up" in stream("restore", tmp_path).err
    described = json.loads((tmp_path / META_FILE).read_text())
    del described["archive"]
    (tmp_path / META_FILE).write_text(json.dumps(described))
    ended = stream("restore", tmp_path)
    assert ended.code == 1
    assert ended.err.startswith("Error: restore failed: ")
    assert "(err_code 10062)\nNothing was restored." in ended.err
    assert stream("info", filled).code == 1


def test_a_backup_that_fails_leaves_no_folder(stream: Callable[..., Ended], tmp_path: Path) -> None:
    assert stream("backup", "NOPE", tmp_path / "new" / "folder").code == 1
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "kept").mkdir()
    assert stream("backup", "NOPE", tmp_path / "kept").code == 1
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


def test_a_backup_of_nothing_leaves_nothing(stream: Callable[..., Ended], tmp_path: Path) -> None:
    assert stream("backup", "NOPE", tmp_path).code == 1
    assert stream("restore", tmp_path).code == 1
    assert list(tmp_path.iterdir()) == []


def test_progress_is_for_terminals(
    stream: Callable[..., Ended], jetstream: str, filled: str, tmp_path: Path
) -> None:
    small = ("--chunk-size", "1KB", "--window-size", "1KB")
    code, seen = at_terminal(
        jetstream, "stream", "backup", filled, str(tmp_path), *small, columns=200
    )
    assert code == 0
    assert f"Backing up {filled}" in seen
    stream("rm", filled, "--force")
    code, seen = at_terminal(jetstream, "stream", "restore", str(tmp_path), columns=200)
    assert code == 0
    assert f"Restoring {filled}" in seen
    assert stream("backup", filled, tmp_path, "--force").err == ""


# --- a server of the test's own -------------------------------------------------------------------

STATE: Final = {"messages": 1, "bytes": 100, "first_seq": 1, "last_seq": 1}
CONFIG: Final = {"name": "F", "storage": "file"}
SNAPSHOT_ANSWER: Final = json.dumps({"config": CONFIG, "state": STATE}).encode()
WHOLE: Final = BEGINNINGS[0] + b"\x01\x24\0\0" + b"c" * 36


def test_subjects_of_more_than_a_page_are_put_together(jetstream: str) -> None:
    pages = {"a": 1}, {"b": 2}, {"c": 3}
    offsets: list[int] = []

    async def scenario() -> Ended:
        async with faking(jetstream, "stream") as fake:

            async def info(request: Msg) -> None:
                asked = json.loads(request.data)
                assert asked["subjects_filter"] == ">"
                offsets.append(asked.get("offset", 0))
                state = STATE | {"subjects": pages[offsets[-1]]}
                document = {"total": 3, "limit": 1, "config": CONFIG, "state": state}
                await request.respond(json.dumps(document).encode())

            await fake.answer("STREAM.INFO.F", info)
            return await fake.run("info", "F", "--subjects", "--json")

    shown = json.loads(asyncio.run(scenario()).out)
    assert shown["state"]["subjects"] == {"a": 1, "b": 2, "c": 3}
    assert offsets == [0, 1, 2]


Piece = tuple[str, bytes, dict[str, str] | None]


@pytest.mark.parametrize(
    ("pieces", "problem"),
    [
        ([("ack.46.1", WHOLE[:46], None), ("ack.4.3", WHOLE[46:], None)],
         "Piece 2 did not arrive: piece 3 of 4 bytes came as 4 bytes"),
        ([("ack.47.1", WHOLE[:46], None)],
         "Piece 1 did not arrive: piece 1 of 47 bytes came as 46 bytes"),
        ([("ack.46.1", WHOLE[:46], None), ("", b"", {"Status": "204"})],
         "The archive that arrived is not whole: it was cut short"),
        ([("", WHOLE, None), ("", b"", {"Status": "500", "Description": "disk on fire"})],
         "The server gave up: 500 disk on fire"),
        ([("", b"", {"Status": "408", "Description": "No Flow Response"})],
         "The server gave up: 408 No Flow Response"),
    ],
)  # fmt: skip
def test_a_backup_that_did_not_arrive_whole_is_none(
    jetstream: str, tmp_path: Path, pieces: list[Piece], problem: str
) -> None:
    async def scenario() -> None:
        async with faking(jetstream, "stream") as fake:

            async def snapshot(request: Msg) -> None:
                inbox = json.loads(request.data)["deliver_subject"]
                await request.respond(SNAPSHOT_ANSWER)
                for reply, data, headers in pieces:
                    await fake.client.publish(inbox, data, reply=reply, headers=headers)

            await fake.answer("STREAM.SNAPSHOT.F", snapshot)
            done = await fake.run("backup", "F", str(tmp_path))
        assert done.code == 1
        assert f"Error: {problem}" in done.err
        assert list(tmp_path.iterdir()) == []

    asyncio.run(scenario())


def test_a_mapped_reply_subject_is_acknowledged_and_not_read(
    jetstream: str, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with faking(jetstream, "stream") as fake:
            acknowledged = await fake.client.subscribe(f"{fake.prefix}.mapped")

            async def snapshot(request: Msg) -> None:
                inbox = json.loads(request.data)["deliver_subject"]
                await request.respond(SNAPSHOT_ANSWER)
                await fake.client.publish(inbox, WHOLE, reply=f"{fake.prefix}.mapped")
                await acknowledged.next_msg(PATIENCE_S)
                await fake.client.publish(inbox, b"")

            await fake.answer("STREAM.SNAPSHOT.F", snapshot)
            done = await fake.run("backup", "F", str(tmp_path))
        assert (done.code, done.err) == (0, "")
        assert (tmp_path / DATA_FILE).read_bytes() == WHOLE

    asyncio.run(scenario())


def test_ctrl_c_in_the_middle_of_a_backup_leaves_nothing(jetstream: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with faking(jetstream, "stream") as fake:
            acknowledged = await fake.client.subscribe(f"{fake.prefix}.ack.>")

            async def snapshot(request: Msg) -> None:
                inbox = json.loads(request.data)["deliver_subject"]
                await request.respond(SNAPSHOT_ANSWER)
                await fake.client.publish(inbox, WHOLE, reply=f"{fake.prefix}.ack.{len(WHOLE)}.1")

            await fake.answer("STREAM.SNAPSHOT.F", snapshot)
            process = await fake.start("backup", "F", str(tmp_path))
            await acknowledged.next_msg(PATIENCE_S)
            process.send_signal(signal.SIGINT)
            done = await ended(process)
        assert (done.code, done.out, done.err.strip()) == (130, "", "")
        assert list(tmp_path.iterdir()) == []

    asyncio.run(scenario())


def backup_in(folder: Path, archive: bytes = WHOLE, **config: Any) -> None:
    """A backup as the `nats` tool would have left it."""
    (folder / DATA_FILE).write_bytes(archive)
    (folder / META_FILE).write_text(json.dumps({"config": CONFIG | config, "state": STATE}))


async def restoring(
    fake: Fake, folder: Path, take: Callable[[int, Msg], Awaitable[None]], last: bytes
) -> Ended:
    """Restore to a server that takes piece n by `take(n, piece)` and ends with `last`."""
    number = 0

    async def restore(request: Msg) -> None:
        assert set(json.loads(request.data)) == {"config", "state"}
        await request.respond(json.dumps({"deliver_subject": f"{fake.prefix}.in"}).encode())

    async def piece(message: Msg) -> None:
        nonlocal number
        number += 1
        if message.data:
            await take(number, message)
        else:
            await message.respond(last)

    await fake.answer("STREAM.RESTORE.F", restore)
    await fake.answer("in", piece)
    return await fake.run("restore", str(folder))


def created(**fields: Any) -> bytes:
    """The answer to the last piece."""
    return json.dumps({"config": CONFIG, "state": STATE} | fields).encode()


async def taken(number: int, piece: Msg) -> None:
    """Take a piece."""
    await piece.respond(b"")


def test_pieces_on_their_way_to_a_server_are_bounded_and_in_order(
    jetstream: str, tmp_path: Path
) -> None:
    # Three windows and a half, in frames of 64 KiB.
    frame = b"\x01\x00\x00\x01" + b"f" * 65536
    archive = BEGINNINGS[0] + frame * 56
    pieces = -(-len(archive) // RESTORE_CHUNK_BYTES)
    backup_in(tmp_path, archive)
    received = bytearray()
    waiting: list[Msg] = []
    most = 0

    async def hold(number: int, piece: Msg) -> None:
        nonlocal most
        received.extend(piece.data)
        waiting.append(piece)
        most = max(most, len(waiting))
        # Whole windows are answered at a time: a window that never fills would wait for ever.
        if len(waiting) == RESTORE_CHUNKS_IN_FLIGHT_MAX or number == pieces:
            while waiting:
                await waiting.pop(0).respond(b"")

    async def scenario() -> Ended:
        async with faking(jetstream, "stream") as fake:
            return await restoring(fake, tmp_path, hold, created())

    done = asyncio.run(scenario())
    assert (done.code, done.err) == (0, "")
    assert bytes(received) == archive
    assert most == RESTORE_CHUNKS_IN_FLIGHT_MAX


def test_a_server_that_refuses_a_piece_is_believed(jetstream: str, tmp_path: Path) -> None:
    backup_in(tmp_path)

    async def refuse(number: int, piece: Msg) -> None:
        await piece.respond(
            b'{"error":{"code":500,"err_code":10062,"description":"restore failed: no room"}}'
        )

    async def scenario() -> Ended:
        async with faking(jetstream, "stream") as fake:
            return await restoring(fake, tmp_path, refuse, created())

    done = asyncio.run(scenario())
    assert done.code == 1
    assert done.err.startswith("Error: restore failed: no room (err_code 10062)\n")


def test_a_server_that_stopped_listening_is_noticed(jetstream: str, tmp_path: Path) -> None:
    backup_in(tmp_path)

    async def scenario() -> Ended:
        async with faking(jetstream, "stream") as fake:

            async def restore(request: Msg) -> None:
                await request.respond(b'{"deliver_subject": "nobody.is.here"}')

            await fake.answer("STREAM.RESTORE.F", restore)
            return await fake.run("restore", str(tmp_path))

    done = asyncio.run(scenario())
    assert done.code == 1
    assert done.err.startswith("Error: The server has given the restore up\nRun the command again")


@pytest.mark.parametrize(
    ("config", "state", "code", "said"),
    [
        ({}, {"messages": 0}, 1, "The restored stream is not what the backup says: "
         "messages 0 instead of 1"),
        ({}, {"last_seq": 2}, 1, "last_seq 2 instead of 1"),
        ({"max_age": 5}, {"messages": 0, "bytes": 0}, 0, "Some messages have expired since the "
         "backup: messages 0 instead of 1, bytes 0 instead of 100."),
        ({"max_age": 5}, {"messages": 2}, 1, "messages 2 instead of 1"),
    ],
)  # fmt: skip
def test_what_the_server_made_of_a_backup_is_compared_with_it(
    jetstream: str,
    tmp_path: Path,
    config: dict[str, Any],
    state: dict[str, Any],
    code: int,
    said: str,
) -> None:
    backup_in(tmp_path, **config)
    last = created(config=CONFIG | config, state=STATE | state)

    async def scenario() -> Ended:
        async with faking(jetstream, "stream") as fake:
            return await restoring(fake, tmp_path, taken, last)

    done = asyncio.run(scenario())
    assert done.code == code
    assert said in done.err
