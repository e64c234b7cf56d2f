"""The bytes of all records: of streams, of their consumers, and of the set of streams.

`RecordCodec` encodes and decodes records; its module draws the layout. Each family of records has a
module with the bodies of its kinds. The journal of a stream holds the bodies of its consumers'
records too (`headwater.jetstream.consumers.codec`).
"""

from headwater.jetstream.codec.record_codec import RecordCodec

__all__ = ["RecordCodec"]
