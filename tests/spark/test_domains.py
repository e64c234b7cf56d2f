"""The API of JetStream in a domain, or under a prefix: reads and writes that name it by an option.

A prefix of its own needs an account that imports the API of another one, which Headwater has not;
there the prefix is that of a domain.
"""

from collections.abc import Mapping

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from headwater.client.link.api import ApiClient
from headwater.client.link.connection import Connection
from headwater.client.link.login import Login
from headwater.client.link.reads.counts import count_messages
from headwater.client.link.reads.fetch import Way, read_range
from headwater.client.link.reads.ranges import SequenceRange
from tests.kit.stream_servers import KINDS, Server
from tests.spark.conftest import StartServer

DOMAIN = """
jetstream { domain: hub }
authorization { users: [ { user: admin, password: admin }, { user: app, password: app } ] }
"""
IMPORTED = """
accounts {
  STREAMS {
    jetstream: enabled
    users: [ { user: admin, password: admin } ]
    exports: [
      { service: "$JS.API.>", response_type: stream }
      { service: "$KV.>" }
      { service: "orders.>" }
    ]
  }
  APP {
    users: [ { user: app, password: app } ]
    imports: [
      { service: { account: STREAMS, subject: "$JS.API.>" }, to: "streams.api.>" }
      { service: { account: STREAMS, subject: "$KV.>" }, to: "streams.api.$KV.>" }
      { service: { account: STREAMS, subject: "orders.>" } }
    ]
  }
}
"""
PLACES: Mapping[tuple[str, str], tuple[str, dict[str, str]]] = {
    ("headwater", "domain"): (DOMAIN, {"domain": "hub"}),
    ("nats-server", "domain"): (DOMAIN, {"domain": "hub"}),
    ("headwater", "prefix"): (DOMAIN, {"apiPrefix": "$JS.hub.API"}),
    ("nats-server", "prefix"): (IMPORTED, {"apiPrefix": "streams.api"}),
}
PLAIN = (b" $JS.API.", b" $KV.")
"""The subjects that a client of another domain may not publish to."""


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=("domain", "prefix"))
def place(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def started(start_server: StartServer, kind: str, place: str) -> tuple[Server, dict[str, str]]:
    """A server with a stream and a bucket, and the options that lead to them."""
    config, where = PLACES[kind, place]
    admin = {"user": "admin", "pass": "admin"}
    server = start_server(kind, config=config, credentials=admin)
    server.create_stream("ORDERS", "orders.>")
    server.create_bucket("prices")
    return server, {"url": server.url, "user": "app", "password": "app"} | where


@pytest.mark.parametrize("way", [Way.CONSUMER, Way.DIRECT, Way.GETS])
def test_every_way_of_reading_goes_by_the_option(
    start_server: StartServer,
    kind: str,
    place: str,
    way: Way,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server, options = started(start_server, kind, place)
    sent: list[bytes] = []
    send = Connection.send

    def send_and_tell(self: Connection, data: bytes) -> None:
        sent.append(data)
        send(self, data)

    monkeypatch.setattr(Connection, "send", send_and_tell)
    server.publish([(f"orders.{number % 3}", b"%d" % number) for number in range(1200)])
    login = Login(
        server.url,
        user="app",
        password="app",
        domain=options.get("domain"),
        api_prefix=options.get("apiPrefix"),
    )
    with Connection(login) as connection:
        info = ApiClient(connection).stream_info("ORDERS")
        wanted = SequenceRange(5, 1150)
        chunks = list(read_range(connection, info, wanted, ("orders.1",), way))
        found = [sequence for chunk in chunks for sequence in chunk.sequences]
        assert found == [number for number in range(5, 1151) if number % 3 == 2]
        assert count_messages(connection, info, 5, 1150, ("orders.1",)) == len(found)
        api = ApiClient(connection)
        assert api.kv_put("prices", "a", b"1", expected_revision=0) == 1
        entry = api.kv_get("prices", "a")
        assert entry is not None
        assert (entry.subject, entry.data) == ("$KV.prices.a", b"1")
    assert server.consumers("ORDERS") == []
    assert not [plain for plain in PLAIN if plain in b"".join(sent)]
    assert f"{login.api}STREAM.INFO.ORDERS".encode() in b"".join(sent)


def test_rows_are_written_and_read_by_the_option(
    spark: SparkSession, start_server: StartServer, kind: str, place: str
) -> None:
    server, options = started(start_server, kind, place)
    rows = spark.createDataFrame([("a", "1"), ("b", "2")], "key string, data string")
    entries = spark.read.format("headwater").options(**options, bucket="prices")
    writer = rows.write.format("headwater").mode("append").options(**options, bucket="prices")
    writer.save()
    found = entries.load().selectExpr("key", "cast(data as string) as data").collect()
    assert {row.key: row.data for row in found} == {"a": "1", "b": "2"}
    subjects = [each.subject for each in server.stored("KV_prices")]
    assert sorted(subjects) == ["$KV.prices.a", "$KV.prices.b"]
    orders = rows.selectExpr("concat('orders.', key) as subject", "data")
    orders.write.format("headwater").mode("append").options(**options, stream="ORDERS").save()
    read = spark.read.format("headwater").options(**options, stream="ORDERS").load()
    assert sorted(row.subject for row in read.collect()) == ["orders.a", "orders.b"]


def test_a_domain_that_is_not_there_is_named(
    spark: SparkSession, start_server: StartServer, kind: str
) -> None:
    _, options = started(start_server, kind, "domain")
    wrong = options | {"domain": "elsewhere", "stream": "ORDERS", "outageTimeout": "0"}
    reason = r"option domain='elsewhere': nobody answers at \$JS\.elsewhere\.API\.>"
    with pytest.raises(PySparkException, match=reason):
        spark.read.format("headwater").options(**wrong).load()
    rows = spark.createDataFrame([("orders.a", "1")], "subject string, data string")
    with pytest.raises(PySparkException, match=reason):
        rows.write.format("headwater").mode("append").options(**wrong).save()
