"""Unique: no two items of an entity have the same value of a field, such as an e-mail address.

| partition | sort | attributes |
|---|---|---|
| ``CUSTOMER#c1`` | ``Customer``, the tag | ``customer_id``, ``email``, ..., ``_c_unique_email``: the mark |
| ``UNIQUE#Customer#unique_email#a@b.c`` | ``Customer.unique_email`` | ``email``, ``customer_id``, ``claim_ids``, ... |

The second item is the *claim* on a value. It names the item with the value, so a lookup needs no index::

    class Customer(Entity, table=shop):
        customer_id: str
        email: str | None = None

        primary = PrimaryKey("CUSTOMER#{customer_id}")
        unique_email = Unique("email")


    db.put(Customer(customer_id="c1", email="ann@x.com"))  # ItemExists, if another customer has it
    db.get(Customer.unique_email(email="ann@x.com"))  # the customer, or None

Every put, insert, update, upsert, delete and ``delete_all`` claims and frees values, also in a transaction. Batches
refuse the entity; ``bulk_load(customers, new=True)`` loads new items. ``Unique("tenant", "name")`` makes a combination
unique. If a value is None, nothing is claimed. A validator can normalize values: one that converts addresses to lower
case makes them unique regardless of case.

**When.** A field other than the key must be unique. A value that never changes can be the primary key of its own
entity, whose insert is exclusive.

**Cost**, for items below 1 KB, in requests and in DynamoDB's units, of which a transaction takes twice as many:

| call | read units | write units | requests | on Bigtable |
|---|---|---|---|---|
| ``insert`` | 0 | 4 | 1 | 2: claim, item |
| ``put`` of a new item | 1 | 4 | 2 | 3: read, claim, item |
| ``put`` that keeps the value | 1 | 1 | 2 | 2: read, item |
| ``put`` or ``update`` of the value | 1 | 6 | 2 | 5: read, claim, item, read and delete the old claim |
| ``update`` of other fields | 0 | 1 | 1 | 1 |
| ``delete`` | 1 | 4 | 2 | 4: read, item, read and delete the claim |
| ``get`` by the value | 2 | 0 | 2 | 2 |

**Backends.** On DynamoDB, the bundled engine, and Bigtable in a table with ``transactions=True`` the item and its
claims change in one transaction, with conditions: the item has not changed since it was read, and the new claim is
absent or names this item. A transaction writes an item only once, so one that moves a value between two items raises
`odm.BadValue`: free the value first. Without it, Bigtable writes one row at a time, so the claim is written first and
deleted last, by the steps in `odm.patterns.claims`: two items never hold one value, wherever a writer is interrupted. A
value whose writer was interrupted raises `odm.Conflict` for an hour; a value that another writer is claiming or freeing
may raise it briefly.

**Limits.** Entities whose items expire, or that have ``keep=``, are refused: nothing would free the values. Items from
before the declaration have no claims: ``db.backfill(Customer.unique_email)`` makes them, and reports the items whose
value another one has. If another program deletes an item, its claim remains. On Bigtable the next writer of the value
takes it over; elsewhere, ``db.delete(Customer.unique_email.claim(email=...))``.

AWS describes the transaction:
https://aws.amazon.com/blogs/database/simulating-amazon-dynamodb-unique-constraints-using-transactions/
"""

from collections.abc import Callable
from difflib import get_close_matches
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from odm import (
    BadValue,
    ConditionFailed,
    Entity,
    ItemExists,
    ItemInvalid,
    ItemNotFound,
    PrimaryKey,
    Query,
    SchemaError,
    contains,
    missing,
)
from odm.extend import Calls, Companion, CompanionWrites, Effect, Gen, Procedure, SchemaView, primary_key
from odm.patterns.claims import OWN, Claims, Values, named_values

E = TypeVar("E", bound=Entity)


