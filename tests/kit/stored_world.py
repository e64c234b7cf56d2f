"""The world of the server's tests with a simulated disk for its streams."""

import json
from typing import Any, Final

from headwater.server.configuration.options import JetStreamOptions, Options
from headwater.server.monitoring.pages.healthz import Health, HealthzOptions, healthz
from headwater.testing.disk import SimDisk
from tests.kit.monitored_world import FixedProcess
from tests.kit.world import Peer, World

STORE: Final = "/data"
FOLDER: Final = f"{STORE}/jetstream"


def streaming(**settings: Any) -> JetStreamOptions:
    """JetStream on the disk of a test, with room for what tests store."""
    chosen = {
        "enabled": True,
        "store_dir": STORE,
        "max_memory_bytes": 1 << 20,
        "max_file_bytes": 1 << 20,
        **settings,
    }
    return JetStreamOptions(**chosen)


class StoredWorld(World):
    """A node with a disk; `start` opens its streams as a server does."""

    def __init__(
        self, options: Options | None = None, disk: SimDisk | None = None, **environment: Any
    ) -> None:
        self.disk = SimDisk() if disk is None else disk
        super().__init__(
            options or Options(jetstream=streaming()),
            **{
                "disk": self.disk,
                "boot_id": self.disk.boot_id,
                "process": FixedProcess(),
                **environment,
            },
        )

    def start(self) -> "StoredWorld":
        """Open the store. Raises OperatingError."""
        self.node.open_jetstream()
        return self

    def after_restart(self, options: Options | None = None) -> "StoredWorld":
        """Another process on the same disk, not started yet."""
        self.node.close_jetstream()
        self.disk.kill()
        return StoredWorld(options or self.node.options, self.disk)

    def request(self, subject: str, body: object = None, peer: Peer | None = None) -> Any:
        """The reply to one call, parsed."""
        peer = peer or self.modern()
        payload = b"" if body is None else json.dumps(body).encode()
        line = f"SUB inbox 9\r\nPUB {subject} inbox {len(payload)}\r\n".encode()
        reply = peer.ask(line + payload + b"\r\n")
        while not reply and self.scheduler.offloaded:
            # The set of streams waits for the disk.
            self.finish_checks()
            reply = peer.take()
        return json.loads(reply.split(b"\r\n", 1)[1].rsplit(b"\r\n", 1)[0])

    def create(self, name: str, **config: Any) -> Any:
        """Make a stream of the subject of its name."""
        chosen = {"name": name, "subjects": [name.lower()], **config}
        return self.request(f"$JS.API.STREAM.CREATE.{name}", chosen)

    def health(self, **options: Any) -> Health:
        """The answer of /healthz."""
        return healthz(self.node.facts, HealthzOptions(**options))
