"""Merges that add to aggregates: what they send, lost answers, and rivals of a merge that reads its item."""

from collections.abc import Iterator
from itertools import count
from typing import Annotated, Any

import pytest
from google.cloud.bigtable_v2 import types

from odm import BackendError, Entity, Max, OutcomeUnknown, PrimaryKey, Store, Sum, Table, add_value, set_
from odm.backends.bigtable import Bigtable
from odm.backends.bigtable.client.native import (
    AddToCell,
    CheckAndMutateRow,
    Mutated,
    MutateRow,
    MutateRows,
    Status,
)
from odm.backends.bigtable.client.retry import Retry
from odm.backends.bigtable.requests import Procedures
from odm.errors import Throttled
from odm.expressions.nodes import Action, AddValue, Increment, Path, Set
from odm.procedures.context import Context
from odm.procedures.writing.merge import merge_write
from odm.protocol.connection import Connection
from odm.protocol.requests import BatchMerge, Failed, Merge, Written
from odm.schema.entity import Key
from tests.backends.bigtable.playing import BUSY, Clock, google, play
from tests.backends.bigtable.server import serving

ads = Table("merged-ads")
pages = Table("merged-pages", layout="row_per_partition")


class Ad(Entity, table=ads):
    name: str
    views: Annotated[int, Sum] = 0
    best: Annotated[int | None, Max] = None
    text: str = ""

    primary = PrimaryKey("AD#{name}")


class Page(Entity, table=pages):
    site: str
    path: str
    views: Annotated[int, Sum] = 0
    title: str = ""

    primary = PrimaryKey("SITE#{site}", "{path}")


ADDS = Increment(Path(("views",)), 3)
RAISES = AddValue(Path(("best",)), 5, "max")
TEXT = Set(Path(("text",)), "t")
PAGE = Page.primary(site="s", path="p")


def procedures(clock: Clock | None = None) -> Procedures:
    ids = count(1)
    retry = Retry(clock=clock or Clock(), jitter=lambda: 1.0)
    return Procedures(ads.compile(), retry, lambda: 5000, lambda: f"id{next(ids)}")


def merge(*actions: Any, name: str = "a") -> Merge:
    return Merge(Key(f"AD#{name}", "Ad"), actions, {"_t": "Ad", "name": name})


def test_values_are_added_without_a_read() -> None:
    ((call,), answer) = play(merge(ADDS, RAISES), None, on=procedures())
    added = [one for one in call.entry.mutations if isinstance(one, AddToCell)]
    assert added == [AddToCell("views", 3, "sum"), AddToCell("best", 5, "max")]
    assert answer == Written()


def test_a_sum_is_not_added_twice() -> None:
    for failure in (BUSY, google.DeadlineExceeded("slow"), google.Aborted("again")):
        with pytest.raises(OutcomeUnknown, match="may or may not have been applied"):
            play(merge(ADDS, TEXT), failure, on=procedures())
    clock = Clock()
    sent, answer = play(merge(RAISES, TEXT), BUSY, None, on=procedures(clock), clock=clock)
    assert [type(one) for one in sent if isinstance(one, MutateRow)] == [MutateRow] * 2
    assert answer == Written()


def test_a_batch_sends_again_what_was_certainly_not_added() -> None:
    request = BatchMerge((merge(ADDS, name="a"), merge(ADDS, name="b"), merge(RAISES, name="c"), merge(ADDS, name="d")))
    clock = Clock()
    first = Mutated({0: Status(8, "quota"), 1: Status(14, "busy"), 2: Status(14, "busy")}, BUSY)  # 3: no answer
    sent, answers = play(request, first, Mutated({0: Status(0), 1: Status(0)}), on=procedures(clock), clock=clock)
    rows = [[entry.key for entry in call.entries] for call in sent if isinstance(call, MutateRows)]
    assert rows == [["AD#a", "AD#b", "AD#c", "AD#d"], ["AD#a", "AD#c"]]
    assert [answers[0], answers[2]] == [Written()] * 2
    assert [type(one.error) for one in (answers[1], answers[3])] == [OutcomeUnknown] * 2


