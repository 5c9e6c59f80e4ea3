"""Kills real writer processes at random times, and checks the contents of the file after each kill.

Run it as ``python -m tests.backends.local.kills --kills 200 [--seed N]``. Two processes at a time write to one file:
puts, inserts, updates that change index keys, deletes, batches, transactions, and sometimes `create`, `compact` and
`copy`. Through a pipe, each process reports what it is about to change, and then that the call has returned. After a
kill, the file must contain every change whose call has returned, the change in progress completely or not at all (of a
batch: per item), and nothing else. Every access pattern must find exactly the items that a scan finds, and the index
entries in the file must match its items. The change log must have exactly the changes that made these items.
"""

import argparse
import json
import multiprocessing
import os
import random
import signal
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

from pydantic import Field, TypeAdapter

from odm import AccessPattern, Entity, PrimaryKey, Store, Table, remove, set_
from odm.backends.local import LocalFile
from odm.extend import Calls, Gen

WRITERS: Final = 2
DOCUMENTS: Final = 40
LONGEST_SECONDS: Final = 0.25
KINDS: Final = {
    "put": 6,
    "insert": 3,
    "update": 6,
    "leave": 3,
    "delete": 3,
    "batch": 3,
    "transaction": 3,
    "create": 1,
    "compact": 1,
    "copy": 1,
}

FORK: Final = multiprocessing.get_context("fork")
"""Fast, and another test: the process that forks has the file open."""

documents = Table("documents")


class Document(Entity, table=documents):
    owner: str
    name: str
    state: str
    rank: Annotated[int, Field(ge=0, lt=1000)]
    due: str | None = None
    text: str = ""

    primary = PrimaryKey("OWNER#{owner}", "{name}")
    by_state = AccessPattern("STATE#{state}", "{rank}#{owner}#{name}")
    by_due = AccessPattern("DUE", "{due}#{owner}#{name}")


State: TypeAlias = dict[str, Document]
"""One writer's documents by name."""

Effects: TypeAlias = Mapping[str, Document | None]
"""The documents after a call, by name; None: deleted."""

_EFFECTS: Final[TypeAdapter[dict[str, Document | None]]] = TypeAdapter(dict[str, Document | None])


class Writer:
    """One process that writes until it is killed."""

    def __init__(self, path: Path, owner: str, state: State, chance: random.Random, tell: Connection) -> None:
        self.path, self.owner, self.state, self.chance, self.tell = path, owner, state, chance, tell
        self.backend = LocalFile(path, changes=True)
        self.db = Store(documents, self.backend)

    def run(self) -> None:
        self.perform("create", {}, self.db.create)
        while True:
            [kind] = self.chance.choices(list(KINDS), list(KINDS.values()))
            getattr(self, kind)()

    def perform(self, kind: str, effects: Effects, call: Any, *arguments: Any) -> None:
        """Report the effects, make the call, and report that it returned."""
        self.tell.send_bytes(json.dumps([kind, json.loads(_EFFECTS.dump_json(dict(effects)))]).encode())
        call(*arguments)
        self.tell.send_bytes(b"")
        for name, document in effects.items():
            if document is None:
                self.state.pop(name, None)
            else:
                self.state[name] = document

    def document(self, name: str | None = None) -> Document:
        chance = self.chance
        return Document(
            owner=self.owner,
            name=name or f"d{chance.randrange(DOCUMENTS)}",
            state=chance.choice(["open", "held", "shut"]),
            rank=chance.randrange(1000),
            due=chance.choice([None, f"day {chance.randrange(30)}"]),
            text=chance.choice("abc") * chance.choice([0, 50, 3000, 20_000]),
        )

    def put(self) -> None:
        document = self.document()
        self.perform("put", {document.name: document}, self.db.put, document)

    def insert(self) -> None:
        document = self.document()
        if document.name not in self.state:
            self.perform("insert", {document.name: document}, self.db.insert, document)

    def update(self) -> None:
        if self.state:
            old = self.chance.choice(list(self.state.values()))
            new = self.document(old.name).model_copy(update={"due": "day 5"})
            actions = [set_(Document.state, new.state), set_(Document.rank, new.rank)]
            actions += [set_(Document.due, "day 5"), set_(Document.text, new.text)]
            self.perform("update", {old.name: new}, self.db.update, old, *actions)

    def leave(self) -> None:
        """Update a document so that an index no longer contains it."""
        if self.state:
            old = self.chance.choice(list(self.state.values()))
            new = old.model_copy(update={"due": None})
            self.perform("leave", {old.name: new}, self.db.update, old, remove(Document.due))

    def delete(self) -> None:
        if self.state:
            old = self.chance.choice(list(self.state.values()))
            self.perform("delete", {old.name: None}, self.db.delete, old)

    def batch(self) -> None:
        effects = self._some_effects()
        self.perform("batch", effects, self._send_batch, effects)

    def transaction(self) -> None:
        effects = self._some_effects()
        self.perform("transaction", effects, self._send_transaction, effects)

    def _some_effects(self) -> Effects:
        names = self.chance.sample(range(DOCUMENTS), 15)
        return {f"d{n}": self.chance.choice([None, self.document(f"d{n}")]) for n in names}

    def _send_transaction(self, effects: Effects) -> None:
        with self.db.transaction() as transaction:
            for name, document in effects.items():
                if document is None:
                    transaction.delete(Document.primary(owner=self.owner, name=name))
                else:
                    transaction.put(document)

    def _send_batch(self, effects: Effects) -> None:
        with self.db.batch() as batch:
            for name, document in effects.items():
                if document is None:
                    batch.delete(Document.primary(owner=self.owner, name=name))
                else:
                    batch.put(document)

    def create(self) -> None:
        self.perform("create", {}, self.db.create)

    def compact(self) -> None:
        self.perform("compact", {}, self.backend.compact)

    def copy(self) -> None:
        to = self.path.with_name(f"copy-{self.chance.getrandbits(60)}")
        self.perform("copy", {}, self.backend.copy, to)


