"""The `cluster` section, in nats-server's words."""

import pytest

from headwater.server.configuration.cluster_section import parse_route_url
from headwater.server.configuration.flags import RunServer, parse_command_line
from headwater.server.configuration.keys import ConfigError, load_config
from headwater.server.configuration.options import (
    ClusterOptions,
    Options,
    OptionsError,
    Permissions,
    RouteUrl,
    SubjectPermission,
)
from headwater.server.configuration.reload_plan import changed_options


def cluster(text: str) -> ClusterOptions:
    return load_config("c", lambda _: text.encode(), {}).options.cluster


def warnings(text: str) -> list[str]:
    return [*load_config("c", lambda _: text.encode(), {}).warnings]


def complaint(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load_config("c", lambda _: text.encode(), {})
    return str(caught.value).removeprefix("c:").rstrip()


def test_all_of_it() -> None:
    found = cluster("""
        cluster {
            name: C, listen: "127.0.0.1:6222"
            authorization { user: a, password: b, timeout: 3 }
            routes: [ "nats://u:p%40@h:1", "nats-route://[::1]:2" ]
            advertise: "far:1", no_advertise: true
            connect_retries: 4, connect_backoff: true
            ping_interval: "3s", ping_max: 5, write_deadline: "2s"
            heartbeat_interval: "50ms", election_timeout: "2s", unclean_wait: "5s"
            permissions { import: ["a"], export { deny: "b" } }
        }
    """)
    assert found == ClusterOptions(
        name="C",
        host="127.0.0.1",
        port=6222,
        username="a",
        password="b",
        auth_timeout_s=3.0,
        routes=(RouteUrl("h", 1, "u", "p@"), RouteUrl("::1", 2)),
        advertise="far:1",
        no_advertise=True,
        connect_retries=4,
        connect_backoff=True,
        ping_interval_s=3.0,
        ping_max=5,
        write_deadline_s=2.0,
        heartbeat_interval_s=0.05,
        election_timeout_s=2.0,
        unclean_wait_s=5.0,
        permissions=Permissions(SubjectPermission(("a",)), SubjectPermission(deny=("b",))),
    )


def test_a_section_without_a_port_is_no_cluster() -> None:
    assert not load_config("c", lambda _: b"cluster { name: C }", {}).options.is_clustered


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("cluster: 5", "1:0: Expected map to define cluster, got int64"),
        ('cluster { name: "a b" }', "1:10: cluster name cannot contain spaces"),
        ("cluster { foo: 1 }", '1:10: unknown field "foo"'),
        ('cluster { listen: "abc" }', '1:10: could not parse address string "abc"'),
        (
            "cluster { authorization { users: [{user: a, password: b}] } }",
            "1:10: Cluster authorization does not allow multiple users",
        ),
        (
            "cluster { authorization { token: a } }",
            "1:10: Cluster authorization does not support tokens",
        ),
        (
            'cluster { port: 1, routes: ["nats://x:abc"] }',
            '1:29: error parsing route url ["nats://x:abc"]',
        ),
        (
            'cluster { port: 1, routes: "nats://x:1" }',
            "1:19: interface conversion: interface {} is string, not []interface {}",
        ),
        (
            'cluster { port: 1, permissions: { import: ["a"], allow_responses: true } }',
            "1:19: Cluster permissions do not support dynamic responses",
        ),
        (
            'cluster { port: 1, permissions: { export: "a q" } }',
            '1:19: cluster export allow: subject "a q" is not a valid subject',
        ),
    ],
)
def test_values_that_are_refused(text: str, reason: str) -> None:
    assert complaint(text) == reason


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        (
            "cluster { port: 1, authorization { user: a, permissions: { import: a } } }",
            'c:1:19: invalid use of field "authorization": '
            'setting "permissions" within cluster authorization block is deprecated',
        ),
        (
            'cluster { port: 1, routes: ["nats://x:1","nats://x:1"] }',
            'c:1:42: invalid use of field "nats://x:1": Duplicate route entry detected',
        ),
        (
            'cluster { port: 1, ping_interval: "5m" }',
            "c:1:19: Cluster 'ping_interval' will reset to 30s which is the max for routes",
        ),
    ],
)
def test_values_that_are_warned_about(text: str, warning: str) -> None:
    assert warnings(text) == [warning]


def test_permissions_of_the_section_win_over_those_of_its_authorization() -> None:
    found = cluster(
        "cluster { port: 1, permissions { import: b }, "
        "authorization { user: a, permissions: { import: a } } }"
    )
    assert found.permissions.publish == SubjectPermission(("b",))


