"""Every option: what it may say, what it means, and the line that refuses it."""

import pickle

import pytest

from headwater.client.link.reads.levels import ReadLevel
from headwater.spark.options import (
    EARLIEST,
    LATEST,
    At,
    Kind,
    OptionError,
    Position,
    SinkOptions,
    SourceOptions,
    parse_point_in_time,
)

DAY_NS = 86_400 * 10**9


def source(**options: str) -> SourceOptions:
    return SourceOptions.parse({"stream": "orders", **options})


def refusal(options: dict[str, str]) -> str:
    with pytest.raises(OptionError) as refused:
        SourceOptions.parse(options)
    message = str(refused.value)
    assert "\n" not in message
    return message


class TestSource:
    def test_a_stream_is_enough(self) -> None:
        options = source()
        assert (options.kind, options.name, options.stream) == (Kind.STREAM, "orders", "orders")
        assert options.login.url == "nats://127.0.0.1:4222"
        assert (options.starting, options.ending) == (EARLIEST, LATEST)
        assert options.fail_on_data_loss
        assert options.include_headers
        assert options.consistency is ReadLevel.LEADER
        assert not options.pushdown

    def test_buckets_and_object_stores_live_in_streams_of_their_own(self) -> None:
        assert SourceOptions.parse({"bucket": "users"}).stream == "KV_users"
        assert SourceOptions.parse({"objects": "files"}).stream == "OBJ_files"

    def test_several_streams_are_named_one_by_one_and_by_patterns(self) -> None:
        options = SourceOptions.parse({"streams": "orders_*, audit,audit", "subjects": "a.>"})
        assert options.streams == ("orders_*", "audit")
        assert options.target_option == "streams"
        one = options.of_stream("orders_eu")
        assert (one.stream, one.subjects) == ("orders_eu", ("a.>",))
        most = [f"s{number}" for number in range(1000)]
        assert SourceOptions.parse({"streams": ",".join(most)}).streams == tuple(most)

    def test_names_of_options_have_no_case(self) -> None:
        options = SourceOptions.parse({"STREAM": "orders", "maxmessagespertrigger": "7"})
        assert options.messages_per_trigger_max == 7

    def test_what_spark_adds_is_left_alone(self) -> None:
        assert source(path="x", checkpointLocation="y") == source()

    def test_all_at_once(self) -> None:
        options = source(
            subjects="a.*, b.>,a.*",
            startingSequence="5",
            endingTime="2026-11-15T05:00:00Z",
            maxBytesPerTrigger="1000",
            minPartitions="3",
            failOnDataLoss="FALSE",
            includeHeaders="false",
            readConsistency="Session",
            sessionSequence="9",
            pushdown="true",
            user="u",
            password=" p ",
            connectTimeout="500ms",
            requestTimeout="2m",
            outageTimeout="1.5h",
            retries="0",
            domain="hub",
        )
        assert options.subjects == ("a.*", "b.>")
        assert options.starting == Position(At.SEQUENCE, 5)
        assert options.ending.at is At.TIME
        assert options.bytes_per_trigger_max == 1000
        assert options.partitions_min == 3
        assert not options.fail_on_data_loss
        assert not options.include_headers
        assert options.consistency is ReadLevel.SESSION
        assert options.session_sequence == 9
        assert options.pushdown
        assert options.login.password == " p "
        assert options.login.connect_timeout_s == 0.5
        assert options.login.request_timeout_s == 120.0
        assert options.login.outage_timeout_s == 5_400.0
        assert options.login.retries == 0
        assert options.login.api == "$JS.hub.API."

    def test_patience_with_an_outage_is_five_minutes_and_may_be_none_or_a_week(self) -> None:
        assert source().login.outage_timeout_s == 300.0
        assert source().login.retries is None
        assert source(outageTimeout="0").login.outage_timeout_s == 0.0
        assert source(outageTimeout="168h").login.outage_timeout_s == 604_800.0

    def test_it_travels(self) -> None:
        options = source(subjects="a.>")
        assert pickle.loads(pickle.dumps(options)) == options


