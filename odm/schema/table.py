"""`Table`: the declaration that entities join. It compiles the schema."""

from collections.abc import Collection, Mapping, Sequence
from threading import Lock, RLock
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, overload

from odm._published import public, public_in
from odm.codec import TAG, TTL_ATTRIBUTE
from odm.codec.attributes import is_attribute_name
from odm.entities.companions import companions_of
from odm.entities.views import EntityView
from odm.errors import SchemaError, brief
from odm.hints import TABLE_OPTIONS, options_of
from odm.schema.checks import NAMES, OWN, is_name
from odm.schema.compile import Style, compile_schema, complete
from odm.schema.model import KeyNames, Schema, flat

if TYPE_CHECKING:
    from odm.entities.entity import Entity
    from odm.schema.lint.finding import Cloud, LintFinding


@public
@options_of(TABLE_OPTIONS)
class Table:
    """One table for many entities (single-table design). Entities join it with ``class Order(Entity, table=shop)``.

    Args:
        name: the table's name on every backend: 3 to 255 of ``A-Z a-z 0-9 _ . -`` (on Bigtable at most 50).
        keys: the names of the partition and sort key attributes on DynamoDB, or of the partition key only. The second
            is not used if no primary key has a sort template. A template of one field that is stored under the name of
            the attribute, as in ``"{user_id}"``, makes the attribute that field: stored once, as text, number or bytes.
        index_keys: by index name, the key attributes of an existing index: ``{"GSI1": ("GSI1PK", "GSI1SK")}``; one
            name: an index without sort key. A tuple of up to four names in place of a name: a key of several
            attributes, whose template names their fields, ``{tenant}#{region}``. An attribute may serve several indexes
            and the table. Default: the name of the index followed by ``pk`` and ``sk``.
        key_style: "escaped": keys sort as the values of their fields, whatever these contain. "verbatim": keys as other
            programs write them: any separators, and text as it is, which a value must not break. Then a field of a key
            is not an attribute of its own, unless ``Stored("name")`` names one.
        tag: the attribute that names the entity of an item on DynamoDB. None: items have none, and an entity is known
            by the form of its keys, or by ``match=`` of its class.
        ttl: the attribute with the expiry of items on DynamoDB, in epoch seconds. Default: ``_ttl``.
        keep_unknown: True: a put keeps the attributes of the stored item that its model does not have, as updates
            always do; on DynamoDB it is sent as an update. Batches refuse such puts. Default: a put replaces the whole
            item.
        row_key_join: the separator of partition and sort key in a Bigtable row key; ``"##"`` is unambiguous with any
            templates. With ``row_style="verbatim"``, any text, also none.
        layout: how Bigtable stores the items. "row_per_item": one row for each item, one cell for each attribute.
            "row_per_partition": one row for each partition, one cell for each item. Then writes of several items of a
            partition are atomic, and a partition should not have more than 100 MB. No effect on other backends.
        row_style: "verbatim": on Bigtable the rows have the form of other programs, which read and write them too. The
            row key is exactly the text of the templates, and a row has no cells of odm, only those of the fields, which
            `odm.Cell` names. All other cells of a row stay on every call. It implies ``key_style="verbatim"`` and
            ``tag=None``. An item exists if the row has one of its cells.
        exclusive: True: no other program writes items under keys that these models make. Then puts, deletes and batches
            do not check the stored item first, and filters and counts do not check tags. This saves the reads of a
            batch, and makes a plain put on Bigtable a single mutation. Default: items of other programs are never
            replaced or deleted, and a call that finds one raises an error.
        transactions: True: on Bigtable, transactions can have items of any rows, which odm locks while a transaction
            runs. The table has another name there, so that a program without it, which would not see the locks, does
            not find the table. Not with ``row_style="verbatim"``. See the section "Transactions" of docs/bigtable.md.
            No effect on DynamoDB and the bundled engine, which have such transactions in any case.

    Raises:
        SchemaError: the name or an option is not valid.
    """

    @overload
    def __init__(
        self,
        name: str,
        *,
        keys: Sequence[str] = ...,
        index_keys: Mapping[str, Sequence[str | Sequence[str]]] = ...,
        key_style: Literal["escaped", "verbatim"] = ...,
        tag: str | None = ...,
        ttl: str | None = ...,
        keep_unknown: bool = ...,
        row_key_join: Literal["#", "##"] = ...,
        row_style: Literal["own"] = ...,
        layout: Literal["row_per_item", "row_per_partition"] = ...,
        exclusive: bool = ...,
        transactions: bool = ...,
    ) -> None: ...
    @overload
    def __init__(
        self,
        name: str,
        *,
        index_keys: Mapping[str, Sequence[str | Sequence[str]]] = ...,
        keys: Sequence[str] = ...,
        key_style: Literal["escaped", "verbatim"] = ...,
        tag: None = ...,
        ttl: str | None = ...,
        keep_unknown: bool = ...,
        row_key_join: str = ...,
        row_style: Literal["verbatim"],
        layout: Literal["row_per_item"] = ...,
        exclusive: bool = ...,
    ) -> None: ...
    def __init__(  # noqa: PLR0913  # the options of a table
        self,
        name: str,
        *,
        keys: Sequence[str] = ("pk", "sk"),
        index_keys: Mapping[str, Sequence[str | Sequence[str]]] = MappingProxyType({}),
        key_style: Literal["escaped", "verbatim"] = "escaped",
        tag: str | None = TAG,
        ttl: str | None = None,
        keep_unknown: bool = False,
        row_key_join: str = "#",
        row_style: Literal["own", "verbatim"] = "own",
        layout: Literal["row_per_item", "row_per_partition"] = "row_per_item",
        exclusive: bool = False,
        transactions: bool = False,
    ) -> None:
        self.name = _checked(name)
        as_they_are = _check_rows(name, row_style, row_key_join, layout, tag)
        switches = {"exclusive": exclusive, "keep_unknown": keep_unknown, "transactions": transactions}
        _check_switches(name, switches, as_they_are=as_they_are)
        _check_choice(name, "key_style", key_style, "escaped", "verbatim")
        self.exclusive = exclusive
        self._style = Style(
            flat(_names(keys, f"Table({name!r}): keys {_TAKES} {_UNUSED}")),
            _index_names(name, index_keys),
            row_key_join,
            exclusive,
            key_style == "verbatim" or as_they_are,
            None if tag is None or as_they_are else _attribute(name, "tag", tag, TAG),
            TTL_ATTRIBUTE if ttl is None else _attribute(name, "ttl", ttl, TTL_ATTRIBUTE),
            keep_unknown,
            layout == "row_per_partition",
            as_they_are,
            transactions,
        )
        self._entities: list[tuple[type[Entity], str]] = []
        self.newest: Schema | None = None  # Read at every call; None until `compile`, and after an entity joins.
        self._lock = Lock()
        self._with_companions: set[type[Entity]] = set()
        self._making = RLock()  # a class that joins during `_make` may ask for the schema

    def add(self, entity: "type[Entity]", tag: str) -> None:
        """Add an entity to the table; called by ``class ...(Entity, table=...)``.

        A class that is declared again under the same name (a notebook cell that ran twice) replaces the earlier one.
        """
        name = (entity.__module__, entity.__qualname__)
        with self._lock:
            self._entities = [(e, t) for e, t in self._entities if (e.__module__, e.__qualname__) != name]
            self._entities.append((entity, tag))
            self.newest = None

    def compile(self) -> Schema:
        """Check all entities and compile them to a key schema, once; the first use of a store does it too.

        Returns:
            The frozen schema.

        Raises:
            SchemaError: a model is not valid; the message names the class, the pattern, the fault and the fix.

        Warns:
            UserWarning: a primary key has no placeholder, so that all items of the entity have one key.
        """
        return self._compiled(warn=True)

    def _compiled(self, *, warn: bool) -> Schema:
        schema = self.newest
        if schema is None:
            self._add_companions()
            with self._lock:
                schema = self.newest  # another thread may have compiled it
                if schema is None:
                    schema = compile_schema(self.name, tuple(self._entities), self._style)
                    # Keys as they are describe items that exist, and there may be one of a kind.
                    if (
                        warn
                        and not schema.verbatim
                        and any(not entity.primary.fields for entity in schema.entities.values())
                    ):
                        from odm.schema.lint.linter import warn_of_constant_keys  # imported here, as in lint()

                        warn_of_constant_keys(schema)
                    self.newest = schema
        return schema

    def lint(self, *, ignore: Collection[str] = (), backend: "Cloud | None" = None) -> "list[LintFinding]":
        """Find problems that these models cause in a cloud, such as hot partitions or items that overwrite each other.

        For a test: ``assert shop.lint() == []``. It checks declarations only, and sends nothing. It runs the validators
        of the models on examples, to see whether a read changes what they made. A comment next to a
        declaration, ``# odm: ignore[hot-partition]``, suppresses the rule there. The rules are in docs/lint.md.

        Args:
            ignore: names of rules to skip.
            backend: "dynamodb" or "bigtable": only findings for this backend; None: for both.

        Returns:
            The findings, worst first.

        Raises:
            SchemaError: the models do not compile.
            BadValue: there is no such rule or backend.
        """
        from odm.schema.lint.linter import lint_schema  # imported here: most programs never lint

        return lint_schema(self._compiled(warn=False), ignore, backend)  # which reports what compiling warns of

    def _add_companions(self) -> None:
        """Let the companions of every entity create their own entity classes, which join the table."""
        with self._making:
            for entity, _ in tuple(self._entities):
                if entity not in self._with_companions:
                    companions = companions_of(entity)
                    if companions:  # companions read the annotations
                        complete(entity)
                    for companion in companions:
                        companion.entities(entity)
                    self._with_companions.add(entity)

    def __repr__(self) -> str:
        return f"Table({self.name!r})"


