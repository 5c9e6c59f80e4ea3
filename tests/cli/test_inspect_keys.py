"""`odm inspect` and `odm import` build keys from what names them, never from an attribute that is equal by chance."""

import random
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from odm import Store
from odm.backends.local import Memory
from odm.cli.inspect.facts import IndexFacts, TableFacts
from odm.cli.inspect.models import Models, models_of
from tests.effort import times


def s(text: object) -> dict[str, str]:
    return {"S": str(text)}


def n(number: object) -> dict[str, str]:
    return {"N": str(number)}


def made(items: Sequence[Any], *, keys: tuple[str, ...] = ("PK", "SK"), **others: Any) -> Models:
    """The models of a table with these items, whose key attributes are text."""
    indexes = others.pop("indexes", {})
    types = dict.fromkeys([*keys, *(name for index in indexes.values() for name in index.keys)], "S")
    return models_of(TableFacts("shop", keys, others.pop("types", types), indexes, None, tuple(items)))


def keys_of(models: Models) -> set[str]:
    """The primary keys, with the name of each class."""
    found = models.table.compile().entities.values()
    return {f"{one.name}: {one.primary.partition.text} | {one.primary.sort and one.primary.sort.text}" for one in found}


def users(**columns: Any) -> list[Any]:
    return [
        {"PK": s(f"USER#{at}"), "SK": s("PROFILE"), **{name: value(at) for name, value in columns.items()}}
        for at in range(100, 106)
    ]


@pytest.mark.parametrize(
    ("items", "key"),
    [
        (users(created_by=s, user_id=s), "USER#{user_id} | PROFILE"),
        (users(created_by=s, userId=s), "USER#{user_id} | PROFILE"),
        (users(created_by=s), "USER#{user} | PROFILE"),
        (users(created_by=s, owner=s, parent_id=n), "USER#{user} | PROFILE"),
        (users(a_id=s, id=s), "USER#{id} | PROFILE"),
        (users(user_type=s), "USER#{user} | PROFILE"),
        (users(user_rank=n), "USER#{user} | PROFILE"),
        (
            [{"PK": s(f"ORDER#{at}"), "SK": s("META"), "invoice_no": s(at), "order_no": n(at)} for at in range(5)],
            "ORDER#{order_no} | META",
        ),
        ([{"PK": s(f"ORDER#{at}"), "SK": s("META"), "invoice_no": s(at)} for at in range(5)], "ORDER#{order} | META"),
        (
            [{"PK": s(f"P#{at}"), "SK": s("META"), "category_id": s(at)} for at in (1, 2, 3)],
            "P#{p} | META",
        ),
        (
            [{"PK": s(f"P#{at}"), "SK": s("META"), "category_id": n(at), "product_id": n(at)} for at in (1, 2, 3)],
            "P#{p} | META",
        ),
        (
            [{"PK": s(f"PROD#{at}"), "SK": s("META"), "category_id": n(at), "product_id": n(at)} for at in (1, 2, 3)],
            "PROD#{product_id} | META",
        ),
        (
            [
                {"PK": s(f"ORDER#{at:08}"), "SK": s("META"), "order_no": n(at), "row": s(f"{at:08}")}
                for at in (1, 2, 30)
            ],
            "ORDER#{order_no:08} | META",
        ),
        ([{"PK": s(f"ORDER#{at:08}"), "SK": s("META")} for at in (1, 2, 30)], "ORDER#{order:08} | META"),
        (
            [{"PK": s(f"USER#{x}@example.com"), "SK": s("META"), "email": s(f"{x}@example.com")} for x in "abc"],
            "USER#{email} | META",
        ),
        (
            [{"PK": s(f"USER#{x}@example.com"), "SK": s("META"), "updatedBy": s(f"{x}@example.com")} for x in "abc"],
            "USER#{user} | META",
        ),
        (
            [{"PK": s(f"DOC#{x}"), "SK": s("META"), "doc_path": s(x)} for x in ("a/b/c", "a/d", "e")],
            "DOC#{doc} | META",
        ),
        (
            [{"PK": s(f"DOC#{x}"), "SK": s("META"), "docId": s(x)} for x in ("a/b/c", "a/d", "e")],
            "DOC#{doc_id} | META",
        ),
        (
            [
                {"PK": s(f"USER#{u}"), "SK": s(f"ORDER#{o}"), "order_id": s(o), "user_id": s(u), "shop": s(u)}
                for u in (1, 2)
                for o in (3, 4)
            ],
            "USER#{user_id} | ORDER#{order_id}",
        ),
    ],
    ids=range(19),
)
def test_names_decide_what_a_key_is_made_of(items: list[Any], key: str) -> None:
    models = made(items)
    assert {text.split(": ", 1)[1] for text in keys_of(models)} == {key}, models.source