class TestRefusals:
    @pytest.mark.parametrize(
        ("options", "text"),
        [
            ({}, "set exactly one of the options stream, streams, bucket or objects: none was"),
            (
                {"stream": "a", "bucket": "b"},
                "set exactly one of the options stream, streams, bucket or objects:"
                " stream and bucket were set",
            ),
            ({"stream": "a.b"}, "option stream='a.b' is not valid: allowed is a name without"),
            ({"stream": " "}, "option stream is empty: give it a value or leave it out"),
            ({"bucket": "a b"}, "option bucket='a b' is not valid: allowed is letters, digits"),
            ({"streams": "a,,b"}, "option streams='a,,b' is not valid: allowed is names joined"),
            ({"streams": "a.*"}, "option streams='a.*' is not valid: allowed is names joined"),
            ({"streams": ",".join(f"s{n}" for n in range(1001))}, "option streams has 1001 names"),
            (
                {"streams": "a,b", "startingSequence": "1"},
                "option startingSequence is for one stream, not for streams: each counts its own",
            ),
            (
                {"streams": "a,b", "endingSequence": "9"},
                "option endingSequence is for one stream, not for streams: each counts its own",
            ),
            ({"streams": "a*", "pushdown": "true"}, "option pushdown is for one stream, not for"),
            ({"streams": "a*", "history": "true"}, "option history is for buckets"),
        ],
    )
    def test_the_table(self, options: dict[str, str], text: str) -> None:
        assert refusal(options).startswith(text)

    @pytest.mark.parametrize(
        ("name", "value", "allowed"),
        [
            ("subjects", "a..b", "subjects joined by commas"),
            ("subjects", "a,,b", "subjects joined by commas"),
            ("subjects", "a.>.b", "subjects joined by commas"),
            ("startingSequence", "0", "a whole number from 1 to"),
            ("startingSequence", "-1", "a whole number from 1 to"),
            ("endingSequence", "1.5", "a whole number from 1 to"),
            ("startingTime", "yesterday", "a time with its zone"),
            ("endingTime", "2026-11-15T05:00:00", "a time with its zone"),
            ("starting", "first", "earliest or latest"),
            ("ending", "earliest", "latest"),
            ("maxMessagesPerTrigger", "0", "a whole number from 1 to"),
            ("maxBytesPerTrigger", "1 MB", "a whole number from 1 to"),
            ("minPartitions", "10001", "a whole number from 1 to 10000"),
            ("failOnDataLoss", "no", "true or false"),
            ("includeHeaders", "1", "true or false"),
            ("pushdown", "yes", "true or false"),
            ("tls", "on", "true or false"),
            ("readConsistency", "strong", "weak or session or leader or linearizable"),
            ("connectTimeout", "0", "seconds up to 3600"),
            ("requestTimeout", "2h", "seconds up to 3600"),
            ("outageTimeout", "8000m 1s", "seconds up to 604800"),
            ("outageTimeout", "169h", "seconds up to 604800"),
            ("retries", "many", "a whole number from 0 to"),
        ],
    )
    def test_a_value_is_shown_with_what_is_allowed(
        self, name: str, value: str, allowed: str
    ) -> None:
        message = refusal({"stream": "orders", name: value})
        assert message.startswith(f"option {name}={value!r} is not valid: allowed is {allowed}")

    @pytest.mark.parametrize(
        ("name", "hint"),
        [
            ("failOnDataLos", "did you mean failOnDataLoss?"),
            ("subject", "option subject is for writing: leave it out"),
            ("colour", "known are stream, streams, bucket, objects"),
        ],
    )
    def test_an_unknown_option_is_not_passed_over(self, name: str, hint: str) -> None:
        message = refusal({"stream": "orders", name: "x"})
        assert name in message
        assert hint in message

    @pytest.mark.parametrize("level", ["weak", "leader", "linearizable"])
    def test_a_written_sequence_is_part_of_a_session(self, level: str) -> None:
        options = {"stream": "a", "readConsistency": level, "sessionSequence": "5"}
        assert refusal(options).startswith("option sessionSequence is for a session: ")

    def test_two_starts_exclude_each_other(self) -> None:
        message = refusal({"stream": "a", "startingSequence": "1", "startingTime": "2026-01-01"})
        assert message == "options startingSequence and startingTime exclude each other: set one"

    @pytest.mark.parametrize(
        ("unit", "start", "end"),
        [("Sequence", "2", "1"), ("Time", "2026-01-02", "2026-01-01")],
    )
    def test_the_end_comes_after_the_start(self, unit: str, start: str, end: str) -> None:
        message = refusal({"stream": "a", f"starting{unit}": start, f"ending{unit}": end})
        assert message == f"option ending{unit}={end!r} lies before starting{unit}={start!r}"

    def test_what_only_some_tables_have(self) -> None:
        assert refusal({"stream": "a", "history": "false"}).startswith("option history")
        assert refusal({"objects": "a", "changes": "all"}).startswith("option changes")
        assert "allowed is all or latest" in refusal({"stream": "a", "changes": "some"})
        assert refusal({"objects": "a", "subjects": "b"}).startswith("option subjects")

    @pytest.mark.parametrize(
        ("options", "named"),
        [
            ({"url": "http://host"}, "option url"),
            ({"url": "nats://host:port"}, "option url"),
            ({"password": "secret"}, "option password"),
            ({"user": "u", "password": "secret", "token": "secret"}, "option token"),
            ({"nkey": "secret"}, "option nkey"),
            ({"creds": "no/such/file"}, "option creds"),
        ],
    )
    def test_a_login_is_tried_and_its_secrets_are_kept(
        self, options: dict[str, str], named: str
    ) -> None:
        message = refusal({"stream": "a", **options})
        assert message.startswith(named)
        assert "secret" not in message or options.get("nkey")

    def test_a_long_value_is_cut(self) -> None:
        assert len(refusal({"stream": "a", "failOnDataLoss": "x" * 10_000})) < 200


