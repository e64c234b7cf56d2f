"""The streams of scenarios have shadows, which find a record that is not the whole change."""

from tests.kit.shadow_faults import FAULT, faults_without_a_field
from tests.scenarios import script

REMOVAL = """server
| jetstream: enabled
connect app
app asks STREAM.CREATE.S {"name":"S","subjects":["s"]}
app publishes s one
app publishes s two
app asks STREAM.MSG.DELETE.S {"seq":1}
"""


def test_a_field_that_is_not_in_the_bytes_of_a_record_is_found() -> None:
    assert FAULT in faults_without_a_field(lambda: script.run(REMOVAL))
