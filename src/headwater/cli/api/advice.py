"""Advice on errors of the JetStream API, by their codes.

`{stream}` and `{consumer}` stand for the names in the request.
"""

from collections.abc import Mapping
from typing import Any, Final

from headwater.cli.shell.render import size_text
from headwater.client.api.answers import ApiRefusal

LIST_STREAMS: Final = "See what there is with: headwater stream ls"
SEE_LIMITS: Final = "See what the account may use with: headwater account info"
SEE_CONSUMERS: Final = "See the others with: headwater consumer ls {stream}"
SEE_CLUSTER: Final = "See the servers with: headwater cluster status"
SEE_PREFIXES: Final = "Use the prefixes of the other domain or account, or domain=NAME for api."
CHANGE_SETTING: Final = "Change the setting; --dry-run shows the configuration."

# Errors that a limit on bytes causes: the field in the account's information, its name for a
# person, and the server's setting.
EXCEEDED_LIMITS: Final = {
    10028: ("memory", "memory", "max_memory_store"),
    10047: ("storage", "file storage", "max_file_store"),
}

STREAM_ADVICE: Final = {
    10002: SEE_LIMITS,
    10005: f"Names, tags and the room of servers that are online decide. {SEE_CLUSTER}",
    10008: "The cluster has no leader at the moment; try again.",
    10010: "The server is not part of a cluster. Three servers to try: headwater cluster run",
    10023: SEE_LIMITS,
    10025: "Is the setting spelled right, and does this server know it? "
    "--dry-run shows the configuration.",
    10027: SEE_LIMITS,
    10028: SEE_LIMITS,
    10037: "See which sequences there are with: headwater stream info {stream}",
    10039: "Enable JetStream for the account, or connect as a user of another: --user, --creds.",
    10040: "See the servers of the stream with: headwater stream info {stream}",
    10044: SEE_CLUSTER,
    10047: SEE_LIMITS,
    10052: CHANGE_SETTING,
    **dict.fromkeys((10021, 10022, 10024), SEE_PREFIXES),
    **dict.fromkeys(
        (10030, 10046),
        "Allow messages as large as those of the origin with --max-msg-size, or let the option "
        "out.",
    ),
    10031: "Use --mirror for one stream, or --source for all of them.",
    **dict.fromkeys(
        (10032, 10140, 10144, 10145, 10146, 10147, 10150, 10151, 10152, 10154, 10213, 10215, 10216),
        "See the details of an origin with: headwater stream add --help",
    ),
    10034: "A mirror has the subjects of its origin: leave --subjects out, or use --source.",
    **dict.fromkeys(
        (10141, 10142), "The name of a stream has no dots, spaces, wildcards or slashes."
    ),
    **dict.fromkeys(
        (10143, 10173, 10186, 10187, 10198, 10209),
        "Leave the option out: a copy takes messages as its origin has them.",
    ),
    10055: "A mirror keeps its origin. It becomes a stream of its own with: "
    "headwater stream edit {stream} --no-mirror",
    10058: "Change it with: headwater stream edit {stream}",
    10059: LIST_STREAMS,
    10062: "Nothing was restored. Is the backup whole, and was it made by a server of this kind?",
    10064: "Nothing was backed up; try again.",
    10065: "See which stream has them with: headwater stream ls --subject SUBJECT",
    10074: "Use --replicas 1, or a server that is part of a cluster.",
    10075: "No other server can take the replica. Add a server to the cluster, or use fewer "
    "replicas: headwater cluster scale {stream} R",
    10076: "Start the server with -js.",
    10109: "A sealed stream stays as it is; remove it with: headwater stream rm {stream}",
    10110: "The stream denies purges; remove it as a whole with: headwater stream rm {stream}",
    10113: "Give a limit with --max-bytes.",
    10118: f"All servers that keep the stream are offline; start one of them. {SEE_CLUSTER}",
    10122: SEE_LIMITS,
    10123: "Do one, wait until it is done (headwater cluster wait-healthy), then the other.",
    10130: "Remove the stream first with: headwater stream rm {stream}",
    10185: "The server is too old for this.",
    10202: "Another change of the cluster's servers is under way; try again.",
    10226: "Wait until it is done with: headwater cluster wait-healthy",
    10901: "The message may be stored, or not. Publish it again under the same Nats-Msg-Id, "
    "so that it is stored once.",
}

