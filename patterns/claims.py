"""Claims: items that record which item holds a value, and the steps that keep them correct without transactions.

`odm.patterns.unique` is built on this. Bigtable writes one row at a time. There this invariant holds at every point:

    (I) if an item holds a value, the claim on the value names that item, and its ids include the item's mark.

So two items never hold the same value. Each *attempt* at a write has a new id, which becomes the item's mark:

1. **read** the item.
2. **claim** the new value: insert the claim, or add the id to a claim that already names the item. If the claim names
   another item, read that item. If it holds the value, raise `odm.ItemExists`. If not, its writer is between steps, or
   was interrupted: retry a few times, then raise `odm.Conflict`; but take over a claim that is older than `LEASE`.
   Every change of a claim has the condition that its ids are still those that were read.
3. **commit**: write the item with the id as its mark, at most a quarter of `LEASE` after 2, on the condition that the
   item and its mark have not changed since 1. A write that may be applied twice raises `odm.OutcomeUnknown` instead.
4. **free**: remove the *old mark* from the claim on the old value; delete the claim with its last id.

If 3 is refused, the attempt removes its id. If the response to 3 is lost, it removes nothing: 3 may still be applied.

An id is removed when no item has or can get it: its write was refused, was replaced, or is older than `LEASE`.
Variants that look correct but are not:

| variant | how it fails |
|---|---|
| one id for all attempts on an item | A is refused and removes the id, with which B was committed on the same item |
| removing the attempt's id after a lost response | the commit is applied afterwards |
| removing all ids of the item | A frees the old value just before B, on the same item, commits it again |
| reading the holder, then its claim | the holder claims and commits between the two reads |
| taking over a claim at once if no item holds the value | the attempt that made the claim is then committed |
| a late commit, or one applied twice | another writer took over or freed the claim in between |

Requires: clocks differ by less than a quarter of `LEASE`; no call is applied more than half of it after it was sent.
"""

import logging
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import uuid4

from odm import ConditionFailed, Conflict, Entity, ItemExists, ItemNotFound, OdmError, Query, discard_from
from odm.extend import Calls, Gen, compiled, primary_key

LEASE: Final = timedelta(hours=1)
"""How long a claim belongs to its writer although the item does not hold the value yet."""

PAUSES: Final = (0.02, 0.04, 0.08, 0.16, 0.32, 0.64)
"""The maximum seconds to wait before each retry, while another writer uses or frees the claim."""

TRIES: Final = 16
"""How often to try to remove an id from a claim that other writers change."""

OWN: Final[Mapping[str, Any]] = {"claim_ids": set[str], "claimed_at": datetime}
"""The fields of a claim in addition to the value and the key of the item that holds it."""

LOG: Final = logging.getLogger("odm")

Values = Mapping[str, Any]


def new_id() -> str:
    """A unique id for an attempt."""
    return uuid4().hex


