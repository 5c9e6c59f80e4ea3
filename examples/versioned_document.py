"""A document with its versions: the newest in one get, those before it as they were, and two authors at once.

The newest is ``DOC#d1`` / ``v0``, as published; version 1 and the others lie next to it, in order. Five are kept.
"""

import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated

from odm import Backend, Conflict, Entity, PrimaryKey, Revision, Store, Table, set_
from odm.backends.local import LocalFile
from odm.patterns.versioned import Versioned

docs = Table("documents")


class Document(Entity, table=docs):
    """A text; its number counts up by itself."""

    doc_id: str
    text: str
    author: str
    version: Annotated[int, Revision] = 0

    primary = PrimaryKey("DOC#{doc_id}", "v0")
    history = Versioned("DOC#{doc_id}", "v{version}", keep=5)


def write(db: Store, author: str, line: str) -> Document:
    """Add a line to the newest version, again where the other author was faster."""
    while True:
        newest = db.one(Document, doc_id="d1")
        try:
            return db.put(newest.model_copy(update={"text": f"{newest.text} {line}", "author": author}))
        except Conflict:
            continue


def main(backend: Backend) -> dict[str, str]:
    """Let two authors write, and go through what they wrote."""
    with Store(docs, backend) as db:
        db.create()
        db.delete(Document, doc_id="d1")  # of an earlier run, with its versions
        draft = db.insert(Document(doc_id="d1", text="Once", author="ann"))
        db.update(Document.primary(doc_id="d1"), set_(Document.text, "Once upon a time"))
        stale = "done"
        try:
            db.put(draft.model_copy(update={"text": "Twice"}))
        except Conflict:
            stale = "refused"
        with ThreadPoolExecutor(2) as pool:
            written = [*pool.map(write, [db] * 4, ["ann", "bob"] * 2, "wxyz")]

        kept = list(db.query(Document.history(doc_id="d1").reverse()))
        changed = db.run(Document.history.compare(2, 6, doc_id="d1"))["text"]
        back = db.run(Document.history.revert(to=2, doc_id="d1"))
        answers = {
            "an edit of the first version, when there were two": stale,
            "numbers of the two authors": ", ".join(map(str, sorted(one.version for one in written))),
            "words that they added": "".join(sorted(changed[1].removeprefix(changed[0]).split())),
            "kept, newest first": ", ".join(str(one.version) for one in kept),
            "the first version by now": str(db.get(Document.history.version(1, doc_id="d1"))),
            "back to the second": f"{back.version}, {back.text}",
        }
    assert answers == {
        "an edit of the first version, when there were two": "refused",
        "numbers of the two authors": "3, 4, 5, 6",
        "words that they added": "wxyz",
        "kept, newest first": "6, 5, 4, 3, 2",
        "the first version by now": "None",
        "back to the second": "7, Once upon a time",
    }
    return answers


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        for question, answer in main(LocalFile(Path(folder, "documents.db"))).items():
            print(f"{question}: {answer}")