def write(path: Path, owner: str, state: State, seed: int, tell: Connection) -> None:
    """The main function of a writer process."""
    Writer(path, owner, state, random.Random(seed), tell).run()


class Process:
    """A writer process, from the side of the process that kills it."""

    def __init__(self, path: Path, owner: str, state: State, seed: int) -> None:
        self.owner, self.state = owner, state
        self._told, tell = FORK.Pipe(duplex=False)
        self._process = FORK.Process(target=write, args=(path, owner, state, seed, tell), daemon=True)
        self._process.start()
        tell.close()
        self.under_way: tuple[str, Effects] = ("nothing", {})

    def listen(self, seconds: float) -> None:
        """Record what the process reports, for this long."""
        end = time.monotonic() + seconds
        while self._told.poll(max(0.0, end - time.monotonic())):
            self._note(self._told.recv_bytes())

    def kill(self) -> None:
        """Kill the process, and record its last reports."""
        os.kill(self._process.pid or 0, signal.SIGKILL)
        try:
            while True:
                self._note(self._told.recv_bytes())
        except (EOFError, ConnectionError):
            self._told.close()
        self._process.join()
        assert self._process.exitcode == -signal.SIGKILL, f"{self.owner} ended by itself: {self._process.exitcode}"

    def _note(self, told: bytes) -> None:
        if told:
            kind, effects = json.loads(told)
            self.under_way = kind, _EFFECTS.validate_python(effects)
        else:
            self.state = applied(self.state, self.under_way[1])
            self.under_way = "nothing", {}

    def settle(self, found: State) -> None:
        """Check the contents of the file against the reports, and continue with them."""
        kind, effects = self.under_way
        names = {*found, *self.state, *effects}
        if kind == "batch":
            wrong = [n for n in names if found.get(n) not in (self.state.get(n), effects.get(n, self.state.get(n)))]
        else:
            before = [n for n in names if found.get(n) != self.state.get(n)]
            after = [n for n in names if found.get(n) != applied(self.state, effects).get(n)]
            wrong = before and after
        assert not wrong, f"{self.owner} was in {kind} of {set(effects)}: {wrong} are neither as before nor as after"
        self.state = found


def applied(state: State, effects: Effects) -> State:
    return {name: document for name, document in {**state, **effects}.items() if document is not None}