CONSUMER_ADVICE: Final = {
    # Settings that do not go with one another: the server's words say which.
    **dict.fromkeys(
        (10079, 10080, 10081, 10082, 10083, 10086, 10087, 10088, 10089, 10093, 10094, 10095,
         10102, 10107, 10112, 10114, 10115, 10121, 10125, 10126, 10134, 10135, 10138, 10139,
         10153, 10161, 10162, 10178, 10181, 10182, 10183, 10184, 10197, 10218, 10219, 10220,
         10221, 10222),
        CHANGE_SETTING,
    ),
    10012: "A setting that cannot be changed needs a new consumer, without the old: "
    "headwater consumer rm {stream} {consumer}",
    10013: "Somebody listens to it. End that first, or use another name.",
    10014: "See what there is with: headwater consumer ls {stream}",
    10026: "See the limits with: headwater stream info {stream} and headwater account info",
    10084: "Use --ack explicit.",
    10098: "Use --ack explicit.",
    10099: f"Give each consumer a --filter of its own. {SEE_CONSUMERS}",
    10100: f"Give each consumer a --filter of its own. {SEE_CONSUMERS}",
    10101: "Use --deliver all.",
    10105: "Somebody listens to it. End that first, or use another name.",
    10108: "Say how often with --heartbeat.",
    10116: "Allow more deliveries with --max-deliver than --backoff has steps.",
    10148: "Change it with: headwater consumer edit {stream} {consumer}",
    10149: "Make it with: headwater consumer add {stream} {consumer}",
    10159: "Name one with --priority-group.",
    10160: "See which there are with: headwater consumer info {stream} {consumer}",
    10196: "Say how they are served with --priority-policy.",
}  # fmt: skip

ADVICE: Final = STREAM_ADVICE | CONSUMER_ADVICE
# Errors that share their code with others.
ADVICE_BY_WORDS: Final = {
    "detected cycle": "The messages of {stream} would come back to it. See which stream copies "
    "which with: headwater stream graph {stream}",
    "max staleness requires a mirror": "Use it with --mirror, or take it back with: "
    "headwater stream edit {stream} --unset max_staleness",
}


def refusal_text(refusal: ApiRefusal) -> str:
    """The server's words and its code."""
    description = refusal.description or f"error {refusal.code}"
    return f"{description} (err_code {refusal.err_code})"


def advice_on(err_code: int, stream: str, consumer: str, description: str = "") -> str:
    """The advice on an error; empty for one without advice."""
    text = ADVICE_BY_WORDS.get(description) or ADVICE.get(err_code, "")
    # A consumer that the server would have named has no name yet.
    return text.replace("{stream}", stream).replace("{consumer}", consumer).rstrip()


def limit_advice(err_code: int, account: Mapping[str, Any]) -> str:
    """The limit that a stream met, by the information of its account; empty if it is not in it."""
    field, label, setting = EXCEEDED_LIMITS[err_code]
    own = (account.get("limits") or {}).get(f"max_{field}", -1)
    shared = (account.get("server_limits") or {}).get(f"max_{field}")
    reserved = size_text(account.get(f"reserved_{field}") or 0)
    if own >= 0:
        holder, advice = f"The account may use {size_text(own)} of {label}", "Ask for less"
    elif shared is not None:
        holder = f"The server has {size_text(shared)} of {label} for all its accounts"
        advice = f"Ask for less, or raise {setting} in the server's configuration"
    else:
        return ""
    return f"{holder}; this account has set aside {reserved}. {advice}."
