"""Logging in through options: by an nkey, by a .creds file, and over TLS with certificates.

The server is nats-server, which knows all of these. The planner and the tasks each log in by
themselves, so what is tried here is a whole read and a whole write.
"""

from collections.abc import Mapping
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from headwater.client.api.requests import stream_create
from headwater.client.link.api import ApiClient
from headwater.client.link.connection import Connection
from headwater.client.link.login import Login
from headwater.wire.credentials.nkeys import KeyPair
from tests.kit.credentials import Authority, OperatorTree, user_seed
from tests.kit.link_peers import running, url_of
from tests.kit.server_process import ORACLE

WITH_JETSTREAM = 'jetstream { store_dir: "store" }\n'
WORDS = ["one", "two", "three"]


def assert_reads_and_writes(spark: SparkSession, login: Login, options: Mapping[str, str]) -> None:
    """Write rows and read them back as the user that the options name."""
    with Connection(login) as connection:
        config = {"name": "LOG", "subjects": ["log.>"], "storage": "file", "allow_direct": True}
        ApiClient(connection).call(stream_create(config))
    rows = spark.createDataFrame(
        [(f"log.{word}", word) for word in WORDS], "subject string, data string"
    )
    everyone = {"stream": "LOG", **options}
    rows.write.format("headwater").mode("append").options(**everyone).save()
    found = spark.read.format("headwater").options(**everyone).load()
    read = found.selectExpr("subject", "cast(data as string) as data").collect()
    assert sorted(row.data for row in read) == sorted(WORDS)
    assert all(row.subject == f"log.{row.data}" for row in read)


def assert_refused(spark: SparkSession, options: Mapping[str, str], reason: str) -> None:
    reader = spark.read.format("headwater").options(stream="LOG", retries="0", **options)
    with pytest.raises(PySparkException, match=reason):
        reader.load()


def test_an_nkey(spark: SparkSession, tmp_path: Path) -> None:
    seed, other = user_seed(), user_seed(b"x" * 32)
    public = KeyPair.from_seed(seed).public
    config = f"{WITH_JETSTREAM}authorization {{ users: [{{nkey: {public}}}] }}\n"
    file = tmp_path / "user.nk"
    file.write_text(f"{seed}\n")
    with running(ORACLE, tmp_path / "server", config) as server:
        url = url_of(server)
        options = {"url": url, "nkey": str(file)}
        assert_reads_and_writes(spark, Login(url, nkey=seed), options)
        assert_refused(spark, {"url": url, "nkey": other}, "option nkey: ")


def test_a_creds_file(spark: SparkSession, tmp_path: Path) -> None:
    tree = OperatorTree.grow()
    good, bad = tmp_path / "user.creds", tmp_path / "bad.creds"
    good.write_text(tree.creds())
    bad.write_text(tree.creds(signing_seed=user_seed(b"x" * 32)))
    with running(ORACLE, tmp_path / "server", WITH_JETSTREAM + tree.server_config) as server:
        url = url_of(server)
        options = {"url": url, "creds": str(good)}
        assert_reads_and_writes(spark, Login(url, creds=str(good)), options)
        assert_refused(spark, {"url": url, "creds": str(bad)}, "option creds: ")


def test_tls_with_certificates_on_both_sides(spark: SparkSession, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    server_certificate, server_key = authority.issue("server")
    certificate, key = authority.issue("client")
    config = (
        f'{WITH_JETSTREAM}tls {{ cert_file: "{server_certificate}", key_file: "{server_key}",'
        f' ca_file: "{authority.path}", verify: true }}\n'
    )
    with running(ORACLE, tmp_path / "server", config) as server:
        url = url_of(server).replace("nats://", "tls://")
        trusted = {"url": url, "tlsCa": authority.path}
        login = Login(url, tls_ca=authority.path, tls_cert=certificate, tls_key=key)
        options = {**trusted, "tlsCert": certificate, "tlsKey": key}
        assert_reads_and_writes(spark, login, options)
        assert_refused(spark, trusted, "option tlsCert: ")
        stranger = Authority(tmp_path, "stranger")
        assert_refused(spark, {**options, "tlsCa": stranger.path}, "certificate")
