"""Rules for the messages of a consumer: its filters and its start.

A filter must not contain another one; apart from that two filters may have messages in common, as
in nats-server. The order of the rules is nats-server's.
"""

from typing import Final

from headwater.jetstream import error_codes
from headwater.jetstream.config.consumer_config import ConsumerConfig, DeliverPolicy
from headwater.jetstream.config.stream_checks.overlap import ALL
from headwater.jetstream.config.stream_checks.subjects import (
    BAD_SUBJECT,
    TOO_MANY_SUBJECTS,
    invalid,
    is_valid_subject,
)
from headwater.jetstream.errors import ApiError

_ANY: Final = "*"
# A request with very many filters must not delay all other clients while they are compared.
_STEPS_MAX: Final = 30_000

_POLICY_WORDS: Final = {
    DeliverPolicy.ALL: "all",
    DeliverPolicy.LAST: "last",
    DeliverPolicy.LAST_PER_SUBJECT: "last per subject",
    DeliverPolicy.NEW: "new",
    DeliverPolicy.BY_START_SEQUENCE: "by start sequence",
    DeliverPolicy.BY_START_TIME: "by start time",
}


def check_filters(config: ConsumerConfig) -> None:
    """Refuse filters that are not subjects, and filters that contain one another."""
    if config.filter_subject and config.filter_subjects:
        raise ApiError.of(error_codes.CONSUMER_DUPLICATE_FILTER_SUBJECTS)
    if config.filter_subject and not is_valid_subject(config.filter_subject):
        raise invalid(BAD_SUBJECT)
    if "" in config.filter_subjects:
        raise ApiError.of(error_codes.CONSUMER_EMPTY_FILTER)
    tree = _Tree(config.filter_subjects)
    for subject in config.filter_subjects:
        if not is_valid_subject(subject):
            raise invalid(BAD_SUBJECT)
        # Each subject contains itself.
        if tree.count_containing(subject) > 1:
            raise ApiError.of(error_codes.CONSUMER_OVERLAPPING_SUBJECT_FILTERS)


class _Node:
    """Filters that begin with the same tokens."""

    __slots__ = ("children", "ending", "open_tokens")

    def __init__(self) -> None:
        self.children: dict[str, _Node] = {}
        # Tokens of children that nats-server treats as a wildcard here: they begin like one.
        self.open_tokens: list[str] = []
        self.ending = 0


class _Tree:
    """Filters; counts those that contain a subject."""

    __slots__ = ("_root", "_steps_left")

    def __init__(self, subjects: tuple[str, ...]) -> None:
        self._root = _Node()
        self._steps_left = _STEPS_MAX
        for subject in subjects:
            node = self._root
            for token in subject.split("."):
                child = node.children.get(token)
                if child is None:
                    child = node.children[token] = _Node()
                    if token.startswith(_ANY):
                        node.open_tokens.append(token)
                node = child
                if token == ALL:
                    break
            node.ending += 1

    def count_containing(self, subject: str) -> int:
        """The number of filters that match everything that `subject` matches."""
        tokens = subject.split(".")
        count = 0
        ahead = [(self._root, 0)]
        while ahead:
            node, depth = ahead.pop()
            if depth == len(tokens):
                count += node.ending
                continue
            if ALL in node.children:
                count += node.children[ALL].ending
            following = self._following(node, tokens[depth])
            ahead += [(node.children[each], depth + 1) for each in following]
        return count

    def _following(self, node: _Node, token: str) -> list[str]:
        if token == ALL:
            return []
        if token == _ANY:
            return [_ANY] if _ANY in node.children else []
        self._steps_left -= len(node.open_tokens)
        if self._steps_left < 0:
            raise invalid(TOO_MANY_SUBJECTS)
        if token.startswith(_ANY) or token not in node.children:
            return node.open_tokens
        return [*node.open_tokens, token]


def check_start(config: ConsumerConfig) -> None:
    """Refuse a start without its policy, and a policy without its start."""
    policy = config.deliver_policy
    if policy is DeliverPolicy.BY_START_SEQUENCE:
        if config.opt_start_seq == 0:
            raise _without(policy, "start sequence")
    elif policy is DeliverPolicy.BY_START_TIME:
        if config.opt_start_time is None:
            raise _without(policy, "start time")
        if config.opt_start_seq != 0:
            raise _with(policy, "start sequence")
    elif config.opt_start_seq != 0:
        raise _with(policy, "sequence")
    if policy is not DeliverPolicy.BY_START_TIME and config.opt_start_time is not None:
        raise _with(policy, "time")
    if policy is DeliverPolicy.LAST_PER_SUBJECT and not config.filters:
        raise _without(policy, "filter subject")


def _with(policy: DeliverPolicy, start: str) -> ApiError:
    text = f"deliver {_POLICY_WORDS[policy]}, but optional start {start} is also set"
    return _refused(text)


def _without(policy: DeliverPolicy, missing: str) -> ApiError:
    return _refused(f"deliver {_POLICY_WORDS[policy]}, but optional {missing} is not set")


def _refused(text: str) -> ApiError:
    err = f"consumer delivery policy is {text}"
    return ApiError.of(error_codes.CONSUMER_INVALID_POLICY, err=err)
