"""Single gets: answers that are no messages, and subjects that JSON cannot express."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.client.api.answers import StreamInfo
from headwater.client.link.api import ApiClient
from headwater.client.link.connection import Connection
from headwater.client.link.errors import LinkError
from headwater.client.link.login import Login
from headwater.client.link.reads.message_gets import MessageGetReader
from headwater.client.link.reads.patterns import Patterns
from headwater.client.link.reads.ranges import SequenceRange
from headwater.wire.frames import publish_frame
from tests.kit.link_peers import Responder, running, url_of
from tests.kit.server_process import HEADWATER
from tests.kit.stream_servers import KINDS, Server

INFO = StreamInfo("LOG", "", {}, 1, 1, 1, 1, 0, "", "", 1)


@pytest.mark.parametrize("answer", [b"", b"no JSON", b'{"message": {"seq": 1}}', b"[1]"])
def test_an_answer_of_another_form_is_an_error_of_the_link(tmp_path: Path, answer: bytes) -> None:
    with running(HEADWATER, tmp_path / "server") as server:
        login = Login(url=url_of(server))
        with (
            Responder(login, "$JS.API.STREAM.MSG.GET.LOG", payload=answer),
            Connection(login) as connection,
        ):
            reader = MessageGetReader(connection, INFO, Patterns(()), headers_only=False)
            with pytest.raises(LinkError, match="LOG was answered in another form"):
                list(reader.read(SequenceRange(1, 1), 1))


@pytest.fixture(params=KINDS)
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    server = Server(request.param, tmp_path / "server")
    yield server
    server.stop()


def test_a_subject_that_is_not_utf_8_has_replacement_characters(server: Server) -> None:
    server.create_stream("LOG")
    with Connection(Login(url=server.url)) as connection:
        inbox = connection.new_inbox()
        connection.subscribe(inbox)
        connection.send(publish_frame(b"LOG.\xff", inbox.encode(), b"", b"x"))
        [ack] = connection.receive(timeout_s=10.0).payloads
        assert b'"seq":1' in ack
        info = ApiClient(connection).stream_info("LOG")
        reader = MessageGetReader(connection, info, Patterns(("LOG.*",)), headers_only=False)
        [chunk] = reader.read(SequenceRange(1, 1), 1)
    assert chunk.subjects == ["LOG.\N{REPLACEMENT CHARACTER}".encode()]
    assert chunk.payloads == [b"x"]
