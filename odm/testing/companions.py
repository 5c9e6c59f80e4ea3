"""Entities of the suite that have companions: a highest level, a list of levels, seats, and the last change."""
# ruff: noqa: D101  # names say what they are

from datetime import datetime
from typing import Annotated, Any, ClassVar

from odm import TTL, Entity, ItemExists, PrimaryKey, Query, Revision, Table, missing, upgrade
from odm.extend import Calls, Companion, CompanionWrites, Effect, Gen, procedure


class Own(Companion):
    """A companion with one class of items for each entity that declares it."""

    fields: ClassVar[dict[str, Any]]
    key: ClassVar[tuple[str, ...]]
    upgraded: ClassVar[bool] = False

    def __init__(self) -> None:
        self.classes: dict[type, Any] = {}

    def entities(self, entity: type[Entity]) -> list[type[Entity]]:
        declared = {"primary": PrimaryKey(*self.key)}
        self.classes[entity] = self.make(entity, Entity, self.fields, declared, upgraded=self.upgraded)
        return [self.classes[entity]]


class Highest(Own):
    """The highest level that any player of a group ever had; it does not read the item."""

    fields: ClassVar[dict[str, Any]] = {"group": str, "level": int}
    key: ClassVar[tuple[str, ...]] = ("HIGHEST#{group}",)

    def sources(self, entity: type[Entity]) -> frozenset[str]:
        return frozenset({"group", "level"})

    def companion_writes(self, tx: CompanionWrites, effect: Effect[Any]) -> None:
        new: Any = effect.new
        entity = self.classes[type(new)]
        higher = missing(entity.level) | (entity.level < new.level)
        tx.put(entity(group=new.group, level=new.level), when=higher, lose=True, rank=new.level)


class Listed(Own):
    """An item for the current level of each player; a mark counts the changes of the level."""

    fields: ClassVar[dict[str, Any]] = {"level": int, "name": str, "changes": int}
    key: ClassVar[tuple[str, ...]] = (
        "LEVEL#{level}",
        "{name}",
    )
    reads: ClassVar[bool] = True
    deletes: ClassVar[bool] = True

    def sources(self, entity: type[Entity]) -> frozenset[str]:
        return frozenset({"level"})

    def companion_writes(self, tx: CompanionWrites, effect: Effect[Any]) -> None:
        old: Any = effect.old
        new: Any = effect.new
        entity = self.classes[type(old or new)]
        if old is not None and (new is None or new.level != old.level):
            tx.delete(entity.primary(level=old.level, name=old.name))
        if new is not None and (old is None or new.level != old.level):
            changes = int(effect.mark or 0) + 1
            tx.put(entity(level=new.level, name=new.name, changes=changes))
            tx.mark(str(changes))


class Seat(Own):
    """A seat that only one guest can have: an insert, which is refused if the seat is taken."""

    fields: ClassVar[dict[str, Any]] = {"seat": str}
    key: ClassVar[tuple[str, ...]] = ("SEAT#{seat}",)
    reads: ClassVar[bool] = True
    deletes: ClassVar[bool] = True

    def sources(self, entity: type[Entity]) -> frozenset[str]:
        return frozenset()

    def companion_writes(self, tx: CompanionWrites, effect: Effect[Any]) -> None:
        old: Any = effect.old
        new: Any = effect.new
        if new is None:
            tx.delete(self.classes[type(old)].primary(seat=old.seat))
        elif old is None:
            seat = new.seat
            claim = self.classes[type(new)](seat=seat)
            tx.insert(claim, refused=lambda item: ItemExists(f"seat {seat} is taken", item))


class Last(Own):
    """The last change of a guest, written after the change was applied."""

    fields: ClassVar[dict[str, Any]] = {"name": str, "done": str}
    key: ClassVar[tuple[str, ...]] = ("LAST#{name}",)
    upgraded: ClassVar[bool] = True
    deletes: ClassVar[bool] = True

    def settle(self, do: Calls, effect: Effect[Any]) -> Gen[None]:
        done = ["left" if effect.old else "was not there", "came" if effect.old is None else "changed"]
        entity = self.classes[effect.key.entity]
        yield from do.put(entity(name=effect.key.values["name"], done=done[effect.new is not None]))


players = Table("players")


class Player(Entity, table=players):
    name: str
    group: str = "g"
    level: int = 0
    note: str = ""

    primary = PrimaryKey("PLAYER#{name}")
    highest = Highest()
    listed = Listed()


class Runner(Entity, table=players):
    name: str
    group: str = "r"
    level: int = 0
    note: str = ""

    primary = PrimaryKey("RUNNER#{name}")
    highest = Highest()


class Guest(Entity, table=players, version=2):
    name: str
    seat: str
    revision: Annotated[int, Revision] = 0

    primary = PrimaryKey("GUEST#{name}")
    seats = Seat()
    last = Last()

    @upgrade(from_=1)
    @staticmethod
    def _upgrade(item: dict[str, Any]) -> dict[str, Any]:
        return {**item, "name": item["name"].lower()}


@procedure
def marked(do: Calls, key: Query[Player]) -> Gen[tuple[Player | None, str | None]]:
    """A player, and the number of changes of its level."""
    return (yield from do.marked(Player.listed, key))


class Pass(Entity, table=players):
    """Shares the partition of a guest, and has no companion."""

    name: str
    number: int
    expires_at: Annotated[datetime | None, TTL] = None

    primary = PrimaryKey("GUEST#{name}", "PASS#{number}")