def test_a_key_attribute_with_a_name_of_its_own_is_that_field() -> None:
    items = [{"user_id": s(at), "created_by": s(at)} for at in range(5)]
    assert keys_of(made(items, keys=("user_id",))) == {"Shop: {user_id} | None"}


def test_what_fits_too_is_a_comment() -> None:
    source = made(users(created_by=s, owner=s)).source
    assert "created_by" in source.split("primary =")[1]
    assert "owner" in source.split("primary =")[1]
    assert "created_by" in made(users(created_by=s, user_id=s)).source.split("primary =")[1]


def test_the_key_of_an_index_is_not_guessed_either() -> None:
    index = {"GSI1": IndexFacts(("GSI1PK", "GSI1SK"))}
    items = [
        {
            "PK": s(f"ORDER#{at}"),
            "SK": s("META"),
            "GSI1PK": s(f"CUSTOMER#{at % 3}"),
            "GSI1SK": s(f"ORDER#{at}"),
            "floor": s(at % 3),
            "customer_id": s(at % 3),
        }
        for at in range(6)
    ]
    source = made(items, indexes=index).source
    assert 'AccessPattern("CUSTOMER#{customer_id}", "ORDER#{order}", index="GSI1")' in source
    for item in items:
        del item["customer_id"]
    source = made(items, indexes=index).source
    assert 'AccessPattern("CUSTOMER#{customer}", "ORDER#{order}", index="GSI1")' in source


MAKES = [
    "toyota",
    "ford",
    "bmw",
    "audi",
    "vw",
    "fiat",
    "seat",
    "skoda",
    "opel",
    "volvo",
    "saab",
    "mazda",
    "honda",
    "tesla",
]


def vehicles(**columns: Any) -> list[Any]:
    chosen = random.Random(1)
    return [
        {
            name: value(at, chosen.choice(MAKES))
            for name, value in ({"PK": _pk, "SK": _sk, "colour": _sk} | columns).items()
        }
        for at in range(400)
    ]


def _pk(at: int, make: str) -> Any:
    return s(f"VEHICLE#{at}")


def _sk(at: int, make: str) -> Any:
    return s("META")


def test_many_items_under_one_template_are_one_class() -> None:
    """A word is a value unless the items differ by it: a make, a model, a state."""
    of_key = {"PK": lambda at, make: s(f"VEHICLE#{make}#{at}")}
    of_sort = {"SK": lambda at, make: s(make)}
    of_model = {"model": lambda at, make: s(make)}
    of_type = {"type": lambda at, make: s(make), "PK": lambda at, make: s(f"{make}#{at}")}
    for columns in (of_key, of_sort, of_model, of_type):
        assert len(made(vehicles(**columns)).table.compile().entities) == 1


@pytest.mark.parametrize("form", ["{}#{}", "{}_{}", "{}-{}", "{}:{}", "{}.{}", "{}|{}"])
@pytest.mark.parametrize("others", [{}, {"id": 1}])
@pytest.mark.parametrize("columns", [("name", "name"), ("name", "plan")])
def test_types_whose_names_begin_the_key_are_told_apart(form: str, others: Any, columns: tuple[str, str]) -> None:
    items = [
        {"PK": s(form.format(word, at)), "SK": s("PROFILE"), column: s(f"{word} {at}")} | dict.fromkeys(others, s(at))
        for word, column in zip(("USER", "ORG"), columns, strict=True)
        for at in range(11, 15)
    ]
    assert {one.name for one in made(items).table.compile().entities.values()} == {"User", "Org"}


