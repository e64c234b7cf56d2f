"""Bodies of API requests: strict JSON as the oracle reads it, down to the texts of its parser."""

from tests.interop.case import Catalogue
from tests.interop.jetstream import JETSTREAM, LAX, JetStreamClient, jetstream
from tests.interop.observation import Observation
from tests.interop.session import Session

catalogue = Catalogue(JETSTREAM)


def created(session: Session, name: str, *bodies: str) -> Observation:
    """The reply to a create with each body: the error, or the configuration it understood."""
    js = jetstream(session, name)
    return {body: understood(js, name, body) for body in bodies}


def understood(js: JetStreamClient, name: str, body: str) -> Observation:
    reply = js.api(f"STREAM.CREATE.{name}", body)
    js.api(f"STREAM.DELETE.{name}")
    told: Observation = reply.get("error") or reply["config"]
    return told


@catalogue.case("js.json.unknown-field", text='invalid JSON: json: unknown field "unknown"')
def unknown_field(session: Session) -> Observation:
    """A field the server does not know is refused by name, inside other objects too."""
    return created(
        session,
        "UNKNOWN-FIELD",
        '{"name":"UNKNOWN-FIELD","unknown":1}',
        '{"name":"UNKNOWN-FIELD","placement":{"unknown":1}}',
        '{"name":"UNKNOWN-FIELD","PersistMode":"async"}',
        '{"name":"UNKNOWN-FIELD","template_owner":"x"}',
        '{"name":"UNKNOWN-FIELD","":1}',
    )


@catalogue.case("js.json.unknown-field-lax", setup=LAX)
def unknown_field_lax(session: Session) -> Observation:
    """With `strict: false` an unknown field is ignored, wrong types and broken JSON are not."""
    return created(
        session,
        "LAX",
        '{"name":"LAX","unknown":1,"max_msgs":5}',
        '{"name":"LAX","max_msgs":"5"}',
        '{"name":"LAX"',
        '{"name":"LAX"}{"max_msgs":5}',
    )


@catalogue.case("js.json.case-insensitive")
def case_insensitive(session: Session) -> Observation:
    """Names of fields match in any case; of two the later counts."""
    return created(
        session,
        "CASES",
        '{"NAME":"CASES","Max_Msgs":3,"PERSIST_MODE":"async"}',
        '{"name":"CASES","max_msgs":3,"MAX_MSGS":4}',
        '{"name":"CASES","MAX_MSGS":4,"max_msgs":3}',
        '{"name":"CASES","max_mſgs":3}',
    )


@catalogue.case("js.json.enum-values", text='invalid JSON: can not unmarshal "\\"Limits\\""')
def enum_values(session: Session) -> Observation:
    """Values of the named settings are lower case words, nothing else."""
    values = (
        '"retention":"Limits"',
        '"retention":""',
        '"retention":1',
        '"retention":null',
        '"discard":"newest"',
        '"discard":true',
        '"storage":"disk"',
        '"storage":"any"',
        '"compression":"gzip"',
        '"compression":null',
        '"persist_mode":"sync"',
        '"persist_mode":1',
    )
    return created(session, "ENUMS", *(f'{{"name":"ENUMS",{value}}}' for value in values))


@catalogue.case(
    "js.json.wrong-types",
    text="invalid JSON: json: cannot unmarshal string into Go struct field",
)
def wrong_types(session: Session) -> Observation:
    """A value of the wrong type is refused with the field, the type found and the one needed."""
    values = (
        '"max_msgs":"5"',
        '"max_msgs":5.5',
        '"max_msgs":1e2',
        '"max_msgs":true',
        '"max_msgs":{}',
        '"max_msgs":9223372036854775808',
        '"max_msg_size":2147483648',
        '"max_consumers":[]',
        '"max_age":"1s"',
        '"first_seq":-1',
        '"num_replicas":1.0',
        '"sealed":1',
        '"no_ack":"true"',
        '"description":1',
        '"subjects":"a"',
        '"subjects":[1]',
        '"metadata":{"a":1}',
        '"metadata":[]',
        '"placement":"x"',
        '"placement":{"tags":"x"}',
        '"republish":[]',
        '"subject_transform":{"src":1}',
        '"consumer_limits":{"max_ack_pending":"1"}',
        '"pedantic":1',
    )
    return created(session, "TYPES", *(f'{{"name":"TYPES",{value}}}' for value in values))


