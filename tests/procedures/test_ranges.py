"""A range of partitions has exactly the items whose fields are in it, as keys and as rows of Bigtable."""

from typing import Annotated, Any

from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field

from odm import Cell, Entity, PrimaryKey, Table
from odm.backends.bigtable.rows.keys import RowKeys
from odm.backends.bigtable.rows.pages import rows_of
from odm.expressions.evaluate import holds
from odm.procedures.reading.scan import partitions_of
from odm.protocol.requests import Scan

usual, doubled, verbatim = Table("usual"), Table("doubled", row_key_join="##"), Table("verbatim", row_style="verbatim")


class Plain(Entity, table=usual):
    region: str
    number: Annotated[int, Field(ge=0, lt=100)]
    sort: str = "s"

    primary = PrimaryKey("R#{region}#N#{number}", "{sort}")


class Text(Entity, table=usual):
    name: str
    sort: str = "s"

    primary = PrimaryKey("T#{name}", "{sort}")


class Padded(Entity, table=doubled):
    name: Annotated[str, Field(max_length=3)]
    sort: str = "s"

    primary = PrimaryKey("P#{name:<9}", "{sort}")


class Open(Entity, table=verbatim):
    name: str
    sort: str
    size: Annotated[int, Cell("f:size", "int64be")] = 0

    primary = PrimaryKey("{name}", "{sort}")


typed = Table("typed", row_style="verbatim")


class Typed(Entity, table=typed):
    number: int
    name: str
    sort: str
    kind: Annotated[int, Cell("f:kind", "int64be")] = 0

    primary = PrimaryKey("@{number:03}{name}", "{sort}")


NAMES = st.text("a!#$ bé~", min_size=1, max_size=3)
SPACELESS = st.text("a!$bé~", min_size=1, max_size=3)
UNHASHED = st.text("a! bé~/", min_size=1, max_size=3)
NUMBERS = st.integers(0, 99)
SORTS = st.text("a!b~", min_size=1, max_size=2)


def values(cls: type[Entity]) -> st.SearchStrategy[dict[str, Any]]:
    """Values of the fields of the partition."""
    found: dict[type[Entity], Any] = {
        Plain: st.fixed_dictionaries({"region": NAMES, "number": NUMBERS}),
        Text: st.fixed_dictionaries({"name": NAMES}),
        Padded: st.fixed_dictionaries({"name": SPACELESS}),
        Open: st.fixed_dictionaries({"name": UNHASHED}),
        Typed: st.fixed_dictionaries({"number": NUMBERS, "name": UNHASHED}),
    }
    one: st.SearchStrategy[dict[str, Any]] = found[cls]
    return one


def leading(cls: type[Entity]) -> st.SearchStrategy[dict[str, Any]]:
    """Values of one or more leading fields, in the order of the template."""
    order = [name for name in ("region", "number", "name") if name in cls.model_fields]
    return st.builds(lambda given, count: {name: given[name] for name in order[:count]}, values(cls), st.integers(1, 2))


def is_in(given: dict[str, Any], options: dict[str, dict[str, Any]]) -> bool:
    """Whether an item with these fields is in the range."""
    mine = {name: tuple(given[field] for field in bound) for name, bound in options.items()}
    if "prefix" in options:
        *same, last = options["prefix"].values()
        *have, end = mine["prefix"]
        return have == same and (end.startswith(last) if isinstance(last, str) else end == last)
    above = "start" not in options or mine["start"] >= tuple(options["start"].values())
    return above and ("stop" not in options or mine["stop"] < tuple(options["stop"].values()))


def check(cls: type[Entity], data: st.DataObject) -> None:
    table: Any = cls.__odm_table__
    schema = table.compile()
    entity, row_keys = schema.entity(cls), RowKeys.of(schema)
    options = data.draw(
        st.fixed_dictionaries({"prefix": leading(cls)})
        | st.fixed_dictionaries({"start": leading(cls)}, optional={"stop": leading(cls)})
        | st.fixed_dictionaries({"stop": leading(cls)})
    )
    found = partitions_of(entity, options.get("prefix"), options.get("start"), options.get("stop"), None)
    assert found is not None
    conditions = [entity.codec.lower(condition) for condition in found.conditions]
    rows = rows_of(Scan(partitions=found.partitions, tag=entity.tag), row_keys)
    for fields, sort in data.draw(st.lists(st.tuples(values(cls), SORTS), max_size=8)):
        item = cls.model_validate({**fields, "sort": sort})
        key, stored = entity.key(vars(item)), entity.codec.encode(item)
        row = row_keys.row_key(key)
        passes = all(holds(condition, stored) for condition in conditions)
        wanted = is_in(fields, options)
        assert (found.partitions.has(key.partition) and passes) == wanted
        assert (rows.start <= row and (rows.end is None or row < rows.end) and passes) == wanted


@given(st.data())
def test_of_several_fields(data: st.DataObject) -> None:
    check(Plain, data)


@given(st.data())
def test_of_text(data: st.DataObject) -> None:
    check(Text, data)


@given(st.data())
def test_of_padded_text(data: st.DataObject) -> None:
    check(Padded, data)


@given(st.data())
def test_of_keys_as_they_are(data: st.DataObject) -> None:
    check(Open, data)


@given(st.data())
def test_of_several_fields_of_keys_as_they_are(data: st.DataObject) -> None:
    check(Typed, data)
