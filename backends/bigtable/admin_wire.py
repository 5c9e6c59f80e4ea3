"""Native requests of the table admin service → Google's messages, and their responses → native responses."""

from typing import Any, NamedTuple, assert_never

from odm.backends.bigtable.native import (
    AdminCall,
    CreateTable,
    DeleteTable,
    Families,
    GetTable,
    ListTables,
    ModifyFamilies,
    Tables,
)


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

    name = f"{instance}/tables/{call.table}"
    match call:
        case CreateTable():
            create = types.CreateTableRequest.pb()(parent=instance, table_id=call.table)
            for family, versions in call.families.items():
                made = create.table.column_families[family]
                made.gc_rule.max_num_versions = abs(versions)
                if versions < 0:
                    made.value_type.aggregate_type.input_type.int64_type.encoding.big_endian_bytes.SetInParent()
                    made.value_type.aggregate_type.sum.SetInParent()
            return AdminMessage("create_table", types.CreateTableRequest.wrap(create))
        case ModifyFamilies():
            modify = types.ModifyColumnFamiliesRequest.pb()(name=name)
            for family, versions in call.create.items():
                modify.modifications.add(id=family).create.gc_rule.max_num_versions = versions
            for family, versions in call.update.items():
                modify.modifications.add(id=family).update.gc_rule.max_num_versions = versions
            return AdminMessage("modify_column_families", types.ModifyColumnFamiliesRequest.wrap(modify))
        case DeleteTable():
            return AdminMessage("delete_table", types.DeleteTableRequest(name=name))
        case GetTable():
            return AdminMessage("get_table", types.GetTableRequest(name=name, view=types.Table.View.SCHEMA_VIEW))
        case ListTables():
            return AdminMessage("list_tables", types.ListTablesRequest(parent=instance, page_token=call.page))
        case _:
            assert_never(call)


def read(call: AdminCall, response: Any) -> Families | Tables | None:
    """The native response, from the client's response."""
    match call:
        case GetTable():
            families = type(response).pb(response).column_families
            return {name: _collected(family.gc_rule) for name, family in sorted(families.items())}
        case ListTables():
            return Tables(tuple(table.name.rsplit("/", 1)[1] for table in response.tables), response.next_page_token)
        case _:
            return None


def _collected(rule: Any) -> str:
    """A garbage collection rule as ``cbt setgcpolicy`` writes it."""
    match rule.WhichOneof("rule"):
        case "max_num_versions":
            return f"maxversions={rule.max_num_versions}"
        case "max_age":
            return f"maxage={rule.max_age.ToTimedelta().total_seconds():g}s"
        case "union":
            return f"({' || '.join(map(_collected, rule.union.rules))})"
        case "intersection":
            return f"({' && '.join(map(_collected, rule.intersection.rules))})"
        case _:
            return "never"
