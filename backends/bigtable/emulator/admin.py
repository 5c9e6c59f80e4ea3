"""The table admin service: google.bigtable.admin.v2.BigtableTableAdmin.

Checks the settings of a table that production refuses (google.bigtable.admin.v2, table.proto and types.proto).
"""

from collections.abc import Container, Iterator, Sequence
from datetime import timedelta
from itertools import count
from typing import Any, Final

from google.cloud.bigtable_admin_v2 import types
from google.iam.v1 import iam_policy_pb2, policy_pb2
from google.longrunning import operations_pb2
from google.protobuf import empty_pb2

from odm.backends.bigtable.emulator import limits
from odm.backends.bigtable.emulator.calls import CallInfo, Method
from odm.backends.bigtable.emulator.families import FamilySettings
from odm.backends.bigtable.emulator.refusals import Refused, invalid, not_found
from odm.backends.bigtable.emulator.rows import Row
from odm.backends.bigtable.emulator.tables import Table, Tables, Writing

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


NAME: Final = "google.bigtable.admin.v2.BigtableTableAdmin"
OPERATIONS: Final = "google.longrunning.Operations"

NO_POLICY: Final = b"\x00\x20\x01"
"""The etag of a policy that nobody has set."""

PAGE: Final = 1000
"""The most tables of a page, and how many it has if a client does not say."""

_CHANGEABLE: Final = (
    "change_stream_config",
    "deletion_protection",
    "automated_backup_policy",
    "row_key_schema",
    "tiered_storage_config",
)
"""The fields that UpdateTable changes (google.bigtable.admin.v2, UpdateTableRequest.update_mask)."""

_TABLES: Final = "/tables/"


