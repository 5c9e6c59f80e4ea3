"""Feed: handlers for the changes of a table, called at least once for each change, in the order of an item's changes.

::

    feed = Feed(songs)


    @feed.on(Download)
    def note(change: Change[Download]) -> None:
        match change:
            case Inserted(new=Download(song_id=song)):
                print("downloaded", song)
            case Changed(old=old, new=new):
                print("changed", old, new)
            case Removed(expired=True):
                print("expired", change.key)


    state = Store(positions, LocalFile("positions.db"))  # both names are in odm.patterns.follower
    state.create()
    Follower(db, feed, state=state, name="notes").run()  # or .drain(): until there is no newer change

| partition | sort | attributes |
|---|---|---|
| ``FEED#notes`` | ``Positions``, the tag | ``shards``: for each shard of the feed, where to continue |

**When.** Something must follow the writes of a table: an aggregate (`odm.patterns.aggregate`), a search index, a mail,
another database. The program that writes does not know of it.

**The feeds.** The same handlers run on each:

| feed | enable it with | read it with |
|---|---|---|
| the bundled engine's log | ``LocalFile(..., changes=True)``, ``Memory(changes=True)`` | ``Follower`` |
| DynamoDB Streams | ``DynamoDB(stream="new_and_old_images")`` | ``Follower``, or a Lambda function |
| Kinesis Data Streams for DynamoDB | AWS | a Lambda function |
| Bigtable change streams | ``Bigtable(stream=timedelta(days=1))`` | ``Follower`` |

A Lambda function is ``handler = odm.backends.dynamodb.streams.handler(feed)``: it reports the first change that failed.

**Guarantees.** Every change is handled, and the changes of an item in order. A follower stores its position when the
handlers have returned: after a crash, or an exception of a handler, it delivers again from the first change that was
not handled. So a handler may see a change twice, and must allow for it; ``change.order`` identifies a change and
grows with each change of its item. A feed keeps changes for a limited time: 24 hours on DynamoDB, one to seven days on
Bigtable, as configured in the bundled engine. A follower that was away for longer raises `odm.BadCursor` instead of
skipping changes; delete its positions to begin with the oldest change. One follower of a name runs at a time; of two,
one raises `odm.Conflict`.

**Cost** of a ``poll``, with n shards (the bundled engine has one) and changes in m of them:

| | requests | on DynamoDB |
|---|---|---|
| of the table | 1 + n | a request more or two for each; no capacity units |
| of the positions | m writes; the first also reads | 1 write unit for each KB of positions, about 8 shards |

**Limits.** All positions are in one item, so a feed can have about 2,000 shards. A change whose item does not fit its
model raises `odm.ItemInvalid`, unless the store has ``on_invalid="skip"``: then the item counts as absent. Items of
other programs raise it too, unless the store has ``on_unknown="skip"``. The bundled
engine and Bigtable do not report that items expired.

**Known as** change data capture: DynamoDB Streams, Kinesis Data Streams for DynamoDB, Bigtable change streams:
https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/streamsmain.html
https://cloud.google.com/bigtable/docs/change-streams-overview
"""

import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final, TypeAlias, TypeVar

from attrs import frozen

from odm import BadValue, Entity, Table
from odm.changes import Change
from odm.patterns.two_stores import Ask, Steps, arun, run

Handler: TypeAlias = Callable[[Any], Awaitable[object] | object]
H = TypeVar("H", bound=Handler)

_LOG: Final = logging.getLogger("odm.feed")


@frozen
class _Registered:
    """A handler with the classes whose changes it gets; none: all changes."""

    entities: tuple[type[Entity], ...]
    handler: Handler

    def takes(self, change: Change[Any]) -> bool:
        entity = change.entity
        return entity is None or not self.entities or issubclass(entity, self.entities)


class Feed:
    """The handlers for the changes of a table.

    Args:
        table: the table.
    """

    def __init__(self, table: Table) -> None:
        if not isinstance(table, Table):
            raise BadValue(f"Feed({table!r}): pass the Table whose changes to handle")
        self.table = table
        self._each: list[_Registered] = []
        self._many: list[_Registered] = []

    def __repr__(self) -> str:
        return f"Feed({self.table!r})"

    def on(self, *entities: type[Entity]) -> Callable[[H], H]:
        """Decorates a function that is called with each `odm.changes.Change` of these entities, or of all.

        A change of which the feed has only the key is one of any entity. The function may be async for an
        `odm.patterns.follower.AsyncFollower`.
        """
        return self._registers(self._each, entities)

    def on_many(self, *entities: type[Entity]) -> Callable[[H], H]:
        """Decorates a function that is called with a list of changes, in order, for fewer writes.

        If it raises, all changes of its list are delivered again.
        """
        return self._registers(self._many, entities)

    def _registers(self, handlers: list[_Registered], entities: tuple[type[Entity], ...]) -> Callable[[H], H]:
        for entity in entities:
            if not (isinstance(entity, type) and issubclass(entity, Entity) and entity.__odm_table__ is self.table):
                raise BadValue(f"{self!r}: {entity!r} is not an entity of this table: @feed.on takes its classes")

        def register(handler: H) -> H:
            handlers.append(_Registered(entities, handler))
            return handler

        return register

    def deliver(self, changes: Sequence[Change[Any]]) -> int | None:
        """Call the handlers; logs the exception of one that fails.

        Returns:
            The index of the first change that was not handled; None: all were.
        """
        failed, _ = run(self.steps(changes))
        return failed

    async def adeliver(self, changes: Sequence[Change[Any]]) -> int | None:
        """Call the handlers, which may be async; see `deliver`."""
        failed, _ = await arun(self.steps(changes))
        return failed

    def steps(self, changes: Sequence[Change[Any]]) -> Steps[tuple[int | None, Exception | None]]:
        """The steps of `deliver`: the index of the first change that was not handled, and why."""
        failed, error = None, None
        for index, calls in enumerate(map(self._calls, changes)):
            for call in calls:
                error = error or (yield from _attempted(call))
            if error is not None:
                failed = index
                break
        for group_handler in self._many:
            # Not the changes from a failed one on, which are delivered again.
            taken = [index for index, change in enumerate(changes[:failed]) if group_handler.takes(change)]
            if not taken:
                continue
            wrong = yield from _attempted(partial(group_handler.handler, [changes[index] for index in taken]))
            if wrong is not None:
                failed, error = taken[0], wrong
        return failed, error

    def _calls(self, change: Change[Any]) -> Iterator[Callable[[], object]]:
        return (partial(subscription.handler, change) for subscription in self._each if subscription.takes(change))


def _attempted(call: Callable[[], object]) -> Steps[Exception | None]:
    """Call a handler; returns its exception."""
    try:
        yield Ask(call)
    except Exception as error:  # noqa: BLE001  # whatever a handler raises
        _LOG.error("a change was not handled: it is delivered again", exc_info=error)
        return error
    return None