def test_a_batch_reports_each_row_that_is_refused() -> None:
    request = BatchMerge(tuple(merge(TEXT, name=name) for name in "abc"))
    clock = Clock()
    answered = Mutated({0: Status(0), 1: Status(3, "bad"), 2: Status(14, "busy")})
    _, answers = play(
        request, answered, *[Mutated({0: Status(14, "busy")})] * 50, on=procedures(clock), clock=clock, rest=True
    )
    assert isinstance(answers, tuple)
    assert answers[0] == Written()
    assert [type(one.error) for one in answers[1:] if isinstance(one, Failed)] == [BackendError, Throttled]


@pytest.fixture
def connection(bigtable_emulator: str) -> Iterator[Connection[Any]]:
    backend = Bigtable("project", "merged", endpoint=bigtable_emulator)
    with Store(pages, backend) as db:
        db.drop()
        db.create()
        connection = backend.connect(pages.compile())
        yield connection
        connection.close()


def performed(connection: Connection[Any], request: Merge, rival: Any) -> Any:
    """The answer to a merge; ``rival`` acts before its first conditional request."""
    steps = connection.steps(request)
    rivals = [rival]
    try:
        native = next(steps)
        while True:
            if isinstance(native, CheckAndMutateRow) and rivals:
                rivals.pop()()
            native = steps.send(connection.call(native))
    except StopIteration as done:
        return done.value


@pytest.mark.parametrize(
    ("action", "merged"),
    [(set_(Page.title, "t"), {"title": "t"}), (add_value(Page.views, 3), {"views": 3})],
    ids=("set", "add"),
)
@pytest.mark.parametrize("views", [0, 10, None])
def test_a_merge_that_reads_its_item_keeps_what_others_add(
    connection: Connection[Any], bigtable_emulator: str, action: Action, merged: dict[str, Any], views: int | None
) -> None:
    with Store(pages, Bigtable("project", "merged", endpoint=bigtable_emulator)) as db:
        if views is not None:
            db.put(Page(site="s", path="p", views=views))
        request = merge_write(Context(pages.compile()), PAGE, (action,)).request
        add = db.merge if views is None else db.update
        assert performed(connection, request, lambda: add(PAGE, add_value(Page.views, 2))) == Written()
        total = (views or 0) + 2 + merged.get("views", 0)
        assert db.one(PAGE) == Page(site="s", path="p", views=total, title=merged.get("title", ""))


def merge_both(db: Store) -> None:
    with db.batch() as batch:
        batch.merge(Ad.primary(name="a"), set_(Ad.text, "t"))
        batch.merge(Ad.primary(name="b"), add_value(Ad.views, 1))


def test_an_unknown_outcome_is_not_hidden_by_a_refused_row(bigtable_emulator: str) -> None:
    """Whoever sends again what is `left` must know that it may count twice."""

    refused = types.MutateRowsResponse.pb()(
        entries=[{"index": 0, "status": {"code": 3, "message": "bad"}}, {"index": 1, "status": {"code": 14}}]
    )
    with serving(bigtable_emulator) as server, Store(ads, Bigtable("p", "i", endpoint=server.address)) as db:
        server.scripts["MutateRows"] = [(refused,)]
        with pytest.raises(OutcomeUnknown) as raised:
            merge_both(db)
    assert len(raised.value.left) == 2


def test_a_batch_that_is_cut_off_is_not_sure_of_what_has_no_answer() -> None:
    request = BatchMerge((merge(ADDS, name="a"), merge(ADDS, name="b")))
    quota = google.ResourceExhausted("quota")
    _, answers = play(request, Mutated({0: Status(0)}, quota), on=procedures())
    assert isinstance(answers[1].error, OutcomeUnknown)
    _, answers = play(request, quota, Mutated({0: Status(0), 1: Status(0)}), on=procedures())
    assert answers == (Written(), Written())