class TestUse:
    def test_a_batch_has_to_start_before_the_end(self) -> None:
        assert source(starting="earliest").check_batch()
        with pytest.raises(OptionError, match=r"^option starting=latest is for streaming reads"):
            source(starting="latest").check_batch()

    def test_a_streaming_read_gives_every_change(self) -> None:
        assert source(starting="latest", endingSequence="5").check_streaming()
        with pytest.raises(OptionError, match=r"^option history=false is for batch reads"):
            SourceOptions.parse({"bucket": "b", "history": "false"}).check_streaming()
        with pytest.raises(OptionError, match=r"^option changes=all is for streaming reads"):
            SourceOptions.parse({"bucket": "b", "changes": "all"}).check_batch()


class TestSink:
    def test_a_stream_is_enough(self) -> None:
        options = SinkOptions.parse({"stream": "orders"})
        assert options.stream == "orders"
        assert options.subject is None
        assert options.marker_bucket == "headwater_sinks"
        assert (options.max_in_flight, options.atomic) == (8192, "auto")
        assert pickle.loads(pickle.dumps(options)) == options

    def test_all_at_once(self) -> None:
        options = SinkOptions.parse(
            {
                "stream": "orders",
                "subject": "orders.new",
                "markerBucket": "marks",
                "maxInFlight": "1",
                "atomic": "always",
                "checkpointLocation": "x",
                "onChangedBatch": "skip",
                "txnAppId": "app",
                "txnVersion": "0",
                "onBadRow": "deadletter",
                "deadLetterStream": "DEAD",
            }
        )
        assert (options.subject, options.marker_bucket) == ("orders.new", "marks")
        assert (options.max_in_flight, options.atomic) == (1, "always")
        assert (options.checkpoint, options.on_changed_batch) == ("x", "skip")
        assert (options.txn_app_id, options.txn_version) == ("app", 0)
        assert options.dead_letter_stream == "DEAD"

    @pytest.mark.parametrize(
        ("options", "text"),
        [
            ({}, "set exactly one of the options stream or bucket: none was"),
            ({"objects": "o"}, "option objects is for reading"),
            ({"bucket": "b", "subject": "s"}, "option subject is for streams"),
            ({"stream": "s", "subject": "a.*"}, "option subject='a.*' is not valid"),
            ({"stream": "s", "subject": "a b"}, "option subject='a b' is not valid"),
            ({"stream": "s", "markerBucket": "a.b"}, "option markerBucket='a.b' is not valid"),
            ({"stream": "s", "maxInFlight": "65537"}, "option maxInFlight='65537' is not valid"),
            ({"stream": "s", "atomic": "yes"}, "option atomic='yes' is not valid"),
            ({"stream": "s", "subjects": "a"}, "option subjects is for reading: leave it out"),
            ({"stream": "s", "onChangedBatch": "x"}, "option onChangedBatch='x' is not valid"),
            ({"stream": "s", "onBadRow": "x"}, "option onBadRow='x' is not valid: allowed is fail"),
            ({"stream": "s", "onBadRow": "deadLetter"}, "options onBadRow=deadLetter and dead"),
            ({"stream": "s", "deadLetterStream": "D"}, "options onBadRow=deadLetter and dead"),
            (
                {"stream": "s", "onBadRow": "deadLetter", "deadLetterStream": "a.b"},
                "option deadLetterStream='a.b' is not valid",
            ),
            ({"stream": "s", "txnAppId": "a"}, "options txnAppId and txnVersion belong together"),
            ({"stream": "s", "txnVersion": "1"}, "options txnAppId and txnVersion belong together"),
            (
                {"stream": "s", "txnAppId": "a", "txnVersion": "-1"},
                "option txnVersion='-1' is not valid",
            ),
        ],
    )
    def test_refusals(self, options: dict[str, str], text: str) -> None:
        with pytest.raises(OptionError) as refused:
            SinkOptions.parse(options)
        assert str(refused.value).startswith(text)


class TestTimes:
    def test_a_date_is_the_start_of_its_day_in_utc(self) -> None:
        assert parse_point_in_time("1970-01-02") == DAY_NS

    def test_a_time_has_its_zone(self) -> None:
        assert parse_point_in_time("1970-01-02T02:00:00.5+02:00") == DAY_NS + 5 * 10**8
        assert parse_point_in_time(" 1970-01-02 00:00:00Z ") == DAY_NS
        with pytest.raises(ValueError, match="parsing time"):
            parse_point_in_time("1970-01-02T00:00:00")
