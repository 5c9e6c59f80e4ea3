"""Checks the settings of a table that production refuses (google.bigtable.admin.v2, table.proto and types.proto)."""

from collections.abc import Container
from datetime import timedelta
from typing import Any, Final

from google.cloud.bigtable_admin_v2 import types

from odm.backends.bigtable.emulator.refusals import invalid

RETENTION: Final = timedelta(days=1), timedelta(days=7)
"""The least and the longest retention of a change stream (https://cloud.google.com/bigtable/docs/change-streams-overview)."""


def check_settings(message: Any, families: Container[str]) -> None:
    """Refuse settings.

    Args:
        message: the google.bigtable.admin.v2.Table.
        families: the names of the table's families.

    Raises:
        Refused: production would refuse them.
    """
    if message.HasField("change_stream_config"):
        kept, (least, most) = message.change_stream_config.retention_period.seconds, RETENTION
        if not least.total_seconds() <= kept <= most.total_seconds():
            days = f"from {least.days} to {most.days} days"
            raise invalid(f"change_stream_config.retention_period must be {days}, not {kept} seconds")
    if message.granularity not in {*types.Table.TimestampGranularity}:
        raise invalid(f"granularity {message.granularity} is not known")
    if message.HasField("row_key_schema"):
        _check_schema(message.row_key_schema, families)


def _check_schema(schema: Any, families: Container[str]) -> None:
    encoding = schema.encoding.WhichOneof("encoding")
    if encoding is None:
        raise invalid("row_key_schema.encoding must be set")
    if encoding == "delimited_bytes" and not schema.encoding.delimited_bytes.delimiter:
        raise invalid("row_key_schema.encoding.delimited_bytes.delimiter must not be empty")
    if encoding == "singleton" and len(schema.fields) != 1:
        raise invalid(f"row_key_schema.encoding.singleton is for one field, not for {len(schema.fields)}")
    for field in schema.fields:
        if field.field_name in families:
            raise invalid(f"row_key_schema: field {field.field_name!r} has the name of a column family")
