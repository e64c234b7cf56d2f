"""What the monitoring port answers."""

import json
from typing import final

from headwater.runtime.http import HttpResponse
from headwater.server.node import Node
from headwater.wire.info import NATS_VERSION


@final
class Monitor:
    """Answers to GET on the monitoring port of one node."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def respond(self, target: str) -> HttpResponse:
        """Answer a path with its query."""
        path = target.partition("?")[0]
        if path == "/healthz":
            return HttpResponse(200, "application/json", b'{"status":"ok"}')
        if path == "/varz":
            node = self._node
            body = {
                "server_id": node.server_id,
                "server_name": node.name,
                "version": NATS_VERSION,
                "connections": len(node.clients),
            }
            return HttpResponse(200, "application/json", json.dumps(body, indent=2).encode())
        return HttpResponse(404, "text/plain; charset=utf-8", b"404 page not found\n")
