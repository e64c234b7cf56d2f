"""Servers with JetStream, for measurements of streams."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.servers import Server, running


@contextmanager
def with_streams(kind: str, sync_always: bool) -> Iterator[Server]:
    """A server with JetStream, its files in a folder of their own."""
    folder = tempfile.mkdtemp(prefix="bench-")
    always = ", sync_interval: always" if sync_always else ""
    path = f"{folder}/server.conf"
    with open(path, "w", encoding="utf-8") as file:
        file.write(f'jetstream {{ store_dir: "{folder}/data"{always} }}\n')
    try:
        with running(kind, "-c", path) as server:
            yield server
    finally:
        shutil.rmtree(folder, ignore_errors=True)
