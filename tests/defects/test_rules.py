"""Rules that came from a failure and have no test elsewhere, and traps that other mappers fell into."""

import inspect
from collections.abc import Callable

from odm import AccessPattern, Entity, PrimaryKey, Store, Table
from odm.backends.local import Memory


def test_removing_a_pattern_leaves_the_others_where_they_are(memory: Memory) -> None:
    before, after = Table("slots"), Table("slots")

    class Item(Entity, table=before):
        name: str
        colour: str
        size: str

        primary = PrimaryKey("ITEM#{name}")
        by_colour = AccessPattern("COLOUR#{colour}", "{name}")
        by_size = AccessPattern("SIZE#{size}", "{name}")

    class ItemLater(Entity, table=after, tag="Item"):
        name: str
        size: str

        primary = PrimaryKey("ITEM#{name}")
        by_size = AccessPattern("SIZE#{size}", "{name}")

    old, new = Store(before, memory), Store(after, memory)
    old.create()
    old.put(Item(name="a", colour="red", size="L"))
    assert [item.name for item in new.query(ItemLater.by_size(size="L"))] == ["a"]
    assert new.count(ItemLater.by_size(size="red")) == 0


def test_a_value_that_ends_a_key_is_escaped_like_any_other(memory: Memory) -> None:
    table = Table("last")

    class Note(Entity, table=table):
        a: str
        b: str

        primary = PrimaryKey("NOTE#{a}", "{b}")
        by_b = AccessPattern("B", "{b}#{a}")

    store = Store(table, memory)
    store.create()
    notes = [Note(a=a, b=b) for a, b in (("x", "1"), ("x", "1#x"), ("x#x", "1"))]
    for note in notes:
        store.put(note)
    assert [(note.b, note.a) for note in store.query(Note.by_b())] == [("1", "x"), ("1", "x#x"), ("1#x", "x")]
    assert list(store.query(Note.by_b(b="1"))) == [notes[0], notes[2]]


def _arguments(method: Callable[..., object]) -> int:
    """The arguments of a call; **values stands for names that are refused with a hint."""
    return sum(one.kind is not one.VAR_KEYWORD for one in inspect.signature(method).parameters.values())


def test_each_operation_has_few_parameters() -> None:
    methods = [
        method for name, method in vars(Store).items() if inspect.isfunction(method) and not name.startswith("_")
    ]
    assert len(methods) > 10
    most = dict.fromkeys((method.__name__ for method in methods), 6)
    most["update"] = 7  # when, returning, upsert, validate
    most |= {"page": 7, "rekey": 8, "scan": 11}  # the options of reads, and of what runs for hours
    assert {m.__name__: count for m in methods if (count := _arguments(m)) > most[m.__name__]} == {}