@public_in("odm.extend")
def compiled(entity: type) -> EntityView:
    """The compiled entity, for patterns and tools that need more than the declaration.

    Args:
        entity: the class.

    Returns:
        A read-only view: its patterns, the fields with a role, and `EntityView.validate`.

    Raises:
        SchemaError: the class has no table, or the models do not compile.
    """
    table: Table | None = getattr(entity, "__odm_table__", None)
    if table is None:
        raise SchemaError(f"{entity.__name__} has no table of its own: declare class {entity.__name__}(..., table=...)")
    return table.compile().entity(entity)


_TAKES: Final = "takes one or two attribute names, partition and sort"
_SEVERAL: Final = "; a tuple of up to four names in place of a name is a key of several attributes"
_UNUSED: Final = "(the second is not used if no primary key has a sort template)"


def _checked(name: object) -> str:
    if not isinstance(name, str) or not is_name(name):
        raise SchemaError(f"Table({brief(name)}): a name has {NAMES}")
    return name


def _check_switches(table: str, switches: Mapping[str, object], *, as_they_are: bool) -> None:
    for option, choice in switches.items():
        _check_choice(table, option, choice, True, False)
    if as_they_are and switches["transactions"]:
        raise SchemaError(
            f'Table({table!r}): row_style="verbatim" has rows of other programs, which have no place for the locks of '
            "transactions: leave transactions= out, and keep in one row what must change together"
        )


