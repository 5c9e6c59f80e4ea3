"""`Table`: the declaration that entities join, and the entry to compilation."""

from collections.abc import Collection, Mapping, Sequence
from threading import Lock, RLock
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from odm.entities.companions import companions_of
from odm.entities.views import EntityView
from odm.errors import SchemaError
from odm.schema.checks import NAMES, is_name
from odm.schema.compile import compile_schema, complete
from odm.schema.model import Schema

if TYPE_CHECKING:
    from odm.entities.entity import Entity
    from odm.schema.lint.finding import Cloud, LintFinding


class Table:
    """One table for many entities (single-table design). Entities join it with ``class Order(Entity, table=shop)``.

    Args:
        name: the table's name on every backend: 3 to 255 of ``A-Z a-z 0-9 _ . -`` (on Bigtable at most 50).
        keys: the names of the partition and sort key attributes, for tables that exist already on DynamoDB. The
            second is not used where no primary key has a sort template.
        index_keys: by index name, those of an index that exists already: ``{"GSI1": ("GSI1PK", "GSI1SK")}``. Default:
            the name of the index with ``pk`` and ``sk`` behind it.
        row_key_join: what joins partition and sort key to a Bigtable row key; ``"##"`` is unambiguous whatever
            the templates are.
        exclusive: True: no other program writes items of its own under keys that these models make. Then a put, delete
            or batch does not look at what is there, and a filter or count does not look for such items. That saves a
            batch its reads, and a plain put on Bigtable is a single mutation. Default: an item that another program
            wrote is neither replaced nor removed, and every call that meets one reports it.

    Raises:
        SchemaError: the name or an option cannot be used.
    """

    def __init__(
        self,
        name: str,
        *,
        keys: Sequence[str] = ("pk", "sk"),
        index_keys: Mapping[str, Sequence[str]] = MappingProxyType({}),
        row_key_join: Literal["#", "##"] = "#",
        exclusive: bool = False,
    ) -> None:
        if not isinstance(name, str) or not is_name(name):
            raise SchemaError(f"Table({name!r}): a name has {NAMES}")
        if row_key_join not in ("#", "##"):
            raise SchemaError(f"Table({name!r}): row_key_join is '#' or '##', not {row_key_join!r}")
        if exclusive not in (True, False):
            raise SchemaError(f"Table({name!r}): exclusive is True or False, not {exclusive!r}")
        self.name = name
        takes = "takes two attribute names, partition and sort"
        unused = "(which is not used where no primary key has a sort template)"
        self.keys = _two_names(keys, f"Table({name!r}): keys {takes} {unused}")
        self.index_keys = {
            index: _two_names(names, f"Table({name!r}): index_keys[{index!r}] {takes}")
            for index, names in index_keys.items()
        }
        self.row_key_join = row_key_join
        self.exclusive = exclusive
        self._entities: list[tuple[type[Entity], str]] = []
        self.newest: Schema | None = (
            None  # read by stores at every call: None until `compile`, and when an entity joins
        )
        self._lock = Lock()
        self._with_companions: set[type[Entity]] = set()
        self._making = RLock()  # a class that joins while others are made may ask for the schema

    def add(self, entity: "type[Entity]", tag: str) -> None:
        """Take an entity into the table; called by ``class ...(Entity, table=...)``.

        A class that is declared again under the same name (a notebook cell that ran twice) replaces the earlier one.
        """
        name = (entity.__module__, entity.__qualname__)
        with self._lock:
            self._entities = [(e, t) for e, t in self._entities if (e.__module__, e.__qualname__) != name]
            self._entities.append((entity, tag))
            self.newest = None

    def compile(self) -> Schema:
        """Check all entities and compile them to a key schema. Done once; also at the first use of a store.

        Returns:
            The frozen schema.

        Raises:
            SchemaError: a fault in a model; the message names class, pattern, fault and fix.
        """
        schema = self.newest
        if schema is None:
            self._add_companions()
            with self._lock:
                schema = self.newest  # another thread may have been faster
                if schema is None:
                    schema = self.newest = compile_schema(
                        self.name,
                        tuple(self._entities),
                        keys=self.keys,
                        index_keys=self.index_keys,
                        row_key_join=self.row_key_join,
                        exclusive=self.exclusive,
                    )
        return schema

    def lint(self, *, ignore: Collection[str] = (), backend: "Cloud | None" = None) -> "list[LintFinding]":
        """What these models will cost in a cloud: hot partitions, items that overwrite each other, and the like.

        For a test: ``assert shop.lint() == []``. It sees declarations alone, and sends nothing. A comment beside a
        declaration, ``# odm: ignore[hot-partition]``, silences a rule there. The rules are in docs/lint.md.

        Args:
            ignore: names of rules that are left out.
            backend: "dynamodb" or "bigtable": what matters there alone; None: what matters on either.

        Returns:
            The findings, worst first.

        Raises:
            SchemaError: the models do not compile.
            BadValue: there is no such rule or backend.
        """
        from odm.schema.lint.linter import lint_schema  # a program that runs has no use for it

        return lint_schema(self.compile(), ignore, backend)

    def _add_companions(self) -> None:
        """Let the companions of every entity make the classes of their own items, which join the table."""
        with self._making:
            for entity, _ in tuple(self._entities):
                if entity not in self._with_companions:
                    companions = companions_of(entity)
                    if companions:  # they read its annotations
                        complete(entity)
                    for companion in companions:
                        companion.entities(entity)
                    self._with_companions.add(entity)

    def __repr__(self) -> str:
        return f"Table({self.name!r})"


def compiled(entity: type) -> EntityView:
    """What an entity is compiled to: for patterns and tools that need more of it than its declaration.

    Args:
        entity: its class.

    Returns:
        A read-only view: its patterns, the fields with a role, and `EntityView.validate`.

    Raises:
        SchemaError: the class has no table, or the models do not compile.
    """
    table: Table | None = getattr(entity, "__odm_table__", None)
    if table is None:
        raise SchemaError(f"{entity.__name__} has no table of its own: declare class {entity.__name__}(..., table=...)")
    return table.compile().entity(entity)


def _two_names(names: Sequence[str], takes: str) -> tuple[str, str]:
    if isinstance(names, str) or len(names) != 2 or len(set(names)) != 2 or not all(names):
        raise SchemaError(f"{takes}, not {names!r}")
    return names[0], names[1]
