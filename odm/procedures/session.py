"""The session of a store: its context and connection, and the checks of a call's arguments."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Generic, NoReturn, TypeVar

from pydantic import ConfigDict, Field

from odm._published import public
from odm.entities.patterns import BoundPattern
from odm.entities.query import Finding, Query
from odm.errors import BackendError, BadCursor, BadValue, ItemTooLarge, Unsupported, brief
from odm.expressions.build import checked
from odm.expressions.nodes import Condition
from odm.hints import PAGE, Hinted
from odm.immutable import Immutable, evolve
from odm.planner.key_conditions import owner_of
from odm.procedures.context import Context
from odm.procedures.reading import read
from odm.procedures.reading.read import Reading
from odm.protocol.connection import Connection, CoreGen
from odm.protocol.requests import Part, Position

if TYPE_CHECKING:
    from odm.procedures.raw import RawItem
    from odm.procedures.reading.scan import Scanning, Segment


T_co = TypeVar("T_co", covariant=True)


@public
@dataclass(frozen=True)  # not of attrs: pydantic knows generic dataclasses, and does not validate them again
class Page(Hinted, Generic[T_co]):
    """One page of results. ``Page[Order]`` is also a type for pydantic, such as the response model of an API.

    Attributes:
        items: the results; fewer than requested only at the end, or after ``max_requests``.
        cursor: pass it as ``after=`` to get the next page; None exactly if no result follows. After ``max_requests``,
            it is None only if no result follows.
        previous: pass it as ``after=`` to get the page before, with its items in the order of the query; None on the
            first page, and on every page of ``scan_page``. The page before shows what is stored there now, so after new
            items the first page may be shorter.
    """

    _odm_hints: ClassVar = PAGE
    __pydantic_config__: ClassVar = ConfigDict(
        # Its items are validated for the type of the page: one that is an instance of it already stays as it is.
        revalidate_instances="always",
        json_schema_extra={"description": "One page of results."},
    )

    items: Sequence[T_co]
    cursor: Annotated[str | None, Field(description="Leads to the next page; null if no result follows.")] = None
    previous: Annotated[str | None, Field(description="Leads to the page before; null on the first page.")] = None

    if not TYPE_CHECKING:

        def __iter__(self) -> NoReturn:
            raise TypeError("a page is not a list: loop over page.items; page.cursor leads to the next page")

        def __getitem__(self, position: object) -> NoReturn:
            raise TypeError(f"a page is not a list: take page.items[{brief(position)}]")

        def __len__(self) -> NoReturn:
            raise TypeError("a page is not a list: write len(page.items), or db.count(query) for those of all pages")

        def __bool__(self) -> bool:  # without this, bool() calls __len__
            return True


class Session(Immutable):
    """One table on one connection.

    Attributes:
        context: the schema and the settings of the store.
        connection: answers the requests.
        backend: the name of the backend, part of each cursor of a scan.
        secret: the key that signs cursors.
        retry_safe: an update may be retried when its answer was lost.
    """

    context: Context
    connection: Connection[Any]
    backend: str
    secret: bytes | None = None
    retry_safe: bool = False

    def query(self, query: object) -> Query[Any]:
        """The argument, if it is a query.

        Raises:
            BadValue: it is not a query.
        """
        if isinstance(query, Query):
            return query
        if isinstance(query, Finding):
            query.refuse("query")
        if isinstance(query, BoundPattern):
            raise BadValue(f"{brief(query)} is a pattern: call it with values to make a query")
        entity = self.context.schema.by_class.get(query) if isinstance(query, type) else None
        if entity is None:
            raise BadValue(
                f"{brief(query)} is not a query: call a pattern, such as Order.by_date(...), or select(Order)"
            )
        raise BadValue(
            f"{entity.name} is an entity class, not a query: call a pattern, as in {entity.key_call}, write "
            f"select({entity.name}).where(...), or read all with scan({entity.name})"
        )

    def begin(
        self, query: object, *, consistent: bool = True, after: str | None = None, only: object = None
    ) -> Reading | None:
        """A reading of a query, from its start or from a cursor; None if no key can match.

        Raises:
            BadValue: the argument is not a query, or does not fit the models.
            BadCursor: the cursor is damaged or belongs to another query.
        """
        resolved = self.query(query)
        if after is not None and (not isinstance(after, str) or not after):
            raise BadCursor(f"{brief(after)} is not a cursor: pass None for the first page, then page.cursor")
        reading = read.begin(self.context, resolved, consistent=consistent, only=only)
        if after is None or reading is None:
            return reading
        from odm.procedures.reading.cursor import decode_cursor

        return decode_cursor(self.context.schema, reading, after, self.secret)

    def start(self, query: object, *, end: bool = False) -> str | None:
        """The cursor at which a query begins, or that goes back from its end; None if no key can match.

        Raises:
            BadValue: the end is asked for, and the query has a limit.
        """
        reading = self.begin(query)
        if not end or reading is None:
            return self._cursor(reading)
        if reading.remaining is not None:
            raise BadValue(f"start({query}, end=True): leave out limit(), the place of whose last result is not known")
        return self._cursor(reading.turned(read.Place(reading.plan.reading_order[-1]), None))

    def _cursor(self, reading: Reading | None) -> str | None:
        from odm.procedures.reading.cursor import encode_cursor

        return None if reading is None else encode_cursor(self.context.schema, reading, self.secret)

    def page(self, reading: Reading | None, size: int, max_requests: int | None = None) -> CoreGen[Page[Any]]:
        """A page of a reading, with the cursors of the pages around it.

        Raises:
            BadValue: the size or the number of requests is out of range.
            Unsupported: the number of requests cannot be limited.
        """
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            raise BadValue(f"page(size={brief(size)}): give the number of items a page, an int of 1 or more")
        if max_requests is not None:
            _check_requests(reading, max_requests)
        if reading is None:
            return Page([])
        try:
            items, *around = yield from read.page(self.context, reading, size, max_requests)
        except (ItemTooLarge, BackendError) as error:
            if not reading.binding or not _is_long(reading.place.position):
                raise
            raise BadCursor(_LONG) from error
        further, before = (self._cursor(neighbour) for neighbour in around)
        return Page(items[::-1], before, further) if reading.back else Page(items, further, before)

    def begin_scan(
        self,
        entity: type | None,
        conditions: Sequence[object],
        **options: Any,
    ) -> "Scanning | None":
        """A scan of the table; None: no item can be found. The options are as for `scan.begin`.

        Raises:
            BadValue: a condition does not fit the model, or an option is out of range.
            Unsupported: a range of partitions that have no order.
        """
        from odm.procedures.reading import scan

        if isinstance(entity, Condition):
            owner = owner_of(entity)
            name = "Order" if owner is None else owner.__name__
            raise BadValue(f"scan() takes the entity first: scan({name}, {entity})")
        if entity is not None and not isinstance(entity, type):
            raise BadValue(f"scan() takes an entity class, not {brief(entity)}")
        filters = [checked(condition, "scan()") for condition in conditions]
        return scan.begin(self.context, entity, filters, **options)

    def parts(self, parts: int) -> CoreGen[list[str]]:
        """The cursors at which parts of the table begin."""
        from odm.procedures import raw

        segments = yield from raw.segments(parts)
        return [self.place(segment) for segment in segments]

    def scan_page(
        self, after: object, size: int, *, expired: bool, consistent: bool, where: object = None
    ) -> "CoreGen[Page[RawItem]]":
        """A page of a part of the table, with the cursor of the next page."""
        from odm.procedures import raw

        segment = self.segment(after)
        chosen = None if where is None else self.query(where)
        try:
            items, further = yield from raw.scan_page(
                self.context, segment, size, expired=expired, consistent=consistent, where=chosen
            )
        except (ItemTooLarge, BackendError) as error:
            if not _is_long(segment.after, segment.part):
                raise
            raise BadCursor(_LONG) from error
        except Unsupported as error:
            if segment.number is None:
                raise
            raise BadCursor(f"the cursor is not one of {self.backend}, which does not number the parts") from error
        return Page(items, None if further is None else self.place(evolve(segment, after=further)))

    def segment(self, after: object) -> "Segment":
        """The segment to read: from a cursor, or the whole table from its beginning.

        Raises:
            BadCursor: the cursor is damaged or belongs to another table or backend.
        """
        from odm.procedures.reading.scan import Segment

        if after is None:
            return Segment()
        if not isinstance(after, str) or not after:
            raise BadCursor(
                f"{brief(after)} is not a cursor: pass None, one of parts(), or the cursor of the page before"
            )
        from odm.procedures.reading.cursor import decode_segment

        return decode_segment(self.context.schema, self.backend, after, self.secret)

    def place(self, segment: "Segment") -> str:
        """The cursor of a position in a scan."""
        from odm.procedures.reading.cursor import encode_segment

        return encode_segment(self.context.schema, self.backend, segment, self.secret)


_LONG: Final = "the cursor's place is longer than a key can be: start again without a cursor"

_SHORTEST: Final = 1024
"""The most bytes of a key that every service accepts: of a sort key of DynamoDB."""


def _is_long(position: Position | None, part: Part | None = None) -> bool:
    """Whether a service may refuse a position for its length; a client can make a cursor of any length."""
    keys = () if position is None else (position.key, position.index_key or ())
    limits = () if part is None else (part.start, part.end or "")
    return any(len(text) * 4 > _SHORTEST for text in (*limits, *(text for key in keys for text in key)))


def _check_requests(reading: Reading | None, most: object) -> None:
    """Raise an error if a page cannot be read with at most so many requests."""
    if type(most) is not int or most < 1:
        raise BadValue(
            f"page(max_requests={brief(most)}): give the most requests to send, an int of 1 or more, or None"
        )
    plan = None if reading is None else reading.plan
    if plan is not None and plan.leaving:
        raise Unsupported(
            f"page(max_requests={most}): while the entries of {plan.pattern.full_name} move to other shards, their old "
            "shards are read first, as far as it takes: leave max_requests= out until reshard() has moved all of them "
            "and was= is removed"
        )
    if plan is not None and most < len(plan.shards):
        raise BadValue(
            f"page(max_requests={most}): {plan.query} reads {len(plan.shards)} shards, each with a request of its own: "
            f"give {len(plan.shards)} or more"
        )
