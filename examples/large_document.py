"""Documents with their scans: the item has what is listed, and the scan of many megabytes is in a folder or on S3.

The text is read with its document (`bytes`), the scan when a program asks for it (`LazyBytes`).
"""

import tempfile
from pathlib import Path
from typing import Annotated

from odm import Backend, Blob, Blobs, Conflict, Entity, LazyBytes, PrimaryKey, Store, Table, set_
from odm.backends.local import LocalFile

archive = Table("archive")
PAGE = b"\x89scan" * 200_000  # 1 MB, more than an item of DynamoDB can hold


class Scan(Entity, table=archive):
    """A scanned page, listed by its document."""

    document: str
    page: int
    title: str
    image: Annotated[LazyBytes, Blob(over=50_000)]

    primary = PrimaryKey("DOCUMENT#{document}", "PAGE#{page}")


class Text(Entity, table=archive):
    """The text of a document."""

    document: str
    words: Annotated[bytes, Blob(over=50_000)]

    primary = PrimaryKey("DOCUMENT#{document}", "TEXT")


def main(backend: Backend, blobs: str | Blobs | None = None) -> dict[str, str]:
    """Store a document of three pages, list and correct it, and remove what a stopped program would leave.

    Args:
        backend: where the items are.
        blobs: where the large values are, such as ``s3://bucket/prefix``; default: a temporary folder.
    """
    with tempfile.TemporaryDirectory() as folder, Store(archive, backend, blobs=blobs or folder) as db:
        db.create()
        for number in (1, 2, 3):
            db.put(Scan(document="d1", page=number, title=f"Page {number}", image=LazyBytes(PAGE)))
        db.put(Text(document="d1", words=b"word " * 40_000))

        listed = list(db.query(Scan.primary(document="d1")))
        first = listed[0]
        found = first.image.read()
        first.title = "Cover"
        db.put(first)  # its image stays where it is

        key = Scan.primary(document="d1", page=2)
        db.update(key, set_(Scan.image, LazyBytes(b"a better scan" * 10_000)))
        replaced = "read"
        try:
            listed[1].image.read()
        except Conflict:
            replaced = "replaced meanwhile"
        answers = {
            "pages, with the size of each": ", ".join(f"{one.title} {one.image.size}" for one in listed),
            "the image of the first": "the same bytes" if found == PAGE else "another",
            "the image of the second, read before its correction": replaced,
            "the second now": f"{db.one(key).image.size} bytes",
            "bytes of text": str(len(db.one(Text, document="d1").words)),
            "blobs that no item refers to": str(len(db.sweep(grace=0, force=True).orphans)),
        }
        db.delete_all(Scan.primary(document="d1"))
        db.delete(Text, document="d1")
    assert answers == {
        "pages, with the size of each": "Cover 1000000, Page 2 1000000, Page 3 1000000",
        "the image of the first": "the same bytes",
        "the image of the second, read before its correction": "replaced meanwhile",
        "the second now": "130000 bytes",
        "bytes of text": "200000",
        "blobs that no item refers to": "0",
    }
    return answers


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        for question, answer in main(LocalFile(Path(place, "archive.db"))).items():
            print(f"{question}: {answer}")