def check(db: Store, path: Path) -> dict[str, State]:
    """The documents of each owner in a file whose indexes must be those of its items."""
    everything = list(db.scan(Document))
    by_state = [one for state in ("open", "held", "shut") for one in db.query(Document.by_state(state=state))]
    expected = sorted(everything, key=lambda d: (["open", "held", "shut"].index(d.state), d.rank, d.owner, d.name))
    assert by_state == expected, "by_state does not find what a scan finds"
    due = [document for document in everything if document.due is not None]
    assert sorted(map(str, db.query(Document.by_due()))) == sorted(map(str, due)), (
        "by_due does not find what a scan finds"
    )
    assert db.run(logged) == {db.key_of(document): document for document in everything}, "the log has other changes"
    check_entries(path)
    owners: dict[str, State] = {f"w{n}": {} for n in range(WRITERS)}
    for document in everything:
        owners[document.owner][document.name] = document
    return owners


def logged(do: Calls) -> Gen[dict[tuple[str, str], Document]]:
    """The documents that the changes in the log make; each change begins with what the one before it left."""
    [shard] = yield from do.change_shards()
    page = yield from do.changes(shard.id)
    found: dict[tuple[str, str], Document | None] = {}
    while page.items:
        for change, _ in page.items:
            assert found.get(change.key) == change.old, f"a change of {change.key} is not in the log"
            found[change.key] = change.new
        page = yield from do.changes(shard.id, page.position)
    return {key: document for key, document in found.items() if document is not None}


def check_entries(path: Path) -> None:
    """Check that the file is intact and its index entries match its items."""
    with closing(sqlite3.connect(path)) as raw:
        assert raw.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        spaces = dict(raw.execute('SELECT "index", id FROM spaces'))
        implied = {
            (spaces[index], index_key[0].encode(), index_key[1].encode(), partition, sort)
            for partition, sort, entries in raw.execute("SELECT partition, sort, entries FROM items")
            for index, index_key in json.loads(entries).items()
        }
        rows = raw.execute("SELECT space, partition, sort, item_partition, item_sort FROM entries").fetchall()
        assert len(rows) == len(implied)
        assert set(rows) == implied, "index entries differ from those that the items imply"


def check_copies(folder: Path) -> None:
    """Check that each named copy is complete, and remove the parts of unfinished ones."""
    copies = [
        path for path in folder.glob("copy-*") if "." not in path.name and not path.name.endswith(("-wal", "-shm"))
    ]
    for path in copies:
        with Store(documents, LocalFile(path)) as db:
            check(db, path)
    for path in folder.glob("copy-*"):
        path.unlink()


def main(kills: int, seed: int, folder: Path) -> Counter[str]:
    """Kill this often; returns how often each call was in progress at a kill."""
    chance = random.Random(seed)
    under_way: Counter[str] = Counter()
    while under_way.total() < kills:  # sometimes on a new file
        path = folder / f"{under_way.total()}.db"
        with Store(documents, LocalFile(path, changes=True)) as db:  # stays open while processes are forked
            states: dict[str, State] = {f"w{n}": {} for n in range(WRITERS)}
            for _ in range(min(10, kills - under_way.total() + WRITERS)):
                states = one_round(db, path, states, chance, under_way)
    return under_way


def one_round(
    db: Store, path: Path, states: dict[str, State], chance: random.Random, under_way: Counter[str]
) -> dict[str, State]:
    """Start the writers, kill each at a random time, check, and return the contents of the file."""
    processes = [Process(path, owner, state, chance.getrandbits(60)) for owner, state in states.items()]
    for process in processes:
        process.listen(chance.uniform(0, LONGEST_SECONDS))
        process.kill()
        under_way[process.under_way[0]] += 1
    db.create()  # a file whose creation was killed may have no table
    found = check(db, path)
    for process in processes:
        process.settle(found[process.owner])
    check_copies(path.parent)
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().getrandbits(32))
    options = parser.parse_args()
    sys.stdout.write(f"seed {options.seed}\n")
    sys.stdout.flush()
    with tempfile.TemporaryDirectory() as name:
        counted = main(options.kills, options.seed, Path(name))
    sys.stdout.write(
        f"{counted.total()} kills, during: " + ", ".join(f"{k} {n}" for k, n in counted.most_common()) + "\n"
    )
