"""Monitoring of a JetStream that is not well, which no oracle shows on command."""

import errno

import pytest

from headwater.jetstream.account import AccountLimits
from headwater.jetstream.config.stream_config import StreamConfig
from headwater.server.configuration.options import AccountOptions, Options
from headwater.server.monitoring.pages.documents import Refused, encode
from headwater.server.monitoring.pages.jsz import JszOptions, jetstream_part, jsz, jsz_of_account
from tests.kit.consumer_world import ConsumerWorld
from tests.kit.stored_world import FOLDER, StoredWorld, streaming

ACCOUNTS = (
    AccountOptions("B", jetstream=AccountLimits(max_memory=5)),
    AccountOptions("A", jetstream=AccountLimits()),
    AccountOptions("C"),
)


def broken(world: StoredWorld) -> StoredWorld:
    """A stream whose disk fails while it is written to."""
    world.create("ORDERS")
    world.create("OTHERS")
    world.disk.fail("write", "*ORDERS*", code=errno.EIO, times=None)
    world.modern().ask(b"PUB orders 1\r\nx\r\n")
    return world


class TestAStreamWhoseDiskFailed:
    def test_makes_the_server_unavailable(self) -> None:
        health = broken(StoredWorld().start()).health()
        assert (health.status, health.status_code) == ("unavailable", 503)
        assert health.error.startswith("JetStream stream '$G > ORDERS' write error: ")

    def test_is_one_of_the_details(self) -> None:
        health = broken(StoredWorld().start()).health(details=True)
        assert (health.status, health.status_code) == ("error", 503)
        assert [(each.type, each.account, each.stream) for each in health.errors] == [
            ("STREAM", "$G", "ORDERS")
        ]

    def test_does_not_concern_another(self) -> None:
        world = broken(StoredWorld().start())
        assert world.health(account="$G", stream="OTHERS").status == "ok"
        assert world.health(account="$G", stream="ORDERS").status == "unavailable"

    def test_is_not_looked_at_by_who_asks_for_less(self) -> None:
        world = broken(StoredWorld().start())
        assert world.health(js_enabled_only=True).status == "ok"
        assert world.health(js_server_only=True).status == "ok"


def test_a_stream_that_can_not_be_opened_is_told() -> None:
    world = StoredWorld().start()
    world.create("ORDERS")
    path = next(path for path in world.disk.files() if path.endswith("stream.hw"))
    after = world.after_restart()
    after.disk.flip_bit(path, 20, 3)
    after.start()
    assert after.health().error == "JetStream stream '$G > ORDERS' could not be recovered"
    assert any("cannot be opened" in line for line in after.log_lines)


def test_streams_of_an_account_that_is_gone_are_told_and_kept() -> None:
    options = Options(jetstream=streaming(), accounts=ACCOUNTS[1:2])
    world = StoredWorld(options).start()
    host = world.node.jetstream
    assert host is not None
    config = StreamConfig(name="ORDERS", subjects=("orders",), num_replicas=1)
    host.stream_set.propose(host.streams.decide_creation(host.accounts["A"], config))
    after = world.after_restart(Options(jetstream=streaming())).start()
    assert after.health().error == "JetStream account 'A' could not be resolved"
    assert any(path.startswith(f"{FOLDER}/streams") for path in after.disk.files())


class TestJsz:
    def test_lists_accounts_by_name(self) -> None:
        world = StoredWorld(Options(jetstream=streaming(), accounts=ACCOUNTS)).start()
        page = jsz(world.node.facts, JszOptions(accounts=True))
        assert isinstance(page.account_details, tuple)
        assert [detail.name for detail in page.account_details] == ["A", "B"]
        assert [detail.reserved_memory for detail in page.account_details] == [2**64 - 1, 5]

    @pytest.mark.parametrize(
        ("account", "reason"),
        [("C", 'account "C" not jetstream enabled'), ("D", 'account "D" not found')],
    )
    def test_of_an_account_without_streams(self, account: str, reason: str) -> None:
        world = StoredWorld(Options(jetstream=streaming(), accounts=ACCOUNTS)).start()
        with pytest.raises(Refused, match=reason):
            jsz_of_account(world.node.facts, account, JszOptions())

    def test_streams_are_described_in_the_words_of_the_api(self) -> None:
        world = StoredWorld().start()
        world.create("ORDERS", description="<b>")
        page = encode(jsz(world.node.facts, JszOptions(streams=True, config=True)))
        assert b'"description":"\\u003cb\\u003e"' in page
        assert b'"state":{"messages":0' in page

    def test_events_do_not_tell_where_files_are(self) -> None:
        world = StoredWorld().start()
        assert FOLDER.encode() in encode(jetstream_part(world.node.facts))
        assert FOLDER.encode() not in encode(jetstream_part(world.node.facts, in_stats=True))

    def test_no_page_has_the_key(self) -> None:
        world = StoredWorld(Options(jetstream=streaming(encryption_key="tops3cret"))).start()
        assert b"tops3cret" not in encode(
            jsz(world.node.facts, JszOptions(streams=True, config=True))
        )

    def test_consumers_are_described_without_their_configuration_unless_asked(self) -> None:
        world = ConsumerWorld().with_stream()
        for name in ("B", "A"):
            world.consumer(name)
        plain = encode(jsz(world.node.facts, JszOptions(consumer=True)))
        assert plain.index(b'"name":"A"') < plain.index(b'"name":"B"')
        assert b'"ack_policy"' not in plain
        assert b'"ack_policy"' in encode(
            jsz(world.node.facts, JszOptions(consumer=True, config=True))
        )
        assert b'"consumer_detail"' not in encode(jsz(world.node.facts, JszOptions(streams=True)))
        assert jsz(world.node.facts, JszOptions()).consumers == 2


def test_the_health_of_a_consumer_is_that_it_is_there() -> None:
    world = ConsumerWorld().with_stream()
    world.consumer("C")
    asked = {"account": "$G", "stream": "S"}
    assert world.health(**asked, consumer="C").status == "ok"
    world.delete("C")
    health = world.health(**asked, consumer="C")
    assert (health.status, health.status_code) == ("unavailable", 404)
    text = 'JetStream consumer "C" not found for stream "S" on account "$G"'
    assert health.error == text
