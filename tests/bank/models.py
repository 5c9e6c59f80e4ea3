"""The bank: its items, and what must hold of them at every instant.

* The money of all *fixed* accounts has one sum. None of them is ever missing, so a read of them takes no locks.
* The money of all *temporary* accounts, which come and go, and of their *vault* has one sum.
* At least one *guard* is on duty. Each may leave only while the other is there: a transaction checks that.
* Each writer counts its transactions in its *ledger*, in the same transaction.
"""

from collections.abc import Sequence
from typing import Annotated

from odm import AccessPattern, Counter, Entity, PrimaryKey, Query, Store, Table

FIXED = tuple(f"f{number}" for number in range(10))
VAULT = "vault"
TEMPORARY = (VAULT, *(f"t{number}" for number in range(5)))
GUARDS = ("ann", "bob")
MONEY = 1000
KINDS = ("even", "odd")

bank = Table("bank", transactions=True)


class Account(Entity, table=bank):
    """An account; its kind, the key of an index, follows from its money."""

    name: str
    money: int
    kind: str
    visits: Annotated[int, Counter] = 0
    safe_visits: Annotated[int, Counter] = 0

    primary = PrimaryKey("ACCOUNT#{name}", "DATA")
    by_kind = AccessPattern("KIND#{kind}", "{name}")


class Guard(Entity, table=bank):
    """A guard."""

    name: str
    on: bool = True

    primary = PrimaryKey("GUARD#{name}", "DATA")


class Ledger(Entity, table=bank):
    """How many transactions a writer has made, and how often it was started."""

    writer: int
    number: int = 0
    starts: int = 0

    primary = PrimaryKey("LEDGER#{writer}", "DATA")


def kind_of(money: int) -> str:
    """The kind of an account with this money."""
    return KINDS[money % 2]


def account(name: str, money: int) -> Account:
    """An account that nobody has visited."""
    return Account(name=name, money=money, kind=kind_of(money))


def keys(names: Sequence[str]) -> list[Query[Account]]:
    """The keys of accounts."""
    return [Account.primary(name=name) for name in names]


def fill(db: Store, writers: int) -> None:
    """Write the first accounts, guards and ledgers."""
    with db.batch() as batch:
        for name in (*FIXED, VAULT):
            batch.put(account(name, MONEY))
        for name in GUARDS:
            batch.put(Guard(name=name))
        for number in range(writers):
            batch.put(Ledger(writer=number))


def wrong_now(db: Store, names: Sequence[str]) -> str:
    """What does not hold of some accounts, read at one instant; "" if all is well."""
    found = [one for one in db.get_many(keys(names), atomic=True) if one is not None]
    held = sum(one.money for one in found)
    wanted = MONEY * (len(FIXED) if names is FIXED else 1)
    if held != wanted or (names is FIXED and len(found) != len(FIXED)):
        return f"the accounts {names} have {held} instead of {wanted}: {found}"
    if any(one.kind != kind_of(one.money) for one in found):
        return f"an account has another kind: {found}"
    return ""


def wrong_guards(db: Store) -> str:
    """What does not hold of the guards, read at one instant."""
    found = db.get_many([Guard.primary(name=name) for name in GUARDS], atomic=True)
    return "" if any(one is not None and one.on for one in found) else f"no guard is on duty: {found}"


def wrong_index(db: Store) -> str:
    """What does not hold of the index, when nobody writes."""
    stored = sorted(one.name for one in db.scan(Account))
    listed = [one for kind in KINDS for one in db.query(Account.by_kind(kind=kind))]
    if any(one.kind != kind_of(one.money) for one in listed) or sorted(one.name for one in listed) != stored:
        return f"the index has {listed}, the table {stored}"
    return ""
