"""Native requests as Google's protobuf messages, with the service and method to call."""

import re
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias, assert_never
from urllib.parse import urlencode

from attrs import frozen
from google.api_core.client_info import ClientInfo
from google.api_core.gapic_v1.client_info import METRICS_METADATA_KEY
from google.cloud.bigtable import __version__ as vendor_version
from google.cloud.bigtable_v2 import types as data

from odm.backends.bigtable import admin_wire
from odm.backends.bigtable.clients import Service
from odm.backends.bigtable.commit import COMMIT_WITHIN
from odm.backends.bigtable.encoding import field, mutations_of
from odm.backends.bigtable.filters import (
    AnyFamily,
    Before,
    Behind,
    Chain,
    Column,
    ColumnRange,
    Family,
    Filter,
    First,
    Interleave,
    Newest,
    Nothing,
    Stripped,
    Unless,
    ValueIs,
    ValueMatches,
    ValueRange,
)
from odm.backends.bigtable.messages import REQUESTS
from odm.backends.bigtable.native import (
    Call,
    CheckAndMutateRow,
    CreateTable,
    DeleteTable,
    GetTable,
    Increment,
    ListTables,
    ModifyFamilies,
    MutateRow,
    MutateRows,
    ReadModifyWriteRow,
    ReadRows,
    SampleRowKeys,
)
from odm.backends.bigtable.retry import ATTEMPT_SECONDS

ADMIN_SECONDS = 300.0
"""The deadline of a change of a table, in seconds; Google's default for CreateTable."""

Metadata: TypeAlias = tuple[tuple[str, str], ...]


def _agent() -> str:
    info = ClientInfo(gapic_version=vendor_version)  # type: ignore[no-untyped-call]
    return str(info.to_user_agent())  # type: ignore[no-untyped-call]


_FEATURES: Final = urlsafe_b64encode(data.FeatureFlags.serialize(data.FeatureFlags(reverse_scans=True))).decode()
_ABOUT: Final[Metadata] = (
    ("bigtable-features", _FEATURES),  # servers do reverse scans only for clients that declare support for it
    (METRICS_METADATA_KEY, _agent()),
)
"""The metadata about this client, sent with every request for data."""


class Message(NamedTuple):
    """A method call: the service, its method, the request, the deadline in seconds, and metadata."""

    service: Service
    method: str
    request: Any
    timeout: float
    metadata: Metadata = ()


@frozen
class Wire:
    """Builds the messages for one instance.

    Attributes:
        instance: the full name, ``projects/<project>/instances/<instance>``.
        app_profile: the app profile of every request for data; "" is the instance's default.
        seconds: the deadline of an attempt.
    """

    instance: str
    app_profile: str
    seconds: float = ATTEMPT_SECONDS

    def message(self, call: Call) -> Message:
        """The method call for a native request."""
        match call:
            case ReadRows() | MutateRow() | MutateRows() | CheckAndMutateRow() | ReadModifyWriteRow() | SampleRowKeys():
                return self._data(call)
            case CreateTable() | ModifyFamilies() | DeleteTable() | GetTable() | ListTables():
                seconds = self.seconds if isinstance(call, GetTable | ListTables) else ADMIN_SECONDS
                return Message("admin", *admin_wire.write(call, self.instance), seconds)
            case _:
                assert_never(call)

    def _data(self, call: Any) -> Message:
        method = type(call).__name__
        request = REQUESTS[method](table_name=self._table(call), app_profile_id=self.app_profile)
        _FILL[type(call)](request, call)
        # a commit that is applied late must still find its claims
        seconds = min(self.seconds, COMMIT_WITHIN) if isinstance(call, CheckAndMutateRow) else self.seconds
        return Message("data", method, request, seconds, _routed(request.table_name, self.app_profile))

    def _table(self, call: Call) -> str:
        return f"{self.instance}/tables/{call.table}"


@lru_cache(maxsize=256)
def _routed(table: str, app_profile: str) -> Metadata:
    """The metadata of a request; the service routes the request by the first entry."""
    params = {"table_name": table} | ({"app_profile_id": app_profile} if app_profile else {})
    return (("x-goog-request-params", urlencode(params)), *_ABOUT)


def _fill_nothing(request: Any, call: SampleRowKeys) -> None:
    """SampleRowKeys has no fields but the table's name."""


