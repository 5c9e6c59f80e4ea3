"""`Blob`, `LazyBytes` and `Blobs`: what is refused, folders and S3, and the page about them."""

import asyncio
import copy
import json
import os
import pickle
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any
from uuid import uuid4

import boto3
import pytest
from pydantic import BaseModel, Field, ValidationError

from examples import large_document
from odm import (
    AccessPattern,
    AsyncStore,
    BackendError,
    BadValue,
    Blob,
    Blobs,
    CellVersions,
    Compressed,
    Conflict,
    Entity,
    ItemInvalid,
    LazyBytes,
    PrimaryKey,
    SchemaError,
    Store,
    Table,
    Unsupported,
    add_to,
    append,
    exists,
    set_,
    set_if_missing,
    size,
    upgrade,
)
from odm.backends.dynamodb import DynamoDB
from odm.backends.local import LocalFile, Memory
from odm.codec.types.blobs import placeholders, pointer_of
from odm.patterns.unique import Unique
from odm.protocol.requests import TableIdentity
from odm.schema.entity import Key
from odm.schema.evidence import Stored, judge
from odm.stores.blobs import MARKER
from odm.testing.suite.blobs import files
from tests.effort import full
from tests.readme import blocks

LONG = b"long" * 20
PAGE = Path(__file__).parents[2] / "docs" / "large_values.md"

texts = Table("texts")


class Eager(Entity, table=texts):
    name: str
    title: str | None = None
    text: Annotated[bytes | None, Blob(over=20)] = None

    primary = PrimaryKey("EAGER#{name}")
    by_title = AccessPattern("TITLE#{title}")


class Lazy(Entity, table=texts):
    name: str
    tags: set[str] = set()
    text: Annotated[LazyBytes, Blob(over=20)]

    primary = PrimaryKey("LAZY#{name}")


@pytest.fixture
def db(tmp_path: Path) -> Store:
    store = Store(texts, Memory(), blobs=tmp_path)
    store.create()
    return store


@dataclass
class Scanned:
    image: Annotated[LazyBytes, Blob(over=1)]


def compiled_with(annotation: Any, default: Any = ..., **more: Any) -> None:
    table = Table("bad")
    fields = {"name": str, "text": annotation, **more.pop("annotations", {})}
    body = {"__annotations__": fields, "primary": PrimaryKey("BAD#{name}"), **more}
    if default is not ...:
        body["text"] = default
    type("Bad", (Entity,), body, table=table)
    table.compile()


@pytest.mark.parametrize(
    ("annotation", "more", "reason"),
    [
        (Annotated[str, Blob(over=1)], {}, "is not bytes"),
        (Annotated[list[bytes], Blob(over=1)], {}, "is not bytes"),
        (Annotated[bytes, Blob], {}, r"write Blob\(over=100_000\)"),
        (Annotated[bytes, Blob(over=-1)], {}, "an int of 0 or more"),
        (LazyBytes, {}, "mark the whole field"),
        (list[LazyBytes], {}, "mark the whole field"),
        (Annotated[bytes, Blob(over=1), CellVersions(2)], {}, "CellVersions too"),
        (Annotated[bytes, Blob(over=1), Compressed("gzip")], {}, "both Blob and Compressed"),
        (Annotated[bytes, Blob(over=1)], {"by_text": AccessPattern("T#{text}")}, "part of a key"),
        (Annotated[bytes, Blob(over=1)], {"one": Unique("name")}, "a class of its own"),
        (Annotated[bytes, Blob(over=1)], {"default": b"long"}, "its default is so long"),
        (Annotated[bytes, Blob(over=1)], {"default": Field(default_factory=lambda: b"long")}, "its default is so long"),
        (Scanned, {}, "has a value with Blob inside"),
        (list[Eager], {}, "has a value with Blob inside"),
    ],
)
def test_declarations_that_do_not_work(annotation: Any, more: dict[str, Any], reason: str) -> None:
    with pytest.raises(SchemaError, match=reason):
        compiled_with(annotation, **more)


