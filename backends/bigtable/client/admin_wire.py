"""Native requests of the table admin service → Google's messages, and their responses → native responses."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, assert_never

from odm.backends.bigtable.client.native_admin import (
    DAY,
    AdminCall,
    Aggregate,
    ColumnFamily,
    CreateTable,
    DeleteTable,
    DropRows,
    GetTable,
    ListTables,
    ModifyFamilies,
    Settings,
    TableInfo,
    Tables,
    UpdateTable,
)
from odm.expressions.collection import AllOf, AnyOf, GCRule, MaxAge, MaxVersions, all_of, any_of


class AdminMessage(NamedTuple):
    """A method of the admin client, and its request."""

    method: str
    request: Any


def write(call: AdminCall, instance: str) -> AdminMessage:
    """The method call for a native request.

    Args:
        call: the request.
        instance: the full name of the instance.
    """
    from google.cloud.bigtable_admin_v2 import types  # slow to import, and rarely needed

    path = f"{instance}/tables/{call.table}"
    match call:
        case CreateTable():
            return AdminMessage("create_table", _create(call, instance, types))
        case UpdateTable():
            update = types.UpdateTableRequest.pb()(table={"name": path})
            settings = Settings(call.deletion_protection or False, call.stream, call.backups)
            _write_settings(settings, update.table)
            given = {field: getattr(call, name) for name, field in _SETTINGS.items()}
            update.update_mask.paths.extend(field for field, value in given.items() if value is not None)
            return AdminMessage("update_table", types.UpdateTableRequest.wrap(update))
        case ModifyFamilies():
            modify = types.ModifyColumnFamiliesRequest.pb()(name=path)
            for name, family in call.create.items():
                modify.modifications.add(id=name, create=_family(family))
            for name, family in call.update.items():
                modify.modifications.add(id=name, update=_family(ColumnFamily(family.gc)))
            return AdminMessage("modify_column_families", types.ModifyColumnFamiliesRequest.wrap(modify))
        case DeleteTable():
            return AdminMessage("delete_table", types.DeleteTableRequest(name=path))
        case DropRows():
            drop = types.DropRowRangeRequest(name=path)
            if call.prefix is None:
                drop.delete_all_data_from_table = True
            else:
                drop.row_key_prefix = call.prefix.encode("utf-8", "surrogateescape")
            return AdminMessage("drop_row_range", drop)
        case GetTable():
            return AdminMessage("get_table", types.GetTableRequest(name=path, view=types.Table.View.SCHEMA_VIEW))
        case ListTables():
            return AdminMessage("list_tables", types.ListTablesRequest(parent=instance, page_token=call.page))
        case _:
            assert_never(call)


def _create(call: CreateTable, instance: str, types: Any) -> Any:
    create = types.CreateTableRequest.pb()(parent=instance, table_id=call.table)
    _write_settings(call.settings, create.table)
    for split in call.splits:
        create.initial_splits.add(key=split.encode("utf-8", "surrogateescape"))
    for name, family in call.families.items():
        create.table.column_families[name].CopyFrom(_family(family))
    return types.CreateTableRequest.wrap(create)


def read(call: AdminCall, response: Any) -> TableInfo | Tables | None:
    """The native response, from the client's response."""
    match call:
        case GetTable():
            table = type(response).pb(response)
            families = {name: _read(family) for name, family in sorted(table.column_families.items())}
            return TableInfo(families, _read_settings(table))
        case ListTables():
            return Tables(tuple(table.name.rsplit("/", 1)[1] for table in response.tables), response.next_page_token)
        case _:
            return None


_SETTINGS: Final[Mapping[str, str]] = {
    "deletion_protection": "deletion_protection",
    "stream": "change_stream_config",
    "backups": "automated_backup_policy",
}
"""The fields of google.bigtable.admin.v2, Table, by the name of the setting."""


def _write_settings(settings: Settings, into: Any) -> None:
    into.deletion_protection = settings.deletion_protection
    if settings.stream is not None:
        into.change_stream_config.retention_period.FromTimedelta(settings.stream)
    if settings.backups is not None:
        into.automated_backup_policy.retention_period.FromTimedelta(settings.backups)
        into.automated_backup_policy.frequency.FromTimedelta(DAY)  # the only one that Google offers


def _read_settings(table: Any) -> Settings:
    stream, policy = table.change_stream_config, table.automated_backup_policy
    return Settings(
        table.deletion_protection,
        stream.retention_period.ToTimedelta() if table.HasField("change_stream_config") else None,
        policy.retention_period.ToTimedelta()
        if table.HasField("automated_backup_policy") and not policy.disabled
        else None,
    )


def _family(family: ColumnFamily) -> Any:
    """The message of a column family."""
    from google.cloud.bigtable_admin_v2 import types

    made = types.ColumnFamily.pb()()
    _write_rule(family.gc, made.gc_rule)
    if family.aggregate is not None:
        aggregate = made.value_type.aggregate_type
        getattr(aggregate, _AGGREGATORS[family.aggregate]).SetInParent()
        if family.aggregate == "hll":  # of any bytes
            aggregate.input_type.bytes_type.encoding.raw.SetInParent()
        else:
            aggregate.input_type.int64_type.encoding.big_endian_bytes.SetInParent()
    return made


_AGGREGATORS: Final[Mapping[Aggregate, str]] = {
    "sum": "sum",
    "min": "min_",
    "max": "max_",
    "hll": "hllpp_unique_count",
}
"""The fields of google.bigtable.admin.v2, Type.Aggregate.aggregator."""


def _write_rule(rule: GCRule | None, into: Any) -> None:
    match rule:
        case MaxVersions(count):
            into.max_num_versions = count
        case MaxAge(age):
            into.max_age.FromTimedelta(age)
        case AnyOf(rules):
            for part in rules:
                _write_rule(part, into.union.rules.add())
        case AllOf(rules):
            for part in rules:
                _write_rule(part, into.intersection.rules.add())
        case _:
            into.SetInParent()


def _read(family: Any) -> ColumnFamily:
    return ColumnFamily(_read_rule(family.gc_rule), _read_type(family))


def _read_rule(rule: Any) -> GCRule | None:
    match rule.WhichOneof("rule"):
        case "max_num_versions":
            return MaxVersions(rule.max_num_versions)
        case "max_age":
            return MaxAge(rule.max_age.ToTimedelta())
        case "union":
            found = [part for one in rule.union.rules if (part := _read_rule(one)) is not None]
            return any_of(found) if found else None
        case "intersection":
            every = [_read_rule(one) for one in rule.intersection.rules]
            found = [part for part in every if part is not None]
            return all_of(found) if found and len(found) == len(every) else None
        case _:
            return None


def _read_type(family: Any) -> Aggregate | None:
    if not family.HasField("value_type"):
        return None
    value = family.value_type
    if value.WhichOneof("kind") != "aggregate_type":
        return "other"
    kind = value.aggregate_type.WhichOneof("aggregator")
    for aggregate, field in _AGGREGATORS.items():
        if field == kind:
            return aggregate
    return "other"
