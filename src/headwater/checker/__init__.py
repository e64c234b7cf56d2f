"""Histories of clients of one stream, and verdicts on them.

    history = History(StreamRules("ORDERS"))
    publish = history.begin(Publish(client="p", begin_s=now, subject="orders", body="1"))
    ...
    publish.sequence = ack.seq
    publish.complete(later)
    ...
    history.replicas = [...]
    insist(history)

`history` has the operations that clients record and the contents of the replicas at the end;
`judge` runs all checks. Streams with counters, schedules, times to live, roll-ups or pinned clients
have checks of their own (`insist_features`). Nothing in this package knows a server, a client
library or a clock.
"""

from headwater.checker.features import insist_features, judge_features
from headwater.checker.history import History, StreamRules
from headwater.checker.judge import insist, judge
from headwater.checker.verdict import BrokenPromise, Verdict

__all__ = [
    "BrokenPromise",
    "History",
    "StreamRules",
    "Verdict",
    "insist",
    "insist_features",
    "judge",
    "judge_features",
]
