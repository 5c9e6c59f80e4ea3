"""Aggregate: counts, sums, extremes and top lists of items, kept from a change feed, and equal to a full recount.

::

    class SongMonth(Entity, table=songs):
        song_id: str
        month: str
        downloads: Annotated[int, Field(ge=0, lt=10**9)] = 0
        bytes: int = 0

        primary = PrimaryKey("SONG#{song_id}", "MONTH#{month}")
        top = AccessPattern("MONTH#{month}", "{downloads}#{song_id}")


    songs_by_month = Aggregate(
        SongMonth,
        Download,
        lambda download: {"song_id": download.song_id, "month": f"{download.at:%Y-%m}"},
        downloads=count(),
        bytes=total("size"),
    )


    @feed.on_many(Download)
    def keep(changes: list[Change[Download]]) -> None:
        db.run(songs_by_month.apply(changes))


    db.query(SongMonth.top(month="2026-11").reverse().limit(10))

| partition | sort | attributes |
|---|---|---|
| ``SONG#s1`` | ``MONTH#2026-11`` | the totals of a group |
| ``AGGREGATE#SongMonth.Download#5f0c…`` | its tag | a member: a source item's last change, its group and its values |
| ``RANKED#SongMonth.Download.longest#91ab…`` | ``217#5f0c…`` | for a ranking: a member's value, in order |

**When.** A number over many items is read often: the songs of a month by downloads, the votes of a poll, the best score
of a game. The writes of the items stay as fast as they are, and the totals follow them.

**Guarantees.** Once the feed is read, each total equals a recount of the items, whatever the feed delivers twice, late
or in another order, and wherever consumers stop. A member stores the ``order`` of its last change, and is written in
one transaction with the totals, on the condition that nobody else has changed it. Several consumers may apply changes
at the same time.

**Cost** of ``apply``, for n items in g groups, in DynamoDB's units for small items; up to 33 items are in one
transaction:

| fields | read units | write units | requests |
|---|---|---|---|
| `count`, `total` | n | 2n + 2g | 1 read, and 1 transaction |
| in the key of an index | n + g | 2n + 3g, or 2n + 4g if entries move | 2 reads, and 1 transaction |
| also r of the other fields | n + g + rg, or more | 2n + 2g + 2rn, or 4rn if they change | 2 + g + rg |
| a change that was applied before | n | 0 | 1 read |

Each source item has a member of about 200 bytes. Removed items keep theirs for ``forget``, 8 days by default: a change
that is later than that counts again.

**Backends.** DynamoDB, the bundled engine, and Bigtable with ``Table(transactions=True)``; without it ``apply`` raises
`odm.Unsupported`. The feed must contain the new items: ``stream="new_and_old_images"`` or ``"new_image"``. A group gets
as many transactions a second as an item supports; apply many changes at a time.

**Known as** materialised aggregation (AWS, "Using Global Secondary Indexes for materialized aggregation queries"):
https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/bp-gsi-aggregation.html
"""

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import islice
from typing import Any, Final, Generic, TypeVar

from odm import BadValue, Conflict, Entity, OutcomeUnknown, Query, TransactionFailed, Unsupported, increment, set_
from odm.changes import Change, Inserted, Removed
from odm.extend import Calls, Gen, Procedure, primary_key
from odm.patterns.aggregate_fields import (
    Group,
    Kind,
    check,
    count,
    digest,
    highest,
    lowest,
    member_class,
    ranking_class,
    top,
    total,
)

__all__ = ["Aggregate", "count", "existing", "highest", "lowest", "top", "total"]

E = TypeVar("E", bound=Entity)
A = TypeVar("A", bound=Entity)

OPERATIONS: Final = 100
"""The most operations of a transaction."""

ATTEMPTS: Final = 20
"""How often a transaction is tried when other consumers change the same members or totals."""