def _check_choice(table: str, option: str, choice: object, *choices: object) -> None:
    if choice not in choices:
        raise SchemaError(f"Table({table!r}): {option} is {' or '.join(map(repr, choices))}, not {choice!r}")


def _check_rows(name: str, row_style: object, row_key_join: object, layout: object, tag: object) -> bool:
    """Check the options for rows of Bigtable; returns whether they have the form of other programs."""
    _check_choice(name, "row_style", row_style, "own", "verbatim")
    _check_choice(name, "layout", layout, "row_per_item", "row_per_partition")
    if row_style == "own":
        _check_choice(name, "row_key_join", row_key_join, "#", "##")
    elif tag not in (None, TAG) or layout != "row_per_item" or not isinstance(row_key_join, str):
        raise SchemaError(
            f'Table({name!r}): row_style="verbatim" has rows of other programs, without tag= and layout= of odm; '
            "the form of the row key, or match= of a class, shows the entity of a row, and row_key_join is a text"
        )
    return row_style == "verbatim"


def _index_names(table: str, index_keys: Mapping[str, Sequence[str | Sequence[str]]]) -> dict[str, KeyNames]:
    """The key attributes of the indexes that exist already."""
    takes = f"{_TAKES}{_SEVERAL}"
    return {
        index: _names(names, f"Table({table!r}): index_keys[{index!r}] {takes}", several=True)
        for index, names in index_keys.items()
    }


def _names(names: Sequence[str | Sequence[str]], takes: str, *, several: bool = False) -> KeyNames:
    attributes = (
        () if isinstance(names, str) else tuple(name if isinstance(name, str) else tuple(name) for name in names)
    )
    every = flat(attributes)
    fits = (
        1 <= len(attributes) <= 2
        and len({*every}) == len(every)
        and all(len(n) <= 4 for n in attributes if type(n) is tuple)
    )
    plain = several or not any(type(name) is tuple for name in attributes)
    if not fits or not plain or not all(isinstance(name, str) and is_attribute_name(name) for name in every):
        raise SchemaError(f"{takes}, not {names!r}")
    return attributes


def _attribute(table: str, option: str, name: str, default: str) -> str:
    if name != default and (not isinstance(name, str) or not is_attribute_name(name) or name in OWN):
        raise SchemaError(f"Table({table!r}): {option} is the name of an attribute of other programs, not {name!r}")
    return name
