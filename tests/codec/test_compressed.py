"""Compressed values: thresholds, frames of other programs, and what cannot be read."""

import gzip
import zlib
from types import new_class
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, RootModel

from odm import AUTO, BadValue, Cell, CellVersions, Compressed, Entity, Id, ItemInvalid, PrimaryKey, SchemaError, Table
from odm.codec.types import compressed
from odm.codec.types.compressed import GZIP, ZSTD, zstd

MOST = 100_000
MiB = 2**20


class Part(BaseModel):
    text: Annotated[str, Compressed("zstd", over=10)] = ""


class Zstd(Entity, table=Table("zstd")):
    id: str = "z"
    text: Annotated[str, Compressed("zstd", over=50, max_size=MOST)] = ""
    data: Annotated[bytes | None, Compressed("zstd", level=19, over=50, max_size=MOST)] = None
    parts: dict[str, Part] = {}  # pydantic copies defaults
    plain: str = ""

    primary = PrimaryKey("Z#{id}")


class Gzip(Entity, table=Table("gzip")):
    id: str = "z"
    text: Annotated[str, Compressed("gzip", over=50, max_size=MOST)] = ""
    data: Annotated[bytes | None, Compressed("gzip", level=1, over=50, max_size=MOST)] = None
    parts: dict[str, Part] = {}  # pydantic copies defaults
    plain: str = ""

    primary = PrimaryKey("Z#{id}")


CODECS: dict[Any, Any] = {cls: next(iter(cls.__odm_table__.compile().entities.values())).codec for cls in (Zstd, Gzip)}  # type: ignore[union-attr]
DATA = bytes(range(256)) * 20


def deflated(data: bytes) -> bytes:
    """One gzip member, as another program writes it: with a name and a time."""
    packer = zlib.compressobj(9, wbits=-15)
    head = GZIP + b"\x08\x08" + b"\x01\x02\x03\x04" + b"\x00\x03" + b"page.txt\x00"
    body = packer.compress(data) + packer.flush()
    return head + body + zlib.crc32(data).to_bytes(4, "little") + len(data).to_bytes(4, "little")


def streamed(data: bytes) -> bytes:
    """A zstd frame without a content size, with a checksum, in many blocks."""
    module = zstd()
    packer = module.ZstdCompressor(options={module.CompressionParameter.checksum_flag: 1})
    pieces = [packer.compress(data[at : at + 99], packer.FLUSH_BLOCK) for at in range(0, len(data), 99)]
    return b"".join([*pieces, packer.flush()])


def read(cls: type[Any], stored: Any, name: str = "data") -> Any:
    codec = CODECS[cls]
    return getattr(codec.decode({"_t": codec.tag, "id": "z", name: stored}), name)


@given(
    st.text() | st.text("ab", min_size=40, max_size=60),
    st.none() | st.binary(max_size=120) | st.builds(bytes.__add__, st.sampled_from([ZSTD, GZIP]), st.binary()),
)
@pytest.mark.parametrize("cls", [Zstd, Gzip])
def test_values_read_back_equal(cls: Any, text: str, data: bytes | None) -> None:
    codec, entity = CODECS[cls], cls(text=text, data=data, parts={"p": Part(text=text)})
    item = codec.encode(entity)
    assert codec.decode(item) == entity
    other = Gzip if cls is Zstd else Zstd  # the algorithm can be changed later
    assert CODECS[other].decode({**item, "_t": CODECS[other].tag}).text == text
    assert isinstance(item["text"], bytes) == (len(text.encode()) > 50)
    if data is not None and item["data"] != data:
        assert len(data) > 50 or data.startswith((ZSTD, GZIP))