@catalogue.case("js.json.nulls")
def nulls(session: Session) -> Observation:
    """A null leaves a setting at its default."""
    names = ("subjects", "max_msgs", "description", "metadata", "placement", "sealed", "republish")
    settings = ",".join(f'"{name}":null' for name in names)
    return created(session, "NULLS", f'{{"name":"NULLS",{settings}}}')


@catalogue.case("js.json.broken", text="invalid JSON: unexpected EOF")
def broken(session: Session) -> Observation:
    """Broken JSON is refused with the mistake and where it was found."""
    return created(
        session,
        "BROKEN",
        "x",
        "{",
        '{"name"',
        '{"name":}',
        '{"name":"BROKEN",}',
        '{"name":"BROKEN" "max_msgs":1}',
        "{'name':'BROKEN'}",
        '{"name":"BROKEN","max_msgs":01}',
        '{"name":"BROKEN\\x"}',
        '{"name":"BROKEN","sealed":tru}',
        '{"name":"BRO\nKEN"}',
        '{"name":"BROKEN"',
        '{"name":"BROKEN","max_msgs":-}',
        '{"name":"BROKEN","max_msgs":+1}',
        '{"name":"BROKEN","max_msgs":NaN}',
        '{"name":"BROKEN","subjects":["a"',
        '{"name":"BROKEN}',
    )


@catalogue.case("js.json.not-an-object")
def not_an_object(session: Session) -> Observation:
    """JSON that is no object is refused by its type; null is an empty object."""
    return created(session, "NOT-OBJECT", "[]", '"text"', "5", "true", "null", "[{}]")


@catalogue.case("js.json.trailing")
def trailing(session: Session) -> Observation:
    """White space may follow; so may a second object, which adds to the first; other text not."""
    return created(
        session,
        "TRAILING",
        ' \r\n\t{"name":"TRAILING"} \r\n',
        '{"name":"TRAILING"}{"max_msgs":7}',
        '{"name":"TRAILING","max_msgs":7} {"max_msgs":8}',
        '{"name":"TRAILING"} null',
        '{"name":"TRAILING"}x',
        '{"name":"TRAILING"}}',
        '{"name":"TRAILING"}{"unknown":1}',
    )


@catalogue.case("js.json.escapes")
def escapes(session: Session) -> Observation:
    """Escapes are read, and a lone surrogate is read as the replacement character."""
    return created(
        session,
        "ESCAPES",
        '{"\\u006eame":"ESCAPES","description":"\\u00e9\\ud83d\\ude00\\n\\/"}',
        '{"name":"ESCAPES","description":"\\ud83d!"}',
    )


@catalogue.case("js.json.invalid-utf8")
def invalid_utf8(session: Session) -> Observation:
    """Bytes that are no UTF-8 are read as replacement characters."""
    js = jetstream(session, "UTF8")
    return js.api("STREAM.CREATE.UTF8", b'{"name":"UTF8","description":"\xff-\xc3("}')


@catalogue.case("js.json.nesting", text="invalid JSON: exceeded max depth")
def nesting(session: Session) -> Observation:
    """A value nested ten thousand deep is refused for that."""
    js = jetstream(session)
    return js.api("STREAM.CREATE.DEEP", '{"name":"DEEP","x":' + "[" * 10001)


@catalogue.case("js.json.repeated-field")
def repeated_field(session: Session) -> Observation:
    """A field twice: the later value counts, maps and objects are filled by both."""
    return created(
        session,
        "REPEATED",
        '{"name":"x","name":"REPEATED"}',
        '{"name":"REPEATED","metadata":{"a":"1"},"metadata":{"b":"2"}}',
        '{"name":"REPEATED","placement":{"cluster":"a"},"placement":{"tags":["b"]}}',
        '{"name":"REPEATED","subjects":["rf.a","rf.b"],"subjects":["rf.c"]}',
        '{"name":"REPEATED","max_msgs":5,"max_msgs":null}',
    )