class AdminService:
    """Makes, changes and removes tables."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._operations: dict[str, Any] = {}
        self._policies: dict[str, Any] = {}
        self._numbers = count(1)

    def methods(self) -> dict[str, Method]:
        """The methods by name."""
        pb: dict[str, tuple[Any, Any]] = {
            "CreateTable": (self.create, types.CreateTableRequest),
            "ListTables": (self.list, types.ListTablesRequest),
            "GetTable": (self.get, types.GetTableRequest),
            "UpdateTable": (self.update, types.UpdateTableRequest),
            "DeleteTable": (self.delete, types.DeleteTableRequest),
            "ModifyColumnFamilies": (self.modify, types.ModifyColumnFamiliesRequest),
            "DropRowRange": (self.drop, types.DropRowRangeRequest),
            "GenerateConsistencyToken": (self.token, types.GenerateConsistencyTokenRequest),
            "CheckConsistency": (self.check, types.CheckConsistencyRequest),
        }
        methods = {name: Method(run, request.pb()) for name, (run, request) in pb.items()}
        methods["GetIamPolicy"] = Method(self.policy, iam_policy_pb2.GetIamPolicyRequest)
        methods["SetIamPolicy"] = Method(self.set_policy, iam_policy_pb2.SetIamPolicyRequest)
        methods["TestIamPermissions"] = Method(self.permissions, iam_policy_pb2.TestIamPermissionsRequest)
        return methods

    def operations(self) -> dict[str, Method]:
        """The methods of google.longrunning.Operations: all operations are done when they are answered."""
        return {"GetOperation": Method(self.operation, operations_pb2.GetOperationRequest)}

    def create(self, request: Any, call: CallInfo) -> Any:
        """Make a table."""
        if not limits.INSTANCE.fullmatch(request.parent):
            raise invalid(f"parent {request.parent!r} must be projects/<project>/instances/<instance>")
        if not limits.TABLE.fullmatch(request.table_id):
            raise invalid(f"table_id {request.table_id!r} must match {limits.TABLE.pattern}")
        splits = sorted({split.key for split in request.initial_splits if split.key})
        for split in splits:
            limits.check_key(split)
        families = {name: _family(name, family) for name, family in request.table.column_families.items()}
        check_settings(request.table, families)
        settings = types.Table.pb()()
        settings.CopyFrom(request.table)
        settings.ClearField("column_families")
        for output in ("cluster_states", "restore_info"):
            settings.ClearField(output)
        settings.granularity = settings.granularity or types.Table.TimestampGranularity.MILLIS
        settings.name = f"{request.parent}{_TABLES}{request.table_id}"
        table = self._tables.new(settings.name, settings, splits, families)
        self._tables.add(table)
        return _shown(table, _SCHEMA)

    def list(self, request: Any, call: CallInfo) -> Any:
        """A page of tables, by name."""
        if request.page_size < 0:
            raise invalid(f"page_size must not be negative, and is {request.page_size}")
        start = f"{request.parent}{_TABLES}"
        tables = sorted((table for table in self._tables if table.name.startswith(start)), key=lambda table: table.name)
        left = [table for table in tables if table.name > request.page_token]
        page = left[: min(request.page_size or PAGE, PAGE)]
        answer = types.ListTablesResponse.pb()()
        view = request.view or _NAME_ONLY
        answer.tables.extend(_shown(table, view) for table in page)
        if len(page) < len(left):
            answer.next_page_token = page[-1].name
        return answer

    def get(self, request: Any, call: CallInfo) -> Any:
        """A table with its families and settings."""
        return _shown(self._tables.get(request.name), request.view or _SCHEMA)

    def update(self, request: Any, call: CallInfo) -> Any:
        """Change settings; the operation is done when it is answered."""
        table = self._tables.get(request.table.name)
        changed = {path.partition(".")[0] for path in request.update_mask.paths}
        if not changed:
            raise invalid("update_mask must name the fields to change")
        if unknown := changed - {*_CHANGEABLE}:
            raise invalid(f"update_mask: {min(unknown)!r} cannot be changed")
        view = types.Table.pb()()
        for name in changed:
            if name == "deletion_protection":
                view.deletion_protection = request.table.deletion_protection
            elif request.table.HasField(name):
                getattr(view, name).CopyFrom(getattr(request.table, name))
        with table.held():
            check_settings(view, table.families)
            if table.settings.HasField("row_key_schema") and view.HasField("row_key_schema"):
                raise invalid("row_key_schema: a schema cannot be changed: remove it first")
            settings = types.Table.pb()()
            settings.CopyFrom(table.settings)
            for name in changed:
                settings.ClearField(name)
            settings.MergeFrom(view)
            table.set_settings(settings)
            return self._done(_shown(table, _SCHEMA), types.UpdateTableMetadata.pb()(name=table.name))

    def delete(self, request: Any, call: CallInfo) -> Any:
        """Remove a table."""
        table = self._tables.get(request.name)
        if table.settings.deletion_protection:
            raise _protected(table)
        self._tables.remove(request.name)
        self._policies.pop(request.name, None)
        return empty_pb2.Empty()

    def modify(self, request: Any, call: CallInfo) -> Any:
        """Change families, all or none."""
        table = self._tables.get(request.name)
        with table.held():
            families = dict(table.families)
            for modification in request.modifications:
                _modify(table, families, modification)
            check_settings(table.settings, families)
            table.set_families(families)
            return _shown(table, _SCHEMA)

    def drop(self, request: Any, call: CallInfo) -> Any:
        """Remove rows by a prefix of their keys, or all."""
        table = self._tables.get(request.name)
        kind = request.WhichOneof("target")
        if kind is None or (kind == "delete_all_data_from_table" and not request.delete_all_data_from_table):
            raise invalid("DropRowRange needs row_key_prefix or delete_all_data_from_table")
        if kind == "row_key_prefix" and not request.row_key_prefix:
            raise invalid("row_key_prefix must be non-empty")
        with table.held():
            Writing(table, {key: Row() for key in _beginning(table, request.row_key_prefix)}).commit()
        return empty_pb2.Empty()

    def token(self, request: Any, call: CallInfo) -> Any:
        """A token for `check`."""
        table = self._tables.get(request.name)
        return types.GenerateConsistencyTokenResponse.pb()(consistency_token=_token(table))

    def check(self, request: Any, call: CallInfo) -> Any:
        """Whether the writes before a token are everywhere: they are."""
        table = self._tables.get(request.name)
        if request.consistency_token != _token(table):
            raise invalid(f"{request.consistency_token!r} is not a token of table {table.name!r}")
        return types.CheckConsistencyResponse.pb()(consistent=True)

    def policy(self, request: Any, call: CallInfo) -> Any:
        """The policy of a table, which nothing enforces."""
        self._tables.get(request.resource)
        return self._policies.get(request.resource, policy_pb2.Policy(etag=NO_POLICY))

    def set_policy(self, request: Any, call: CallInfo) -> Any:
        """Set it."""
        self._tables.get(request.resource)
        self._policies[request.resource] = request.policy
        return request.policy

    def permissions(self, request: Any, call: CallInfo) -> Any:
        """The permissions of the caller: all that it asks for."""
        self._tables.get(request.resource)
        return iam_policy_pb2.TestIamPermissionsResponse(permissions=request.permissions)

    def operation(self, request: Any, call: CallInfo) -> Any:
        """An operation that was answered before."""
        if request.name not in self._operations:
            raise not_found(f"operation {request.name!r}")
        return self._operations[request.name]

    def _done(self, answer: Any, about: Any) -> Any:
        operation = operations_pb2.Operation(name=f"operations/{next(self._numbers)}", done=True)
        operation.response.Pack(answer)
        operation.metadata.Pack(about)
        self._operations[operation.name] = operation
        return operation


_NAME_ONLY: Final = types.Table.View.NAME_ONLY
_SCHEMA: Final = types.Table.View.SCHEMA_VIEW
_REPLICATION: Final = (types.Table.View.REPLICATION_VIEW, types.Table.View.ENCRYPTION_VIEW, types.Table.View.FULL)


def _shown(table: Table, view: int) -> Any:
    """A google.bigtable.admin.v2.Table message with the fields of a view."""
    answer = types.Table.pb()(name=table.name)
    if view == _NAME_ONLY:
        return answer
    with table.changed:
        if view in (_SCHEMA, types.Table.View.FULL):
            answer.CopyFrom(table.settings)
            for name, family in table.families.items():
                answer.column_families[name].CopyFrom(family.message)
        if view in _REPLICATION:
            answer.cluster_states["emulator"].replication_state = types.Table.ClusterState.ReplicationState.READY
    return answer


def _family(name: str, message: Any) -> FamilySettings:
    if not limits.FAMILY.fullmatch(name):
        raise invalid(f"Column family id {name!r} must match {limits.FAMILY.pattern}")
    copy = type(message)()
    copy.CopyFrom(message)
    return FamilySettings(copy)


def _modify(table: Table, families: dict[str, FamilySettings], one: Any) -> None:
    kind, name = one.WhichOneof("mod"), one.id
    if kind == "create":
        if name in families:
            raise Refused("ALREADY_EXISTS", f"column family {name!r} of table {table.name!r} already exists")
        families[name] = _family(name, one.create)
        return
    if name not in families:
        raise not_found(f"column family {name!r} of table {table.name!r}")
    if kind == "drop" and one.drop:
        if table.settings.deletion_protection:
            raise _protected(table)
        del families[name]
    elif kind == "update":
        families[name] = _updated(families[name], one)
    else:
        raise invalid(f"the modification of column family {name!r} must set create, update or drop")


def _updated(family: FamilySettings, one: Any) -> FamilySettings:
    """A family with another rule; the type of its values cannot be changed to or from an aggregate."""
    changed: Sequence[str] = one.update_mask.paths or ["gc_rule"]
    settings = type(family.message)()
    settings.CopyFrom(family.message)
    for path in changed:
        if path == "gc_rule":
            settings.gc_rule.CopyFrom(one.update.gc_rule)
        elif path == "value_type" and not _is_aggregate(settings) and not _is_aggregate(one.update):
            settings.value_type.CopyFrom(one.update.value_type)
        elif path.startswith("value_type"):
            raise invalid(f"column family {one.id!r}: Immutable fields 'value_type.aggregate_type' cannot be updated")
        else:
            raise invalid(f"column family {one.id!r}: {path} cannot be updated")
    return FamilySettings(settings)


def _is_aggregate(message: Any) -> bool:
    return bool(message.value_type.WhichOneof("kind") == "aggregate_type")


def _beginning(table: Table, prefix: bytes) -> Iterator[bytes]:
    """The keys of a table that begin with a prefix."""
    for key in table.rows.irange(prefix):
        if not key.startswith(prefix):
            return
        yield key


def _token(table: Table) -> str:
    return f"TokenFor-{table.name}"


def _protected(table: Table) -> Refused:
    return Refused("FAILED_PRECONDITION", f"table {table.name!r} is protected against deletion")