@pytest.mark.parametrize("version", [1, 2])
def test_a_longer_value_in_the_item_stays_there_until_it_is_written(tmp_path: Path, version: int) -> None:
    """Other writes upload nothing, so they must not move it to a blob."""
    backend, tables = Memory(), (Table("documents"), Table("documents"))

    class Before(Entity, table=tables[0], tag="Document"):
        name: str
        body: Annotated[LazyBytes, Blob(over=1000)]

        primary = PrimaryKey("DOCUMENT#{name}")

    class After(Entity, table=tables[1], tag="Document", version=version):
        name: str
        body: Annotated[LazyBytes, Blob(over=10)]
        note: str = "new"

        primary = PrimaryKey("DOCUMENT#{name}")

        if version == 2:

            @staticmethod
            @upgrade(from_=1)
            def _same(old: dict[str, Any]) -> dict[str, Any]:
                return old

    with Store(tables[0], backend, blobs=tmp_path) as db:
        db.create()
        for name in "abcd":
            db.put(Before(name=name, body=LazyBytes(LONG)))
    with Store(tables[1], backend, blobs=tmp_path) as db:
        db.update(After.primary(name="a"), set_(After.note, "a"))
        with db.transaction() as tx:
            tx.update(After.primary(name="b"), set_(After.note, "b"))
        db.update(After.primary(name="c"), set_(After.note, "c"), returning="new")
        db.backfill(After)
        assert [one.body.read() for one in db.scan(After)] == [LONG] * 4
        assert files(tmp_path) == []
        db.put(db.one(After, name="d"))
        assert db.one(After, name="d").body.pointer is not None


def test_what_is_left_of_a_field_is_found(tmp_path: Path) -> None:
    """The model has no field with Blob any more."""
    backend, tables = Memory(), (Table("documents"), Table("documents"))

    class Before(Entity, table=tables[0], tag="Document"):
        name: str
        body: Annotated[bytes, Blob(over=10)]

        primary = PrimaryKey("DOCUMENT#{name}")

    class After(Entity, table=tables[1], tag="Document"):
        name: str

        primary = PrimaryKey("DOCUMENT#{name}")

    with Store(tables[0], backend, blobs=tmp_path) as db:
        db.create()
        db.put(Before(name="a", body=LONG))
    with Store(tables[1], backend, blobs=tmp_path) as db:
        db.put(After(name="a"))
        assert db.sweep(grace=0, force=True, remove=True, remove_most=True).removed == 1
    with Store(tables[1], backend) as db, pytest.raises(Unsupported, match="needs the place of its blobs"):
        db.sweep()


def test_a_store_without_a_place_refuses_before_it_sends() -> None:
    store = Store(texts, Memory())  # not created: a request would fail
    for write in (
        lambda: store.put(Eager(name="a", text=LONG)),
        lambda: store.delete(Eager, name="a"),
        lambda: store.update(Eager.primary(name="a"), set_(Eager.text, LONG)),
        lambda: store.batch().__enter__().put(Eager(name="a", text=LONG)),
    ):
        with pytest.raises(Unsupported, match=r"Store\(\.\.\., blobs="):
            write()


@pytest.mark.parametrize("blobs", ["", "/", 7, object()])
def test_what_is_not_a_place(blobs: Any) -> None:
    with pytest.raises(BadValue, match="blobs="):
        Store(texts, Memory(), blobs=blobs)