@pytest.mark.parametrize("size", [50, 51])
def test_the_threshold_counts_bytes(size: int) -> None:
    item = CODECS[Gzip].encode(Gzip(text="ö" * (size // 2) + "x" * (size % 2), data=b"x" * size))
    assert [type(item["text"]), item["data"] == b"x" * size] == ([str, True] if size == 50 else [bytes, False])


def test_the_same_value_has_the_same_bytes() -> None:
    entity = Gzip(text="x" * 99)
    assert CODECS[Gzip].encode(entity)["text"] == gzip.compress(b"x" * 99, 6, mtime=0)
    assert zstd().decompress(CODECS[Zstd].encode(Zstd(text="x" * 99))["text"]) == b"x" * 99


@pytest.mark.parametrize("cls", [Zstd, Gzip])
@pytest.mark.parametrize(
    "frames",
    [
        deflated(DATA),
        deflated(DATA[:99]) + gzip.compress(DATA[99:]) + bytes(512),  # members one after another, and padding
        streamed(DATA),
        zstd().compress(DATA[:99]) + streamed(DATA[99:]),
        zstd().compress(DATA[:99]) + gzip.compress(DATA[99:]),
    ],
    ids=["gzip", "members", "no size", "frames", "both"],
)
def test_frames_of_other_programs_are_read(cls: Any, frames: bytes) -> None:
    assert read(cls, frames) == DATA


@pytest.mark.parametrize(
    ("frames", "why"),
    [
        (deflated(DATA)[:-1], "cut off"),
        (streamed(DATA)[:-1], "cut off"),
        (zstd().compress(DATA)[:30], "cut off"),
        (ZSTD, "cut off"),
        (GZIP, "cut off"),
        (ZSTD + b"\xff" * 20, ""),
        (GZIP + b"\xff" * 20, ""),
        (deflated(DATA)[:-8] + bytes(8), "incorrect data check"),
        (streamed(DATA)[:-4] + bytes(4), "checksum"),
        (gzip.compress(DATA) + b"more", ""),
        (zstd().compress(DATA) + b"more", ""),
        (zstd().compress(bytes(MOST + 1)), "larger than max_size"),
        (gzip.compress(bytes(60_000)) * 2, "larger than max_size"),
        (gzip.compress(b"") * 1025, "more than 1024 frames"),
        (streamed(bytes(MOST + 1)), "larger than max_size"),
    ],
)
@pytest.mark.parametrize("name", ["text", "data"])
def test_what_cannot_be_read_makes_the_item_invalid(name: str, frames: bytes, why: str) -> None:
    with pytest.raises(ItemInvalid, match=f"{name}: the compressed value cannot be read: .*{why}"):
        read(Zstd, frames, name)


@pytest.mark.parametrize("stored", [b"no frame", gzip.compress(b"\xff\xfe", mtime=0), 5, ["x"]])
def test_a_text_that_is_none_makes_the_item_invalid(stored: Any) -> None:
    with pytest.raises(ItemInvalid, match="text: "):
        read(Zstd, stored, "text")


def test_a_nested_value_that_cannot_be_read() -> None:
    with pytest.raises(ItemInvalid, match=r"parts\.p\.text: the compressed value"):
        read(Zstd, {"p": {"text": ZSTD}}, "parts")


def test_a_bomb_is_read_no_further_than_the_maximum(monkeypatch: pytest.MonkeyPatch) -> None:
    bombs = [zstd().compress(bytes(50 * MiB)), gzip.compress(bytes(20 * MiB))]
    sizes: list[int] = []
    whole = compressed._whole

    def measured(found: bytes, most: int, eof: bool, rest: bytes) -> tuple[bytes, bytes]:
        sizes.append(len(found))
        return whole(found, most, eof, rest)

    monkeypatch.setattr(compressed, "_whole", measured)
    for bomb in bombs:
        with pytest.raises(ItemInvalid, match="max_size"):
            read(Gzip, bomb)
    assert max(sizes) == MOST + 1


def test_a_value_that_could_not_be_read_back_is_refused() -> None:
    with pytest.raises(BadValue, match=r"Gzip\.text: .*max_size"):
        CODECS[Gzip].encode(Gzip(text="x" * (MOST + 1)))
    assert CODECS[Gzip].sure


class Root(RootModel[str]):
    pass


def faulty(kind: Any, default: Any = "", key: str = "T#{id}") -> None:
    """Compile an entity with one more field."""
    table = Table("faulty")
    body = {"__annotations__": {"id": str, "x": kind}, "x": default, "primary": PrimaryKey(key), "__module__": __name__}
    new_class("Faulty", (Entity,), {"table": table}, lambda space: space.update(body))
    table.compile()


Bad: Any = Literal["brotli"]


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        (Annotated[int, Compressed()], {"default": 0}, "neither str nor bytes"),
        (Annotated[dict[str, Any], Compressed()], {"default": {}}, "neither str nor bytes"),
        (Annotated[Root, Compressed()], {"default": Root("")}, "neither str nor bytes"),
        (Annotated[str | bytes, Compressed()], {}, "neither str nor bytes"),
        (Annotated[str, Compressed], {}, "without parentheses"),
        (Annotated[str, Compressed("brotli")], {}, "'zstd' and 'gzip'"),  # type: ignore[arg-type]
        (Annotated[str, Compressed("gzip", level=10)], {}, "levels 1 to 9"),
        (Annotated[str, Compressed(over=-1)], {}, "over=-1"),
        (Annotated[str, Compressed()], {"key": "T#{id}#{x}"}, "part of a key"),
        (Annotated[str, Compressed(), CellVersions(3)], {}, "marker of a role"),
        (Annotated[str, Compressed(), Cell("a:b")], {}, "Cell"),
        (Annotated[str, Compressed(), Id()], {"default": AUTO}, "Id|role"),
        (list[Annotated[str, Compressed()]], {"default": []}, "no effect"),
    ],
)
def test_what_cannot_be_compressed_is_refused(kind: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        faulty(kind, **options)


def test_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = zstd().compress(DATA)

    def missing() -> Any:
        raise ImportError

    monkeypatch.setattr(compressed, "zstd", missing)
    with pytest.raises(SchemaError, match=r"pip install 'single-table-odm\[zstd\]'"):
        faulty(Annotated[str, Compressed("zstd")])
    faulty(Annotated[str, Compressed("gzip")])
    with pytest.raises(ItemInvalid, match=r"pip install 'single-table-odm\[zstd\]'"):
        read(Gzip, frame)