def _fill_read(request: Any, call: ReadRows) -> None:
    request.rows_limit = call.limit or 0
    request.reversed = call.reverse
    _fill_filter(request.filter, call.filter)
    if call.keys:
        request.rows.row_keys.extend(map(_key, call.keys))
        return
    row_range = request.rows.row_ranges.add()
    if call.range.open:
        row_range.start_key_open = _key(call.range.start)
    elif call.range.start:
        row_range.start_key_closed = _key(call.range.start)
    if call.range.end is not None:
        row_range.end_key_open = _key(call.range.end)


def _fill_mutate(request: Any, call: MutateRow) -> None:
    request.row_key = _key(call.entry.key)
    request.MergeFromString(mutations_of(3, call.entry.mutations))


def _fill_mutate_rows(request: Any, call: MutateRows) -> None:
    entries = (field(1, _key(entry.key)) + mutations_of(2, entry.mutations) for entry in call.entries)
    request.MergeFromString(b"".join([field(2, entry) for entry in entries]))


def _fill_check(request: Any, call: CheckAndMutateRow) -> None:
    """Without a predicate, the server checks whether the row has any cell."""
    request.row_key = _key(call.key)
    if call.predicate is not None:
        _fill_filter(request.predicate_filter, call.predicate)
    request.MergeFromString(mutations_of(4, call.matched) + mutations_of(5, call.unmatched))


def _fill_rules(request: Any, call: ReadModifyWriteRow) -> None:
    request.row_key = _key(call.key)
    for rule in call.rules:
        added = request.rules.add()
        added.family_name, added.column_qualifier = rule.family, rule.qualifier.encode()
        if isinstance(rule, Increment):
            added.increment_amount = rule.by
        else:
            added.append_value = rule.value


def _fill_filter(target: Any, wanted: Filter) -> None:
    match wanted:
        case Newest():
            target.cells_per_column_limit_filter = 1
        case Column(family, qualifier):
            columns = target.column_range_filter
            columns.family_name = family
            columns.start_qualifier_closed = columns.end_qualifier_closed = qualifier.encode()
        case ColumnRange(family, start, end):
            columns = target.column_range_filter
            columns.family_name = family
            columns.start_qualifier_closed = start.encode()
            if end:
                columns.end_qualifier_open = end.encode()
        case Family(name):
            target.family_name_regex_filter = re.escape(name)
        case AnyFamily(names):
            target.family_name_regex_filter = "|".join(map(re.escape, names))
        case ValueIs(value):
            target.value_range_filter.start_value_closed = target.value_range_filter.end_value_closed = value
        case ValueRange(start, end, is_open):
            _fill_values(target.value_range_filter, start, end, is_open=is_open)
        case ValueMatches(pattern):
            target.value_regex_filter = pattern
        case Before(micros):
            target.timestamp_range_filter.end_timestamp_micros = micros
        case First(cells):
            target.cells_per_row_limit_filter = cells
        case Behind(cells):
            target.cells_per_row_offset_filter = cells
        case Stripped():
            target.strip_value_transformer = True
        case Nothing():
            target.block_all_filter = True
        case Chain() | Interleave() | Unless():
            _fill_compound(target, wanted)
        case _:
            assert_never(wanted)


def _fill_compound(target: Any, wanted: Chain | Interleave | Unless) -> None:
    match wanted:
        case Chain(filters):
            for part in filters:
                _fill_filter(target.chain.filters.add(), part)
        case Interleave(filters):
            for part in filters:
                _fill_filter(target.interleave.filters.add(), part)
        case Unless(condition, otherwise):
            _fill_filter(target.condition.predicate_filter, condition)
            target.condition.true_filter.block_all_filter = True
            _fill_filter(target.condition.false_filter, otherwise)


def _fill_values(values: Any, start: bytes, end: bytes | None, *, is_open: bool) -> None:
    if is_open:
        values.start_value_open = start
    else:
        values.start_value_closed = start
    if end is not None:
        values.end_value_open = end


def _key(row_key: str) -> bytes:
    return row_key.encode("utf-8", "surrogateescape")


_FILL: Final[Mapping[type, Callable[[Any, Any], None]]] = {
    ReadRows: _fill_read,
    MutateRow: _fill_mutate,
    MutateRows: _fill_mutate_rows,
    CheckAndMutateRow: _fill_check,
    ReadModifyWriteRow: _fill_rules,
    SampleRowKeys: _fill_nothing,
}