class Unique(Companion):
    """Declares that no two items of the entity have the same value; see the module.

    Args:
        fields: the field, or several whose combined values are unique.
    """

    reads: ClassVar[bool] = True
    deletes: ClassVar[bool] = True
    loads = "before"

    def __init__(self, *fields: str) -> None:
        self.fields = fields
        self._claims: dict[type[Entity], Claims] = {}
        self._holders: dict[type[Entity], Holders[Any]] = {}

    def __repr__(self) -> str:
        return f"Unique({', '.join(map(repr, self.fields))})"

    if TYPE_CHECKING:

        def __get__(self, instance: object, owner: type[E]) -> "Holders[E]": ...

    def of(self, entity: type[E]) -> "Holders[E]":
        """The lookup of items by value: ``Customer.unique_email(email=...)``."""
        return self._holders.setdefault(entity, Holders(self, entity))

    def sources(self, entity: type[Entity]) -> frozenset[str]:
        """The fields that are claimed."""
        return frozenset(self.fields)

    def entities(self, entity: type[Entity]) -> list[type[Entity]]:
        """The entity of the claims."""
        fields = {**self.copies(entity, (*self.fields, *self._check_fields(entity))), **OWN}
        literal = f"UNIQUE#{entity.__odm_tag__}#{self.name}"
        key = PrimaryKey("#".join((literal, *(f"{{{name}}}" for name in self.fields))))
        claim_class = self.make(entity, Entity, fields, {"primary": key})
        self._claims[entity] = Claims(f"{entity.__name__}.{self.name}", entity, self.fields, claim_class)
        return [claim_class]

    def check(self, entity: type[Entity], schema: SchemaView, *, transactions: bool) -> None:
        """Refuse entities whose items expire."""
        ttl = schema.entity(entity).ttl
        if ttl is not None:
            raise SchemaError(
                f"{entity.__name__}.{self.name}: items expire by {entity.__name__}.{ttl}, and nothing would free what "
                "they claim: remove TTL and delete them, or make the value the primary key of an entity that "
                "expires too"
            )

    def claims(self, entity: type[Entity]) -> Claims:
        """The claims of an entity with this declaration.

        Raises:
            SchemaError: the models do not compile.
        """
        if entity.__odm_table__ is None:
            raise SchemaError(f"{entity.__name__} has no table of its own: use {self.name} of an entity that has one")
        entity.__odm_table__.compile()
        return self._claims[entity]

    def companion_writes(self, tx: CompanionWrites, effect: Effect[Any]) -> None:
        """Claim the new value and free the old one in the transaction of the item."""
        claims, new, old = self._change(effect)
        if new == old:
            return
        if new is None:
            tx.mark(None)
        else:
            claim = claims.new(effect.key, new, tx.now())
            own = reduce(
                and_, (getattr(claims.claim_class, name) == value for name, value in effect.key.values.items())
            )
            when = missing(claims.claim_class.claimed_at) | own
            tx.put(claim, when=when, refused=lambda there: claims.taken(effect.key, new, there))
            tx.mark(*claim.claim_ids)
        if old is not None:
            tx.delete(claims.key(old), when=contains(claims.claim_class.claim_ids, effect.mark), lose=True)

    def rekey_writes(
        self, tx: CompanionWrites, freed: CompanionWrites, before: Companion, old: Effect[Any], new: Effect[Any]
    ) -> None:
        """Let the claim name the new key, if it is still that of the old item; free a claim on another value."""
        if not isinstance(before, Unique):
            super().rekey_writes(tx, freed, before, old, new)
            return
        claims, was = self._claims[new.key.entity], before._claims[old.key.entity]
        values = claims.values(new.new)
        former = None if old.mark is None else was.values(old.old)
        if values is not None:
            claim = claims.new(new.key, values, tx.now())
            when = missing(claims.claim_class.claimed_at)
            if former is not None:
                when |= contains(claims.claim_class.claim_ids, old.mark)
            tx.put(claim, when=when, refused=lambda there: claims.taken(new.key, values, there))
            tx.mark(*claim.claim_ids)
        if former is not None:
            freed.delete(was.key(former), when=contains(was.claim_class.claim_ids, old.mark), lose=True)

    def without_transaction(self, do: Calls, effect: Effect[Any], commit: Callable[..., Gen[None]]) -> Gen[None]:
        """Claim the new value, write the item, free the old value; see `odm.patterns.claims`."""
        claims, new, old = self._change(effect)
        if new == old:
            yield from commit()
            return
        if new is None:
            yield from commit(mark=None)
        else:
            mark, until = yield from claims.claim(do, effect.key, new)
            try:
                yield from commit(mark=mark, until=until)
            except (BadValue, ConditionFailed, ItemExists, ItemInvalid, ItemNotFound):
                yield from claims.free(do, new, mark)  # the item was not written; after other errors it may be
                raise
        if old is not None and effect.mark is not None:
            yield from claims.free(do, old, effect.mark)

    def _change(self, effect: Effect[Any]) -> tuple[Claims, Values | None, Values | None]:
        """The claims, and the item's new and previous values; an item without a mark has no previous claim."""
        claims = self._claims[effect.key.entity]
        return claims, claims.values(effect.new), None if effect.mark is None else claims.values(effect.old)

    def _check_fields(self, entity: type[Entity]) -> list[str]:
        """Check the fields; returns the fields of the primary key."""
        name, fields = f"{entity.__name__}.{self.name}", entity.model_fields
        if not self.fields or len(set(self.fields)) < len(self.fields):
            raise SchemaError(f"{name}: {self!r}: name the fields that are unique together, each once")
        for field in self.fields:
            if field not in fields:
                near = get_close_matches(str(field), fields, 1)
                hint = f"did you mean {near[0]!r}?" if near else f"its fields are {', '.join(fields)}"
                if field in entity.model_computed_fields:
                    hint = "it is a computed field, which is not stored: declare a field that a validator fills"
                raise SchemaError(f"{name}: {entity.__name__} has no field {field!r}: {hint}")
        keys = primary_key(entity).fields
        for field in OWN.keys() & {*keys, *self.fields}:
            raise SchemaError(f"{name}: a claim has a field {field!r} of its own: rename {entity.__name__}.{field}")
        return [field for field in keys if field in fields]


class Holders(Generic[E]):
    """The value of ``Customer.unique_email``: call it with values for a procedure that finds the item with them."""

    def __init__(self, unique: Unique, entity: type[E]) -> None:
        self._unique, self._entity = unique, entity

    def __repr__(self) -> str:
        return f"{self._entity.__name__}.{self._unique.name}"

    def __call__(self, **values: Any) -> Procedure[E | None]:
        """The item that holds a value, or None: for ``db.get(...)`` and ``db.one(...)``.

        Args:
            values: by field name.

        Raises:
            BadValue: a field is missing or unknown, or its value does not validate.
        """
        key, claims = self.claim(**values), self._unique.claims(self._entity)

        def find(do: Calls) -> Gen[E | None]:
            claim = yield from do.get(key)
            return None if claim is None else (yield from claims.holder(do, claim))

        return Procedure(find, f"{self!r}({named_values(values)})")

    def claim(self, **values: Any) -> Query[Any]:
        """The key of the claim on a value; the claim contains the key of the item with the value.

        Args:
            values: by field name.

        Raises:
            BadValue: as for a call.
        """
        claims = self._unique.claims(self._entity)
        if values.keys() != set(claims.fields):
            raise BadValue(f"{self!r}({named_values(values)}): give a value for each of {', '.join(claims.fields)}")
        return claims.key(claims.checked(values))