def test_an_attribute_that_names_the_type_does_not_hide_it() -> None:
    items = [
        {"PK": s(f"{word}#{at}"), "SK": s("PROFILE"), "docKind": s(word), "name": s("x")}
        for word in ("USER", "ORG")
        for at in range(4)
    ]
    assert len(made(items).table.compile().entities) == 2


# What the true key is made of, and whether it is an attribute too.
TRUE = (("USER", "user_id"), ("ORDER", "orderNo"), ("INVOICE", "invoice_id"), ("SKU", "sku"), ("P", "product_id"))
CHANCE = ("created_by", "parent", "rank", "owner_id", "category_id", "previousNo", "amount", "shelf", "updated_by", "x")
numbers = st.integers(1, 6)


@st.composite
def coinciding(draw: st.DrawFn) -> tuple[list[Any], set[str]]:
    """Items of a table in which columns are equal to a part of the key by chance, and the names of what is true."""
    (one, first), (two, second) = draw(st.permutations(TRUE))[:2]
    nested = draw(st.booleans())
    ids = draw(st.lists(st.tuples(numbers, numbers), min_size=1, max_size=12, unique=True))
    if not nested:
        ids = [(at, 0) for at in dict(ids)]
    shown = draw(st.sets(st.sampled_from((first, second))))
    columns = draw(st.dictionaries(st.sampled_from(CHANCE), st.sampled_from(("first", "second", "any")), max_size=4))
    text = {name: draw(st.booleans()) for name in (*columns, first, second)}
    items = []
    for a, b in ids:
        item = {"PK": s(f"{one}#{a}"), "SK": s(f"{two}#{b}" if nested else "META")}
        held = {first: a, **({second: b} if nested else {})}
        values = {name: value for name, value in held.items() if name in shown}
        for name, kind in columns.items():
            values[name] = {"first": a, "second": b}.get(kind, 0) or draw(numbers)
        items.append(item | {name: s(value) if text[name] else n(value) for name, value in values.items()})
    return items, {first, second}


