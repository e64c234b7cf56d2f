"""A real server process, as the operating system sees its memory while streams come and go."""

import json
from pathlib import Path
from typing import Final

from tests.kit.server_process import HEADWATER, ServerProcess, Setup
from tests.kit.wire_client import WireClient

SETUP: Final = Setup(config='jetstream: {store_dir: "store"}')
IDS: Final = 300
ID_BYTES: Final = 60_000
ROUNDS: Final = 6
# The first rounds fill caches and find the size that a round takes.
WARM_ROUNDS: Final = 2


def test_the_ids_of_deleted_streams_are_given_back(tmp_path: Path) -> None:
    config = json.dumps({"name": "S", "subjects": ["s"], "duplicate_window": 10**11}).encode()
    create = b"PUB $JS.API.STREAM.CREATE.S inbox %d\r\n%b\r\n" % (len(config), config)
    headers = [
        b"NATS/1.0\r\nNats-Msg-Id: %08d%b\r\n\r\n" % (number, b"x" * ID_BYTES)
        for number in range(IDS)
    ]
    publishes = b"".join(
        b"HPUB s %d %d\r\n%b\r\n" % (len(header), len(header), header) for header in headers
    )
    server = ServerProcess(HEADWATER, SETUP, tmp_path)
    sizes = []
    try:
        server.wait_until_ready()
        client = WireClient("127.0.0.1", server.port)
        client.exchange(b'CONNECT {"verbose":false,"headers":true}\r\nSUB inbox 1\r\n')
        for _ in range(ROUNDS):
            client.exchange(create)
            client.exchange(publishes)
            info = client.exchange(b"PUB $JS.API.STREAM.INFO.S inbox 0\r\n\r\n")
            assert f'"messages":{IDS},' in str(info)
            client.exchange(b"PUB $JS.API.STREAM.DELETE.S inbox 0\r\n\r\n")
            sizes.append(rss_bytes(server.pid))
        client.close()
    finally:
        server.stop()
    kept = sizes[-1] - sizes[WARM_ROUNDS - 1]
    held_before = (ROUNDS - WARM_ROUNDS) * IDS * ID_BYTES
    assert kept < held_before // 2, sizes


def rss_bytes(pid: int) -> int:
    """The bytes of the machine's memory that the process holds."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise AssertionError(f"process {pid} has ended")