class Aggregate(Generic[A, E]):
    """Keeps totals of items in groups; declare it before the first call of a store.

    Args:
        into: the entity of the totals: an item for each group.
        of: the entity of the items, of this table or another one.
        key: the fields of the primary key of an item's group; None: the item is in no group. It depends on the item
            alone.
        keep_expired: items that expired still count.
        forget: how long a removed item is remembered; longer than a feed may deliver its changes late.
        fields: for each field of ``into`` that is kept, how: `count`, `total`, `highest`, `lowest`, `top`.

    Raises:
        SchemaError: a field does not exist or does not have the type, or a Revision is missing.
    """

    def __init__(
        self,
        into: type[A],
        of: type[E],
        key: Callable[[E], Mapping[str, Any] | None],
        /,
        *,
        keep_expired: bool = False,
        forget: timedelta = timedelta(days=8),
        **fields: Kind,
    ) -> None:
        check(into, of, fields)
        self.into, self.of, self.fields = into, of, fields
        self.member = member_class(into, of, fields)
        self._key, self._keep_expired, self._forget = key, keep_expired, forget
        self._primary = primary_key(into)
        self._sums = {name: kind for name, kind in fields.items() if kind.show is None}
        self._ranks = {name: kind for name, kind in fields.items() if kind.show is not None}
        self._ranked = {name: ranking_class(into, of, name, kind) for name, kind in self._ranks.items()}
        # In a transaction an item has its member, two entries of each ranking, and two groups.
        self._together = OPERATIONS // (3 + 2 * len(self._ranks))

    def __repr__(self) -> str:
        return f"Aggregate({self.into.__name__}, {self.of.__name__})"

    def apply(self, changes: Sequence[Change[Any]]) -> Procedure[int]:
        """Bring the totals up to date with changes, for ``db.run(...)`` of the store of the totals.

        Args:
            changes: changes as a feed delivers them; those of other entities are ignored.

        Returns:
            The number of items that had a newer change than before.

        Raises:
            BadValue: a change lacks the new item: the feed contains only keys.
            Unsupported: the backend has no transactions of several items.
            Conflict: other consumers kept changing the same totals; apply the changes again.
        """
        return Procedure(partial(self._apply, changes), f"{self!r}.apply(...)")

    def _apply(self, changes: Sequence[Change[Any]], do: Calls) -> Gen[int]:
        if not do.transactions:
            raise Unsupported(
                f"{self!r} writes members and totals in one transaction: on Bigtable, declare the table of "
                f"{self.into.__name__} with Table(..., transactions=True)"
            )
        newest: dict[str, Change[Any]] = {}
        for change in changes:
            if change.entity is None and not isinstance(change, Removed):
                raise BadValue(f"{self!r}: the change of {change.key} has no item: enable a feed with new images")
            item = digest(json.dumps(change.key))
            if (change.entity is None or issubclass(change.entity, self.of)) and (
                item not in newest or newest[item].order <= change.order
            ):
                newest[item] = change
        rest, applied = iter(newest.items()), 0
        while chunk := dict(islice(rest, self._together)):
            applied += yield from self._applied(chunk, do)
        return applied

    def _applied(self, changes: Mapping[str, Change[Any]], do: Calls) -> Gen[int]:
        """Apply changes in one transaction; again if another consumer was faster, or if its outcome is unknown."""
        failure: Exception | None = None
        for attempt in range(ATTEMPTS):
            try:
                return (yield from self._attempt(changes, do))
            except (TransactionFailed, OutcomeUnknown) as error:
                # Each attempt reads the members again, so it is safe if this one was applied after all.
                failure = error
                yield from do.pause(do.random.uniform(0, 0.02 * 2 ** min(attempt, 6)))
        raise Conflict(f"{self!r}: other writers kept changing the same totals: apply the changes again") from failure

    def _attempt(self, changes: Mapping[str, Change[Any]], do: Calls) -> Gen[int]:
        members = yield from do.get_many([self.member.primary(item=item) for item in changes])
        tx, groups, applied = do.transaction(), dict[str, Group](), 0
        for (item, change), old in zip(changes.items(), members, strict=True):
            if old is not None and old.order >= change.order:
                continue
            if old is None and change.entity is None:
                continue  # an item that was never counted, or one of another entity
            applied += 1
            new = self._member(item, change, old, do.now())
            if old is None:
                tx.insert(new)
            else:
                tx.put(new, when=self.member.order == old.order)
            for member, sign in ((old, -1), (new, 1)):
                if member is not None and member.counted:
                    self._add(groups, member, sign)
        for group in groups.values():
            yield from self._write(group, tx, do)
        if applied:
            yield from tx.commit()
        return applied

    def _member(self, item: str, change: Change[Any], old: Any, now: float) -> Any:
        """The member of an item after a change."""
        keeps = change.expired and self._keep_expired
        if keeps and old is not None:
            return old.model_copy(update={"order": change.order})
        source = change.old if keeps else change.new
        key = None if source is None else self._key(source)
        values: dict[str, Any] = {"item": item, "order": change.order, "counted": key is not None}
        if source is None:
            values["until"] = datetime.fromtimestamp(now, UTC) + self._forget
        if source is None or key is None:
            return self.member(**values)
        values |= {f"key_{name}": value for name, value in key.items()}
        for name, kind in self.fields.items():
            values |= {f"value_{name}": getattr(source, kind.field)} if kind.field is not None else {}
            values |= {f"shown_{name}": getattr(source, kind.show)} if kind.show is not None else {}
        return self.member(**values)

    def _add(self, groups: dict[str, Group], member: Any, sign: int) -> None:
        """Add a member to the differences of its group, or take it away."""
        key = {name: getattr(member, f"key_{name}") for name in self._primary.fields}
        query: Query[Any] = getattr(self.into, self._primary.name)(**key)
        group = groups.setdefault(str(query), Group(key, query))
        for name, kind in self._sums.items():
            group.sums[name] += sign * (1 if kind.field is None else getattr(member, f"value_{name}") or 0)
        for name in self._ranks:
            value = getattr(member, f"value_{name}")
            if value is not None:
                entry = getattr(member, f"shown_{name}") if sign > 0 else None
                group.ranked[name][value, member.item] = (entry,) if sign > 0 else None

    def _write(self, group: Group, tx: Any, do: Calls) -> Gen[None]:
        """Add the writes of a group to a transaction."""
        sums = {name: delta for name, delta in group.sums.items() if delta}
        increments = [increment(getattr(self.into, name), delta) for name, delta in sums.items()]
        if not self._ranks:
            if increments:
                tx.update(group.query, *increments, upsert=True)
            return
        current = yield from do.get(group.query)
        ranked: dict[str, Any] = {}
        for name in group.ranked:
            ranked[name] = yield from self._ranking(name, group, tx, do)
        if current is None:
            tx.insert(self.into(**group.key, **sums, **ranked))
        elif increments or ranked:
            tx.update(current, *increments, *(set_(getattr(self.into, name), value) for name, value in ranked.items()))

    def _ranking(self, name: str, group: Group, tx: Any, do: Calls) -> Gen[Any]:
        """Write the entries of a ranking that change; returns the new value of its field.

        The Revision of the totals makes it exact: every transaction that changes the ranking changes the Revision too.
        """
        kind, cls, changed = self._ranks[name], self._ranked[name], group.ranked[name]
        most = kind.most or 1
        query = cls.primary(group=group.id).limit(most + len(changed))
        stored = yield from do.query(query if kind.lowest else query.reverse())
        entries = {(row.value, row.item): row.shown for row in stored}
        for (value, item), entry in changed.items():
            entries.pop((value, item), None)
            if entry is None:
                tx.delete(cls.primary(group=group.id, value=value, item=item))
            else:
                entries[value, item] = entry[0]
                tx.put(cls(group=group.id, value=value, item=item, shown=entry[0]))
        ranking = [entries[place] for place in sorted(entries, reverse=not kind.lowest)[:most]]
        return ranking if kind.most is not None else next(iter(ranking), None)


def existing(items: Sequence[tuple[tuple[str, str], Entity]]) -> list[Inserted[Any]]:
    """Changes for items from before the feed, such as those of ``scan_page``; any change of the feed is later."""
    return [Inserted(key=key, new=entity) for key, entity in items]