@settings(
    max_examples=times(150, 3000),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(coinciding())
def test_a_put_never_replaces_an_item_of_another_key(table: tuple[list[Any], set[str]]) -> None:
    """Each item is written back under its key; and with values of others in the columns that coincide, still there."""
    items, _ = table
    models = made(items)
    schema = models.table.compile()
    entities = list(models.entities(items))
    with Store(models.table, Memory()) as db:
        db.create()
        for entity in entities:
            db.put(entity)
        assert sorted(map(repr, db.scan())) == sorted(map(repr, entities))
        for at, (item, entity) in enumerate(zip(items, entities, strict=True)):
            own = schema.entity(type(entity))
            key = own.key(vars(entity))
            assert (key.partition, key.sort) == (item["PK"]["S"], item["SK"]["S"])
            stored = own.codec.stored
            for other in entities[at + 1 :] + entities[:at]:
                chance = {
                    name: getattr(other, name)
                    for name in stored
                    if stored[name] in CHANCE and type(other) is type(entity)
                }
                changed = entity.model_copy(update=chance)
                assert own.key(vars(changed)) == key, models.source
                db.put(changed)
            db.put(entity)
        assert sorted(map(repr, db.scan())) == sorted(map(repr, entities))


@settings(max_examples=times(60, 1000), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(coinciding(), st.sampled_from(TRUE))
def test_the_attribute_that_names_the_key_is_used(table: tuple[list[Any], set[str]], which: tuple[str, str]) -> None:
    """Whatever coincides with it; else every new item would need its number twice."""
    word, name = which
    # A sku identifies an item by its own name, whatever the word in front of it.
    others = [{key: value for key, value in item.items() if key != "sku"} for item in table[0]]
    items = [
        item | {"PK": s(f"{word}#{at}"), "SK": s("META"), name: s(at)}
        for at, item in enumerate(others, start=len(word))
    ]
    expected = {"P": "p"}.get(word, {"orderNo": "order_no"}.get(name, name))
    assert {one.primary.partition.text for one in made(items).table.compile().entities.values()} == {
        f"{word}#{{{expected}}}"
    }


def test_an_attribute_with_one_value_names_a_type_only_if_the_keys_do() -> None:
    items = [{"PK": s(f"CAR#{at}"), "SK": s("META"), "model": s("T")} for at in range(5)]
    assert made(items).table.compile().tag is None
    items = [item | {"model": s("car")} for item in items]
    assert made(items).table.compile().tag == "model"


def test_a_part_with_its_label_is_the_attribute_of_that_name() -> None:
    """As ElectroDB writes keys."""
    items = [
        {
            "PK": s(f"$taskapp#country_{country}#team_t{at}"),
            "SK": s(f"$employees_1#id_{at}"),
            "id": s(at),
            "country": s(country),
            "team": s(f"t{at}"),
            "__edb_e__": s("employees"),
            "floor": s(at),
        }
        for at, country in enumerate(("usa", "usa", "chile"))
    ]
    assert keys_of(made(items)) == {"Employees: $taskapp#country_{country}#team_{team} | $employees_1#id_{id}"}


def test_types_that_cannot_be_told_apart_are_one_class() -> None:
    """A key of SETTINGS could be one of a user whose name that is, and some settings have no attribute."""
    items = [
        {"PK": s(f"ORG#{org}"), "SK": s(sort), **columns}
        for org in range(3)
        for sort, columns in (
            ("SETTINGS", {"theme": s("x")} if org else {}),
            (f"{org}ab", {"name": s("n"), "mail": s("m")}),
        )
    ]
    models = made(items)
    assert keys_of(models) == {"Org: ORG#{org} | {sk}"}
    assert len(list(models.entities(items))) == 6


def test_types_that_only_attributes_distinguish() -> None:
    """The keys of both can be equal, but all items of each have an attribute that no item of the other has."""
    items = [
        {"PK": s(f"ORG#{org}"), "SK": s(sort), **columns}
        for org in range(3)
        for sort, columns in (("SETTINGS", {"theme": s("x")}), (f"{org}ab", {"name": s("n"), "mail": s("m")}))
    ]
    models = made(items)
    assert sorted(keys_of(models)) == ["Org: ORG#{org} | SETTINGS", "Shop: ORG#{org} | {sk}"]
    assert 'match=exists(field("theme"))' in models.source
    assert 'match=exists(field("mail"))' in models.source
    assert len(list(models.entities(items))) == 6


@pytest.mark.parametrize("number", [1, 2])
def test_items_of_one_form_of_key_without_a_common_attribute(number: int) -> None:
    """As in the lock table of Terraform; a single item may be of the same type, and lack what others have."""
    locks = [{"PK": s(f"b/{at}"), "SK": s("1"), "Info": s("{}"), "Who": s("me")} for at in range(number)]
    states = [{"PK": s(f"b/{at}-md5"), "SK": s("1"), "Digest": s("d")} for at in range(3)]
    models = made([*locks, *states])
    assert len(keys_of(models)) == number
    assert ('match=exists(field("digest"))' in models.source) == (number > 1)
    assert len(list(models.entities([*locks, *states]))) == 3 + number


def test_a_path_is_a_value() -> None:
    items = [{"LockID": s(f"bucket/{name}.tfstate"), "Info": s("x")} for name in "abc"]
    assert keys_of(made(items, keys=("LockID",))) == {"Shop: {lock_id} | None"}


def test_a_part_that_is_empty_in_some_keys_is_one_that_may_be_empty() -> None:
    """As the checkpoints of LangGraph, whose namespace is most often empty."""
    items = [
        {
            "PK": s(f"THREAD#{at}"),
            "SK": s(f"CHECKPOINT#{space}#{number}"),
            "space": s(space),
            "checkpoint_id": s(number),
        }
        for at in (1, 2)
        for space in ("", "inner")
        for number in ("a1", "a2")
    ]
    models = made(items)
    assert keys_of(models) == {"Shop: THREAD#{thread} | CHECKPOINT#{checkpoint:empty}#{checkpoint_id}"}
    assert len(list(models.entities(items))) == 8