@pytest.mark.parametrize("text", ["", "nats://", "nats://h", "nats://h:x", "nats://[h:1", "h:1"])
def test_texts_that_are_no_route(text: str) -> None:
    assert parse_route_url(text) is None


def run(*flags: str) -> Options:
    command = parse_command_line(["-c", "c", *flags], lambda _: b"port: 1\n", {})
    assert isinstance(command, RunServer)
    return command.options


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        (
            "-js --cluster nats://127.0.0.1:-1",
            "jetstream cluster requires `server_name` to be set",
        ),
        (
            "-js -n s --cluster nats://127.0.0.1:-1",
            "jetstream cluster requires `cluster.name` to be set",
        ),
        ("--cluster nats://h:1 --cluster_advertise a:b:c", "invalid Cluster.Advertise value"),
        ("--cluster nats://h:1 --cluster_advertise a:65536", "invalid Cluster.Advertise value"),
        (
            f"--cluster nats://h:1 -n {'n' * 256}",
            f'server name "{"n" * 256}" is longer than 255 bytes; choose another one',
        ),
        (
            "--cluster nats://h:1 --cluster_name a\x1bb",
            r'cluster name "a\\x1bb" has a blank or a control character',
        ),
    ],
)
def test_options_that_contradict_each_other(flags: str, reason: str) -> None:
    with pytest.raises(OptionsError, match=reason.replace(".", "[.]")):
        run(*flags.split())


def test_the_flag_of_an_address_without_credentials_clears_those_of_the_file() -> None:
    text = b"cluster { listen: 'h:1', authorization { user: a, password: b } }"
    command = parse_command_line(["-c", "c", "--cluster", "nats://h:-1"], lambda _: text, {})
    assert isinstance(command, RunServer)
    assert command.options.cluster == ClusterOptions(host="h", port=-1)
    command = parse_command_line(["-c", "c", "--cluster", ""], lambda _: text, {})
    assert isinstance(command, RunServer)
    assert not command.options.is_clustered


class TestReload:
    old = Options(cluster=ClusterOptions(name="C", port=6222))

    @pytest.mark.parametrize(
        ("new", "lines"),
        [
            (ClusterOptions(name="C", port=6222, username="a"), ("cluster",)),
            (ClusterOptions(name="C", port=6222, routes=(RouteUrl("h", 1),)), ("cluster routes",)),
            (
                ClusterOptions(name="C", port=6222, ping_max=7, routes=(RouteUrl("h", 1),)),
                ("cluster", "cluster routes"),
            ),
            (ClusterOptions(name="C", port=-1), ()),
        ],
    )
    def test_takes_over(self, new: ClusterOptions, lines: tuple[str, ...]) -> None:
        plan = changed_options(self.old, Options(cluster=new))
        assert (plan.error, plan.changes) == ("", lines)

    @pytest.mark.parametrize(
        ("new", "reason"),
        [
            (ClusterOptions(name="C", port=1), "cluster port: old=6222, new=1"),
            (ClusterOptions(name="C"), "cluster port: old=6222, new=0"),
            (ClusterOptions(name="C", port=6222, host="h"), "cluster host: old=0.0.0.0, new=h"),
            (
                ClusterOptions(name="C", port=6222, heartbeat_interval_s=0.2),
                "cluster heartbeat_interval: old=0.1s, new=0.2s",
            ),
            (
                ClusterOptions(name="C", port=6222, election_timeout_s=3.0),
                "cluster election_timeout: old=1s, new=3s",
            ),
            (
                ClusterOptions(name="C", port=6222, unclean_wait_s=3.0),
                "cluster unclean_wait: old=10s, new=3s",
            ),
        ],
    )
    def test_refuses(self, new: ClusterOptions, reason: str) -> None:
        plan = changed_options(self.old, Options(cluster=new))
        assert plan.error == f"config reload not supported for {reason}"


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ('heartbeat_interval: "-1s"', "cluster heartbeat_interval must be positive"),
        ('heartbeat_interval: "400ms"', "election_timeout is shorter than three heartbeats"),
        ('election_timeout: "299ms"', "election_timeout is shorter than three heartbeats"),
        ('unclean_wait: "-1s"', "cluster unclean_wait cannot be negative"),
    ],
)
def test_settings_that_would_elect_all_the_time_are_refused(settings: str, reason: str) -> None:
    with pytest.raises(OptionsError, match=reason):
        Options(cluster=cluster(f"cluster {{ {settings} }}")).validate()