class Claims:
    """The claims on the values of one entity.

    Args:
        name: the name of the declaration, for messages.
        entity: the entity whose items hold the values.
        fields: the fields whose values are claimed together.
        claim_class: the entity of the claims.
    """

    def __init__(self, name: str, entity: type[Entity], fields: Sequence[str], claim_class: type[Any]) -> None:
        self.name, self.entity, self.fields, self.claim_class = name, entity, fields, claim_class

    def values(self, item: Any) -> Values | None:
        """The values of the fields in an item or claim; None: one of them is None, or there is no item."""
        values = {name: getattr(item, name, None) for name in self.fields}
        checked_values = self.checked({name: value for name, value in values.items() if value is not None})
        return checked_values if len(checked_values) == len(values) else None

    def checked(self, values: Values) -> Values:
        """The values as a read returns them: a put stores values that were assigned without validation."""
        entity = compiled(self.entity)
        return {name: entity.validate(name, value) for name, value in values.items()}

    def key(self, values: Values) -> Query[Any]:
        """The key of the claim on a value."""
        query: Query[Any] = self.claim_class.primary(**values)
        return query

    def new(self, owner: Query[Any], values: Values, now: float) -> Any:
        """A claim under a new id."""
        at = datetime.fromtimestamp(now, UTC)
        return self.claim_class(**{**owner.values, **values}, claim_ids={new_id()}, claimed_at=at)

    def owner(self, claim: Any) -> Query[Any]:
        """The key of the item that a claim names."""
        key = primary_key(self.entity)
        query: Query[Any] = getattr(self.entity, key.name)(**{name: getattr(claim, name) for name in key.fields})
        return query

    def holder(self, do: Calls, claim: Any) -> Gen[Any]:
        """The item that a claim names, if it holds the value."""
        item = yield from do.get(self.owner(claim))
        return item if item is not None and self.values(item) == self.values(claim) else None

    def taken(self, by: Query[Any], values: Values, there: Any, holder: Any = None) -> ItemExists:
        """The error for a value that another item holds; ``there``: the stored claim on it."""
        whose = "another item" if there is None else str(self.owner(there))
        return ItemExists(f"{self.name}: {by} cannot have {named_values(values)}, which {whose} already has", holder)

    def claim(self, do: Calls, owner: Query[Any], values: Values) -> Gen[tuple[str, float]]:
        """Claim a value for an item. Returns the id of the attempt, and its latest commit time in epoch seconds.

        Raises:
            ItemExists: another item holds the value.
            Conflict: another writer has claimed the value, but its item does not hold it.
        """
        for pause in (*PAUSES, None):
            claim = self.new(owner, values, do.now())
            try:
                yield from do.insert(claim)
                done = True
            except ItemExists as error:
                done = error.item is not None and (yield from self._join(do, owner, claim, error.item))
            if done:
                return *claim.claim_ids, (claim.claimed_at + LEASE / 4).timestamp()
            if pause is not None:
                yield from do.pause(do.random.uniform(0, pause))
        raise Conflict(
            f"{self.name}: {owner} cannot have {named_values(values)}: another writer is claiming or freeing it, or "
            f"was interrupted; try again later, at most {LEASE} after that"
        )

    def _join(self, do: Calls, owner: Query[Any], claim: Any, there: Any) -> Gen[bool]:
        """Replace the stored claim, if that is allowed. Returns whether it was replaced."""
        if self.owner(there) == owner:
            at = max(claim.claimed_at, there.claimed_at)
            claim = claim.model_copy(update={"claim_ids": claim.claim_ids | there.claim_ids, "claimed_at": at})
        else:
            holder = yield from self.holder(do, there)
            if holder is not None:
                raise self.taken(owner, self.values(claim) or {}, there, holder)
            if there.claimed_at + LEASE >= claim.claimed_at:
                return False
        try:
            yield from do.put(claim, when=self.claim_class.claim_ids == there.claim_ids)
        except ConditionFailed:
            return False
        return True

    def free(self, do: Calls, values: Values, mark: str) -> Gen[None]:
        """Remove an id from a claim. The outcome of the write is already known, so a failure is only logged."""
        ids = {mark}
        try:
            for _ in range(TRIES):
                seen = self.claim_class.claim_ids == ids
                try:
                    if ids == {mark}:
                        yield from do.delete(self.key(values), when=seen)
                    else:
                        yield from do.update(
                            self.key(values), discard_from(self.claim_class.claim_ids, mark), when=seen
                        )
                    return
                except ItemNotFound:
                    return
                except ConditionFailed as error:
                    ids = set() if error.item is None else error.item.claim_ids
                if mark not in ids:
                    return
            raise Conflict(f"other writers changed the claim {TRIES} times in a row")
        except OdmError as error:
            LOG.warning("%s: a value stays claimed for %s: %s", self.name, LEASE, type(error).__name__)


def named_values(values: Values) -> str:
    """A value, for messages."""
    return ", ".join(f"{name}={value!r}" for name, value in values.items())