def test_a_file_system_that_is_not_there(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for place, error in {"nosuch://x": BadValue, "gs://bucket/x": Unsupported}.items():
        store = Store(texts, Memory(), blobs=place)
        with pytest.raises(BadValue, match="cannot be opened") if error is BadValue else nullcontext():
            store.create()
        with pytest.raises(error, match=r"cannot be opened|pip install gcsfs"):
            store.put(Eager(name="a", text=LONG))
    assert caplog.messages == []  # there is no blob to remove
    tmp_path.joinpath("file").write_text("")
    store = Store(texts, Memory(), blobs=tmp_path / "file")
    store.create()
    with pytest.raises(BackendError, match=r"could not be (read|written)"):
        store.put(Eager(name="a", text=LONG))
    assert store.get(Eager, name="a") is None


def test_conditions_and_actions_that_would_need_the_bytes(db: Store) -> None:
    key = Lazy.primary(name="a")
    for condition in (Lazy.text == LazyBytes(b""), size(Lazy.text) > 3, Lazy.text == Lazy.text):
        with pytest.raises(BadValue, match="outside the table"):
            db.update(key, add_to(Lazy.tags, "x"), when=condition)
    for action in (set_if_missing(Lazy.text, LazyBytes(b"")), append(Lazy.text, 1)):  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        with pytest.raises(BadValue):
            db.update(key, action)
    with pytest.raises(BadValue, match="has no parts"):
        db.update(key, set_(Lazy.text["blob"], "x"))  # type: ignore[index]
    db.put(Lazy(name="a", text=LazyBytes(LONG)))
    db.update(key, add_to(Lazy.tags, "x"), when=exists(Lazy.text) & (Lazy.text != None))  # noqa: E711
    kept = db.one(key).text
    with pytest.raises(BadValue, match="never shared"):
        db.update(Lazy.primary(name="b"), set_(Lazy.text, kept), upsert=True)


def test_calls_that_do_not_know_of_blobs(db: Store) -> None:
    db.put(Eager(name="a", title="t", text=LONG))
    db.put(Lazy(name="a", text=LazyBytes(LONG)))
    lazy, key = db.one(Lazy, name="a"), Eager.primary(name="a")
    for call in (
        lambda: list(db.query(Eager.by_title(title="t"))),
        lambda: list(db.scan(Eager)),
        lambda: list(db.scan()),
        lambda: db.update(key, set_(Eager.title, "u"), returning="new"),
        lambda: db.get_many([key], atomic=True),
        db.scan_page,
        lambda: db.run(lambda do: do.load_new([lazy])),
    ):
        with pytest.raises(Unsupported, match=r"LazyBytes|batch"):
            call()
    with pytest.raises(BadValue, match="read the whole item"):
        db.get(key, only=[Eager.text])
    assert db.one(key, only=[Eager.title])[Eager.title] == "t"
    assert db.count(Eager.by_title(title="t")) == 1
    with pytest.raises(BadValue, match="a merge cannot replace"):
        db.merge(Lazy.primary(name="a"), add_to(Lazy.tags, "x"))
    with pytest.raises(BadValue, match="a batch cannot keep"), db.batch() as batch:
        batch.put(lazy)
    with pytest.raises(BadValue, match="kept in a blob"):
        db.raw_item(Lazy(name="b", text=LazyBytes(LONG)))
    db.delete(key)
    with pytest.raises(Unsupported, match="two items would refer to one blob"):
        db.put_raw(db.scan_page().items)


def test_lazy_bytes() -> None:
    one = LazyBytes(bytearray(LONG))
    assert (one.read(), one.size, asyncio.run(one.aread())) == (LONG, len(LONG), LONG)
    assert one == LazyBytes(LONG) != LazyBytes(b"")
    assert one != LONG
    assert len({one, LazyBytes(LONG)}) == 1
    pointer = LazyBytes.of_pointer({"blob": "0" * 32, "size": one.size, "sha256": one.sha256})
    for value in (one, pointer):
        assert pickle.loads(pickle.dumps(value)) == copy.deepcopy(value) == value == one
    assert (repr(pointer), repr(one)) == (f"<LazyBytes of 80 bytes, blob {'0' * 32}>", "<LazyBytes of 80 bytes>")
    with pytest.raises(BadValue, match="was not read by a store"):
        pointer.read()
    with pytest.raises(BadValue, match="takes bytes"):
        LazyBytes("text")  # type: ignore[arg-type]


def test_lazy_bytes_in_pydantic() -> None:
    class Holder(BaseModel):
        text: LazyBytes

    held = Holder.model_validate({"text": LONG})
    assert held.model_dump() == {"text": LazyBytes(LONG)}
    assert Holder.model_validate(held.model_dump()) == held
    assert '"size":80' in held.model_dump_json()
    assert Holder.model_json_schema()["properties"]["text"] == {"format": "binary", "title": "Text", "type": "string"}
    assert Holder.model_json_schema(mode="serialization")["properties"]["text"]["type"] == "object"
    with pytest.raises(ValidationError, match="give bytes or LazyBytes"):
        Holder.model_validate({"text": "text"})


def test_sweep_refuses_what_is_not_safe(db: Store) -> None:
    for grace in (3599, -1, float("nan"), float("inf"), True):
        with pytest.raises(BadValue, match="grace="):
            db.sweep(grace=grace)


def test_sweep_keeps_what_is_young_and_what_items_refer_to(db: Store, tmp_path: Path) -> None:
    db.put(Eager(name="a", text=LONG))
    folder = tmp_path / "texts"
    (used,) = files(folder)
    old, young = folder / ("a" * 32), folder / ("b" * 32)
    (folder / "more").mkdir()
    foreign = [folder / "README", folder / "more" / ("c" * 32)]
    for path in (old, young, *foreign):
        path.write_bytes(b"")
    for path in (used, old, *foreign):
        os.utime(path, (0, 0))
    assert db.sweep().orphans == (old.name,)
    assert db.sweep(remove=True).removed == 1
    assert {*folder.rglob("*")} == {used, young, folder / "more", folder / MARKER, *foreign}


def test_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for block in blocks(PAGE):
        if block.language == "python":
            exec(compile("\n" * (block.line - 1) + block.text, str(PAGE), "exec"), names)
    assert names["db"].one(names["Document"], name="report").body == b"short"


@pytest.fixture
def s3(moto_server: str, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, str]:
    """A client, and a new bucket."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    client, bucket = boto3.client("s3", endpoint_url=moto_server), f"b{uuid4().hex}"
    client.create_bucket(Bucket=bucket)
    return client, bucket


def test_boto3_reads_what_is_on_s3(s3: tuple[Any, str], moto_server: str) -> None:
    client, bucket = s3
    names: dict[str, Any] = {}
    for block in blocks(PAGE):
        if block.language == "python" and "def body_of" in block.text:
            exec(compile("\n" * (block.line - 1) + block.text, str(PAGE), "exec"), names)
    table = Table(f"t{uuid4().hex}")

    class Document(Entity, table=table):
        name: str
        body: Annotated[bytes, Blob(over=20)]

        primary = PrimaryKey("DOCUMENT#{name}")

    backend = DynamoDB(endpoint_url=moto_server, region="us-east-1")
    place = Blobs(f"s3://{bucket}/prod", endpoint_url=moto_server, key="test", secret="test")
    dynamodb = boto3.client("dynamodb", endpoint_url=moto_server)
    with Store(table, backend, blobs=place) as db:
        db.create()
        for body in (LONG, b"short"):
            db.put(Document(name="a", body=body))
            assert names["body_of"](dynamodb, client, "DOCUMENT#a", bucket, "prod", table.name) == body
            assert db.one(Document, name="a").body == body
        keys = [one["Key"] for one in client.list_objects_v2(Bucket=bucket)["Contents"]]
        assert keys == [f"prod/{table.name}/{MARKER}"]
        marker = json.loads(client.get_object(Bucket=bucket, Key=keys[0])["Body"].read())
        host = moto_server.removeprefix("http://")
        account = {"account": "123456789012", "region": "us-east-1", "endpoint": host}
        assert marker["parts"] == {"backend": "dynamodb", "table": table.name, **account}
        assert str(db.measure()).startswith("about 1 item, ")
        with db.batch() as batch:
            batch.put(Document(name="a", body=LONG))
        db.delete(Document, name="b")
        with db.batch() as batch:
            batch.put(Document(name="a", body=b"short"))
        assert db.sweep().orphans == ()
        assert db.sweep(grace=0, force=True, remove=True, remove_most=True).removed == 1
        assert db.sweep(grace=0, force=True).orphans == ()
        db.put(Document(name="a", body=LONG))
        keys = [one["Key"] for one in client.list_objects_v2(Bucket=bucket)["Contents"]]
        (key,) = (one for one in keys if not one.endswith(MARKER))
        client.delete_object(Bucket=bucket, Key=key)
        with pytest.raises(ItemInvalid, match="does not exist"):
            db.get(Document, name="a")


async def test_s3_with_an_async_store(s3: tuple[Any, str], moto_server: str) -> None:
    place = Blobs(f"s3://{s3[1]}/x", endpoint_url=moto_server, key="test", secret="test")
    async with AsyncStore(texts, Memory(), blobs=place) as db:
        await db.create()
        await db.put(Lazy(name="a", text=LazyBytes(LONG)))
        assert await (await db.one(Lazy, name="a")).text.aread() == LONG
        await db.delete(Lazy, name="a")
    assert [one["Key"] for one in s3[0].list_objects_v2(Bucket=s3[1])["Contents"]] == [f"x/texts/{MARKER}"]


@pytest.mark.skipif(not full(), reason="the example runs in a folder by default")
def test_the_example_on_s3(s3: tuple[Any, str], moto_server: str) -> None:
    place = Blobs(f"s3://{s3[1]}/scans", endpoint_url=moto_server, key="test", secret="test")
    assert large_document.main(Memory(), place)["blobs that no item refers to"] == "0"


def test_of_an_older_version_under_another_name(tmp_path: Path) -> None:
    first, second = Table("notes"), Table("notes")
    backend = Memory()

    class First(Entity, table=first, tag="Note"):
        name: str
        text: Annotated[LazyBytes, Blob(over=20)]

        primary = PrimaryKey("NOTE#{name}")

    class Second(Entity, table=second, tag="Note", version=2):
        name: str
        words: Annotated[LazyBytes, Blob(over=20)]
        title: str = ""

        primary = PrimaryKey("NOTE#{name}")

        @upgrade(from_=1)
        @staticmethod
        def renamed(item: dict[str, Any]) -> dict[str, Any]:
            return {**item, "words": item["text"]}

    old, new = (Store(table, backend, blobs=tmp_path) for table in (first, second))
    old.create()
    for name in "abc":
        old.put(First(name=name, text=LazyBytes(LONG)))
    found = new.one(Second, name="a")
    assert found.words.read() == LONG
    new.put(found.model_copy(update={"title": "put back"}))
    new.update(Second.primary(name="b"), set_(Second.title, "updated"))
    new.put(Second(name="c", words=LazyBytes(b"short")))
    assert [new.one(Second, name=name).words.read() for name in "abc"] == [LONG, LONG, b"short"]
    assert len(files(tmp_path / "notes")) == 2
    assert new.sweep(grace=0, force=True).orphans == ()


def test_stored_items_are_compared_with_the_models_without_their_blobs() -> None:
    schema = texts.compile()
    pointer = {"blob": "0" * 32, "size": 10**12, "sha256": ""}
    item = {"_t": "Eager", "name": "a", "title": "t", "text": pointer}
    entries = {"by_title": Key("TITLE#t", "Eager")}
    assert judge(schema, [Stored(Key("EAGER#a", ""), item, entries)]) == ()
    moved = judge(schema, [Stored(Key("EAGER#b", ""), item, entries)])
    assert [one.level for one in moved] == ["orphans"]


def test_changes_have_values_that_can_be_read(tmp_path: Path) -> None:
    db = Store(texts, Memory(changes=True), blobs=tmp_path)
    db.create()
    db.put(Lazy(name="a", text=LazyBytes(LONG)))
    db.update(Lazy.primary(name="a"), set_(Lazy.text, LazyBytes(LONG * 2)))
    (shard,) = db.run(lambda do: do.change_shards())
    (first, _), (second, _) = db.run(lambda do: do.changes(shard.id)).items
    assert second.new is not None
    assert second.new.text.read() == LONG * 2
    assert first.new is not None
    with pytest.raises(Conflict, match="read the item again"):
        first.new.text.read()


class TestMarker:
    """The file in a folder of blobs that names their table."""

    def test_two_databases_cannot_share_a_folder(self, tmp_path: Path) -> None:
        stores = [Store(texts, LocalFile(tmp_path / f"{name}.db"), blobs=tmp_path / "blobs") for name in "ab"]
        stores[0].create()
        with pytest.raises(BadValue, match=r"belongs to table 'texts' of 'file .*a\.db', not to table 'texts' of file"):
            stores[1].create()
        with pytest.raises(BadValue, match=r"belongs to table 'texts'.*remove the file odm-table\.json"):
            stores[1].put(Eager(name="a", text=LONG))
        assert (stores[1].get(Eager, name="a"), files(tmp_path)) == (None, [])
        stores[1].put(Eager(name="a", text=b"short"))  # needs no blob

    def test_a_copy_cannot_remove_what_the_original_refers_to(self, tmp_path: Path) -> None:
        with Store(texts, LocalFile(tmp_path / "a.db"), blobs=tmp_path / "blobs") as db:
            db.create()
            db.put(Lazy(name="a", text=LazyBytes(LONG)))
        LocalFile(tmp_path / "a.db").copy(tmp_path / "b.db")
        with Store(texts, LocalFile(tmp_path / "b.db"), blobs=tmp_path / "blobs") as db:
            with pytest.raises(BadValue, match="belongs to table 'texts'"):
                db.delete(Lazy, name="a")
            assert db.one(Lazy, name="a").text.read() == LONG

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "{",
            "[" * 4000,
            "null",
            "{}",
            '{"format":1}',
            '{"format":1,"parts":{}}',
            '{"format":1,"parts":{"table":"texts"}}',
            '{"format":1,"parts":{"backend":"memory","table":["texts"]}}',
            '{"format":2,"parts":{"backend":"memory","table":"texts"}}',
            '{"format":1,"parts":{"backend":"memory","table":"texts"}}' + " " * 5000,
            '{"format":1,"parts":{"backend":"\\ud800","table":"texts"}}',
            "\x00\xff",
        ],
    )
    def test_a_damaged_one_is_refused(self, text: str, tmp_path: Path) -> None:
        (tmp_path / "texts").mkdir()
        (tmp_path / "texts" / MARKER).write_text(text, encoding="latin-1")
        db = Store(texts, Memory(), blobs=tmp_path)
        with pytest.raises(BadValue, match="cannot be read, so it is not known to which table"):
            db.create()
        with pytest.raises(BadValue, match=f"remove {MARKER} and try again"):
            db.sweep(grace=0, force=True, remove=True, remove_most=True)

    @pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="Windows has no named pipes")
    @pytest.mark.parametrize("kind", ["pipe", "link", "folder"])
    def test_what_is_not_a_file_is_refused(self, kind: str, tmp_path: Path) -> None:
        folder, valid = tmp_path / "texts", tmp_path / "valid"
        folder.mkdir()
        valid.write_text('{"format":1,"parts":{"backend":"memory","table":"texts"}}')
        if kind == "pipe":
            os.mkfifo(folder / MARKER)
        elif kind == "link":
            (folder / MARKER).symlink_to(valid)
        else:
            (folder / MARKER).mkdir()
        with pytest.raises(BadValue, match="cannot be read, so it is not known to which table"):
            Store(texts, Memory(), blobs=tmp_path).create()

    def test_long_names_in_it_are_cut(self, tmp_path: Path) -> None:
        (tmp_path / "texts").mkdir()
        parts = {"backend": "memory", "table": "x" * 3000}
        (tmp_path / "texts" / MARKER).write_text(json.dumps({"format": 1, "parts": parts, "place": "a\nb"}))
        with pytest.raises(BadValue, match=r"belongs to table 'x{80}' of 'a\\nb', not to") as error:
            Store(texts, Memory(), blobs=tmp_path).create()
        assert len(str(error.value)) < 1000

    def test_two_programs_that_write_it_at_once_agree(self, tmp_path: Path) -> None:
        folders = [Blobs(tmp_path).folder("texts") for _ in range(2)]
        tables = [TableIdentity({"backend": "file", "table": "texts", "file": name}) for name in "ab"]
        folders[0].check(tables[0])
        folders[1].claim(tables[1])
        folders[0]._write_marker(b"of the first, which saw none")  # type: ignore[attr-defined]
        with pytest.raises(BadValue, match="belongs to"):
            folders[0].claim(tables[0])
        assert [one.name for one in (tmp_path / "texts").iterdir()] == [MARKER]

    def test_it_is_read_once_by_a_store(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        db = Store(texts, Memory(), blobs=tmp_path)
        db.create()
        asked: list[str] = []
        with monkeypatch.context() as patch:
            patch.setattr("odm.stores.blobs._Folder._read_marker", lambda _self, path: asked.append(path))
            with db.meter() as meter:
                for number in range(3):
                    db.put(Eager(name=str(number), text=LONG))
        assert (asked, "IdentifyTable" in str(meter)) == ([], False)

    def test_regions_of_a_global_table_share_a_folder(self) -> None:
        parts = {"backend": "dynamodb", "table": "texts", "account": "1", "region": "eu-west-1"}
        there = {**parts, "region": "us-east-1"}
        assert TableIdentity(parts, (there,)).is_of(there)
        assert not TableIdentity(parts).is_of(there)
        assert not TableIdentity(parts, (there,)).is_of({**there, "account": "2"})
        assert TableIdentity({"backend": "dynamodb", "table": "texts"}).is_of(there)  # may not describe the table

    async def test_an_async_store_marks_its_folder(self, tmp_path: Path) -> None:
        async with AsyncStore(texts, Memory(), blobs=tmp_path) as db:
            await db.create()
            await db.put(Eager(name="a", text=LONG))
            marker = tmp_path / "texts" / MARKER
            marker.write_text(marker.read_text().replace("memory", "dynamodb"))
            with pytest.raises(BadValue, match="belongs to table 'texts'"):
                await db.sweep(grace=0, force=True)
            marker.unlink()
            (tmp_path / "texts" / ("0" * 32)).write_bytes(b"")
            swept = await db.sweep(grace=0, force=True, remove=True, confirm=lambda found: found.blobs == 2)
            assert (swept.removed, marker.exists()) == (1, True)
            assert (await db.measure()).items == 1


@pytest.mark.parametrize(
    "pointer",
    [
        {"blob": "../../secret", "size": 1, "sha256": ""},
        {"blob": "/etc/passwd", "size": 1, "sha256": ""},
        {"blob": f"{'0' * 32}\n", "size": 1, "sha256": ""},
        {"blob": "0" * 32, "size": -1, "sha256": ""},
        {"blob": "0" * 32, "size": True, "sha256": ""},
        {"blob": 1, "size": 1, "sha256": ""},
    ],
)
def test_no_other_name_becomes_a_path(pointer: Any) -> None:
    """An item that another program wrote may hold anything."""
    assert pointer_of(pointer) is None
    assert placeholders({"data": True}, {"data": pointer}) == {"data": pointer}