@catalogue.case("js.json.each-api")
def each_api(session: Session) -> Observation:
    """A body that is no JSON is refused by calls that need one, and ignored if it is optional."""
    js = jetstream(session, "GARBAGE")
    js.create("GARBAGE")
    js.fill("GARBAGE")
    calls = (
        "INFO",
        "STREAM.UPDATE.GARBAGE",
        "STREAM.NAMES",
        "STREAM.LIST",
        "STREAM.INFO.GARBAGE",
        "STREAM.MSG.GET.GARBAGE",
        "STREAM.MSG.DELETE.GARBAGE",
        "STREAM.PURGE.GARBAGE",
        "STREAM.DELETE.GARBAGE",
    )
    return {call: js.api(call, "garbage").get("error", "accepted") for call in calls}


@catalogue.case("js.json.each-api-unknown-field")
def each_api_unknown_field(session: Session) -> Observation:
    """Every request that has fields refuses one it does not know."""
    js = jetstream(session, "FIELDS")
    js.create("FIELDS")
    js.fill("FIELDS")
    calls = (
        "INFO",
        "STREAM.UPDATE.FIELDS",
        "STREAM.NAMES",
        "STREAM.LIST",
        "STREAM.INFO.FIELDS",
        "STREAM.MSG.GET.FIELDS",
        "STREAM.MSG.DELETE.FIELDS",
        "STREAM.PURGE.FIELDS",
        "STREAM.DELETE.FIELDS",
    )
    return {call: js.api(call, '{"bogus":1}').get("error", "accepted") for call in calls}


@catalogue.case("js.json.each-api-empty-object")
def each_api_empty_object(session: Session) -> Observation:
    """An empty object, blanks around it included, counts as no body."""
    js = jetstream(session, "EMPTY-BODY")
    js.create("EMPTY-BODY")
    js.fill("EMPTY-BODY")
    calls = (
        "INFO",
        "STREAM.CREATE.EMPTY-BODY",
        "STREAM.UPDATE.EMPTY-BODY",
        "STREAM.NAMES",
        "STREAM.LIST",
        "STREAM.INFO.EMPTY-BODY",
        "STREAM.MSG.GET.EMPTY-BODY",
        "STREAM.MSG.DELETE.EMPTY-BODY",
        "STREAM.PURGE.EMPTY-BODY",
        "STREAM.DELETE.EMPTY-BODY",
    )
    told = {}
    for body in ("", "{}", " { } "):
        js.create("EMPTY-BODY")
        told[body] = {call: js.api(call, body).get("error", "accepted") for call in calls}
    return told


@catalogue.case("js.json.wrong-types-elsewhere")
def wrong_types_elsewhere(session: Session) -> Observation:
    """Fields of the other requests have types too."""
    js = jetstream(session, "OTHER-TYPES")
    js.create("OTHER-TYPES")
    calls = (
        ("STREAM.NAMES", '{"offset":"1"}'),
        ("STREAM.NAMES", '{"subject":1}'),
        ("STREAM.LIST", '{"offset":1.5}'),
        ("STREAM.INFO.OTHER-TYPES", '{"deleted_details":"yes"}'),
        ("STREAM.INFO.OTHER-TYPES", '{"subjects_filter":[]}'),
        ("STREAM.INFO.OTHER-TYPES", '{"offset":"x"}'),
        ("STREAM.INFO.OTHER-TYPES", "[]"),
        ("STREAM.MSG.GET.OTHER-TYPES", '{"seq":"1"}'),
        ("STREAM.MSG.GET.OTHER-TYPES", '{"seq":-1}'),
        ("STREAM.MSG.GET.OTHER-TYPES", '{"start_time":"yesterday"}'),
        ("STREAM.MSG.GET.OTHER-TYPES", '{"start_time":1}'),
        ("STREAM.MSG.GET.OTHER-TYPES", '{"no_hdr":1}'),
        ("STREAM.MSG.DELETE.OTHER-TYPES", '{"seq":1.5}'),
        ("STREAM.MSG.DELETE.OTHER-TYPES", '{"no_erase":1}'),
        ("STREAM.PURGE.OTHER-TYPES", '{"keep":-1}'),
        ("STREAM.PURGE.OTHER-TYPES", '{"seq":"1"}'),
        ("STREAM.PURGE.OTHER-TYPES", '{"filter":{}}'),
    )
    return {f"{call} {body}": js.api(call, body).get("error") for call, body in calls}
