"""`explain`: describes what a call would do, as a printable value, without sending a request."""

from collections.abc import Sequence
from typing import Any

from odm._published import public_in
from odm.codec.actions import WORDS
from odm.entities.entity import Entity
from odm.entities.query import Query
from odm.errors import BadValue, brief
from odm.expressions.nodes import Action, Condition, paths
from odm.immutable import Immutable, evolve
from odm.planner.compile import make_plan
from odm.planner.key_conditions import flatten
from odm.planner.plan import Plan
from odm.procedures.blobs import concerns, plain
from odm.procedures.companions.intent import IntentWithCompanions, concerned
from odm.procedures.context import Context
from odm.procedures.reading import read
from odm.procedures.session import Session
from odm.procedures.writing.cell_versions import keeps
from odm.procedures.writing.intent import WriteIntent
from odm.procedures.writing.merge import MergeWrite, merge_write
from odm.procedures.writing.save import save_update
from odm.procedures.writing.transaction import Operations
from odm.procedures.writing.update import ItemUpdate, item_update
from odm.procedures.writing.write import delete_write, insert_write, put_write
from odm.protocol import requests as req
from odm.protocol.connection import Connection
from odm.protocol.predicates import condition_of

_KEEPS = "reads the item first, to keep the former values of its fields with CellVersions"
_LARGE = "reads the item first, uploads new large values, and removes those that it replaces after the write"

_CREATES = "creates a nested model that is not stored yet from its defaults: then the update is sent once more"

SHOWN = 5
"""The number of partitions, or lines of a request, that are shown in full."""


@public_in("odm.results")
class Explanation(Immutable):
    """What a call will do. Print it, or read its attributes.

    Attributes:
        call: the query or write that was explained.
        pattern: the primary key or access pattern that serves the call, as declared.
        index: the secondary index that is read; None: the table itself.
        partitions: the partition keys that are read or written.
        range: the sort keys ``[lo, hi)``; if hi is None, to the end of the partition.
        fields: the fields that a read with ``only=`` asks for, and why whole items are read nevertheless.
        filter: the filter applied to items after they were read (and paid for), or the condition of a write.
        descending: a query reads from the end of the range.
        limit: the most results of a query, counted after the filter.
        operations: the operations of a transaction.
        costs: the requests of a transaction, in words, on a backend that makes several calls for it.
        requests: the most requests that the call sends; None: a query sends one request a page (of each shard), an
            update is retried if another writer changed the item meanwhile.
        writes: the call is a write.
        keep: a put then trims its partition to this number of items of the entity.
        note: further information.
        native: the first native request; for a write with companions, the request for the item itself.
        then: the native requests of a write that follow the first one if there is no item under the key.
        stored: the rows that a write stores, in the format of the service's command-line tool, if it has one.
        local: the secondary index is a local one: kept next to the items, and read consistently.
        shards: the number of shards of each partition that are read concurrently and merged.
        companions: the companions whose items are written with the entity.
        in_transaction: whether the companions' items are written in one transaction with the entity.
        compiled: what odm decided once for all calls of this shape: the stages of the call, in order; for a
            transaction, those of each operation as one text.
        best, worst: what a query with a filter costs if the items that are read first match, and if none does. The
            filter may be one of odm's own: for the tag of the entity, or for expired items.
    """

    call: str
    pattern: str = ""
    index: str | None = None
    partitions: tuple[str, ...] = ()
    range: tuple[str, str | None] = ("", None)
    filter: Condition | None = None
    descending: bool = False
    limit: int | None = None
    requests: int | None = None
    writes: bool = False
    keep: int | None = None
    companions: tuple[str, ...] = ()
    note: str = ""
    native: Any = None
    then: tuple[Any, ...] = ()
    stored: str = ""
    local: bool = False
    shards: int = 1
    in_transaction: bool = True
    best: str = ""
    worst: str = ""
    fields: str = ""
    costs: str = ""
    operations: tuple[str, ...] = ()
    compiled: tuple[str, ...] = ()

    def rows(self) -> list[tuple[str, str]]:
        """The lines to print, each a name and a text."""
        rows = [
            ("call", self.call),
            *(("operation", operation) for operation in self.operations),
            *([] if self.operations else self._of_keys()),
            *(("compiled", text) for text in (self.compiled if self.operations else (" → ".join(self.compiled),))),
            ("requests", self._requests()),
            ("best case", self.best),
            ("worst case", self.worst),
            ("keep", "" if self.keep is None else f"the newest {self.keep} items of the entity in the partition"),
            ("companions", self._companions()),
            ("note", self.note),
            ("native", str(self.native) if self.native is not None else ""),
            *(("then", str(native)) for native in self.then),
            ("stored", self.stored),
        ]
        return [(name, text) for name, text in rows if text]

    def _of_keys(self) -> list[tuple[str, str]]:
        """The lines about the keys of a query or of a write of one item, and about its results."""
        return [
            ("pattern", self.pattern),
            ("index", f"{self.index}, a local index" if self.local else self.index or "the table itself"),
            ("partition", _few(self.partitions)),
            ("sort key", _range(*self.range)),
            ("fields", self.fields),
            ("condition" if self.writes else "filter", "none" if self.filter is None else str(self.filter)),
            ("order", "descending" if self.descending else ""),
            ("limit", "" if self.limit is None else f"{self.limit} results"),
        ]

    def __str__(self) -> str:
        return "\n".join(f"{name:<10} {text}" for name, text in self.rows())

    def _companions(self) -> str:
        how = "in one transaction with it" if self.in_transaction else "by requests of their own, before or after it"
        return f"{', '.join(self.companions)}: {how}" if self.companions else ""

    def _requests(self) -> str:
        if self.costs:
            return self.costs
        if self.keep is not None:
            return "two: the write and a count; two more for each page of items to delete"
        if self.companions:  # the request shown is only that for the item itself
            return (
                "one, a transaction, or two with a read first, a try"
                if self.in_transaction
                else "several, one after another"
            )
        if self.requests is not None:
            return f"at most {self.requests}"
        if self.then:
            return "those shown if the item does not exist; else one more for each removed index entry"
        if self.writes:
            return "one, or two with a read first, a try"
        return "one a page of results" if self.shards == 1 else "one a page of each shard"


def explain(
    session: Session,
    subject: object,
    actions: Sequence[Action],
    write_: str | None,
    when: Condition | bool | None,
    only: object = None,
) -> Explanation:
    """What a call would do; the arguments are those of `odm.Store.explain`."""
    context, connection = session.context, session.connection
    if isinstance(subject, Operations):
        return _explain_transaction(session, subject)
    if isinstance(subject, Query) and not actions and write_ is None:
        plan, reading = make_plan(context.schema, subject), read.begin(context, subject, only=only, call="explain")
        native = None if reading is None else connection.preview(read.first_request(context, reading))
        explanation = evolve(explain_plan(plan, native, connection), compiled=_stages(context, plan, reading))
        if unfilled := read.unfilled_note(context, plan):
            explanation = evolve(explanation, note="; ".join(filter(None, (explanation.note, unfilled))))
        if reading is not None and reading.selection is not None:
            explanation = evolve(explanation, fields=reading.selection.explained)
        if context.on_invalid is not None:
            skips = "items that do not fit their model are skipped (on_invalid), so a count reads and validates them"
            explanation = evolve(explanation, note="; ".join(filter(None, (explanation.note, skips))))
        filtered = reading is not None and not plan.single and context.filter(plan.entity, plan.filter) is not None
        return evolve(explanation, best=_best_case(plan), worst=_worst_case(plan)) if filtered else explanation
    if only is not None:
        raise BadValue("explain(only=...) explains a read: pass a query, without actions and write=")
    if write_ == "merge":
        return _explain_merge(session, merge_write(context, subject, actions), when)
    if write_ == "save":
        return _explain_save(session, subject, actions, when)
    return _explain_write(session, _intent(context, subject, actions, write_, when))


def _explain_save(session: Session, entity: Any, actions: Sequence[Action], when: object) -> Explanation:
    """The update that a save would send."""
    if actions or when is not None:
        raise BadValue("a save writes what has changed in the entity: leave actions and when= out")
    change = save_update(session.context, entity, "new")
    if change is not None:
        return _explain_write(session, change)
    target = session.context.schema.target(entity)
    note = "no field differs from the stored item that was read: nothing is sent"
    return Explanation(f"save of {target}", target.entity.primary.text, requests=0, writes=True, note=note)


def _explain_transaction(session: Session, transaction: Operations) -> Explanation:
    """What a transaction would do so far, with its first request, without sending it."""
    intents = [IntentWithCompanions(intent) for intent in transaction.intents]
    if not intents:
        raise BadValue("this transaction has no operations yet: explain it in its block, after the operations")
    firsts = [intent.intent.first(session.context) for intent in intents]
    operations = [plain(request) for request in firsts if isinstance(request, req.Operation)]
    first: req.Request = req.Transact(tuple(operations), session.context.limits)
    reading = tuple(
        intent.intent.target.key for intent in intents if intent.reads(session.context, in_transaction=True)
    )
    rehearsal = session.connection.rehearse(req.BatchGet(reading) if reading else first)
    costs = session.connection.rehearse(first).costs if operations else ""
    companions = [f"{two.name} ({type(two).__name__})" for intent in intents for two in intent.companions]
    keys = [intent.intent.target.key for intent in intents]
    return Explanation(
        f"transaction of {len(intents)} operations",
        operations=tuple(f"{intent.intent.name} {intent.intent.target}" for intent in intents),
        partitions=tuple(dict.fromkeys(key.partition for key in keys)),
        requests=None if reading or companions else rehearsal.most,
        companions=tuple(dict.fromkeys(companions)),
        writes=True,
        compiled=tuple(" → ".join(_stages_of_write(session.context, intent.intent)) for intent in intents),
        note=f"reads {len(reading)} of the items first" if reading else "",
        native=rehearsal.sent[0],
        costs=costs,
    )


def _intent(
    context: Context, subject: Any, actions: Sequence[Action], write_: str | None, when: Condition | bool | None
) -> WriteIntent:
    if not isinstance(subject, Entity):  # its put may assign a part of its key
        context.schema.target(subject)  # raises an error for anything except a key
    if actions or write_ == "update":
        return item_update(context, subject, actions, when)
    if write_ == "delete":
        return delete_write(context, subject, when, absent_ok=True)
    if write_ == "insert":
        return insert_write(context, subject)
    if write_ in (None, "put"):
        return put_write(context, subject, when)
    raise BadValue(f"write={brief(write_)}: say 'put', 'insert', 'save', 'merge' or 'delete'")


def _explain_merge(session: Session, merge: MergeWrite, when: object) -> Explanation:
    """What a merge would do, with its first request, without sending it."""
    if when is not None:
        raise BadValue(f"a merge of {merge.target} has no condition: leave when= out, or update() the item")
    key, primary = merge.target.key, merge.target.entity.primary
    rehearsal = session.connection.rehearse(merge.request)
    return Explanation(
        f"{merge.name} {merge.target}",
        primary.text,
        partitions=(key.partition,),
        range=(key.sort, key.sort + "\0"),
        requests=rehearsal.most,
        writes=True,
        native=rehearsal.sent[0],
        then=rehearsal.sent[1:],
        stored=rehearsal.stored,
        compiled=tuple(f"{WORDS[type(action)]} {action.path}" for action in merge.request.actions),
    )


def explain_plan(plan: Plan, native: Any, connection: Connection[Any]) -> Explanation:
    """What a query would do; ``native`` is its first request."""
    notes = ["the range holds other entities' items too, so a filter takes this entity's"] if plan.needs_tag else []
    if plan.pattern.shards is not None:
        read, of = len(plan.shards), plan.pattern.shards.count
        how = ", first the old shards" if plan.leaving else " together"
        notes.append(f"one shard of {of}" if read == 1 else f"{read} shards read{how}, merged")
    if plan.pattern.projection is not None:
        has = ", ".join(plan.pattern.projection) or "nothing"
        notes.append(
            f"the index holds {has} next to keys, so on DynamoDB whole items are fetched by key, 100 a request"
        )
    if plan.pattern.index is not None and connection.fetches:
        notes.append("each page is two requests: the entries of the index, then their items by key")
    if plan.pattern.index is None and plan.query.descending and not connection.reads_backwards:
        notes.append(
            "in descending order, each page reads its range to the end, as the columns of a row come in ascending "
            "order; a sort key with :desc reads only what it returns"
        )
    if plan.empty:
        notes = ["no key can match: answered without a request"]
    return Explanation(
        str(plan.query),
        plan.pattern.text,
        plan.pattern.index,
        plan.partition_keys,
        (plan.lo, plan.hi),
        plan.filter,
        plan.query.descending,
        plan.query.most,
        0 if plan.empty else _most_requests(plan),
        note="; ".join(notes),
        native=native,
        local=plan.pattern.kind == "local",
        shards=len(plan.shards),
    )


def _stages(context: Context, plan: Plan, reading: read.Reading | None) -> tuple[str, ...]:
    """What is decided for all queries of a shape, in words."""
    pattern, query = plan.pattern, plan.query
    ranged = list(dict.fromkeys(field for field, op, _ in plan.keyed if op != "=" and field not in plan.known_fields))
    partition = [name for name in pattern.partition.fields if name in plan.known_fields or name in query.values]
    sort = [] if pattern.sort is None else [name for name in pattern.sort.fields if name in plan.known_fields]
    filtered = [
        path.root
        for condition in flatten(query.conditions)
        if condition not in plan.narrowed
        for path in paths(condition)
    ]
    expires = context.schema.has_ttl if plan.entity is None else plan.entity.ttl is not None
    check = None if reading is None else reading.check
    stages = {
        "partition of": partition,
        "sort key of": sort,
        "range of": ranged,
        "filter on": list(dict.fromkeys(filtered)),
        "only": [plan.entity.name] if plan.entity is not None and plan.needs_tag else [],
        "not": ["expired"] if expires else [],
        "compare again": [] if check is None else [*check.fields] or ["keys"],
    }
    shards = [f"merge {len(plan.shards)} shards"] if len(plan.shards) > 1 else []
    return (*[f"{text} {', '.join(names)}" for text, names in stages.items() if names], *shards)


def _stages_of_write(context: Context, intent: WriteIntent) -> tuple[str, ...]:
    if isinstance(intent, ItemUpdate):
        return intent.stages
    return context.writes(intent.target.entity).stages(intent.name, present=intent.present)


def _best_case(plan: Plan) -> str:
    """The cost of a query with a filter if it drops no item."""
    units = f"on DynamoDB {'1 read unit' if _consistent(plan) else '0.5 read units'} for each 4 KB"
    shards = len(plan.shards)
    if plan.query.most is None:
        return f"all items match: page(size=25) reads 26{_of_each(shards)}, and first() one{_of_each(shards)}, {units}"
    items = "1 item is" if plan.query.most == 1 else f"{plan.query.most} items{_of_each(shards)} are"
    return f"the first items match: {items} read, {units}"


def _worst_case(plan: Plan) -> str:
    """The cost of a query with a filter that no item matches."""
    units = 256 if _consistent(plan) else 128
    many = "" if len(plan.partition_keys) == 1 else f" of {len(plan.partition_keys)} partitions"
    bound = "" if plan.leaving else "; page(max_requests=n) reads at most n MB"
    return f"no item matches: the whole range{many} is read, on DynamoDB {units} read units for each MB{bound}"


def _of_each(shards: int) -> str:
    return "" if shards == 1 else f" of each of {shards} shards"


def _consistent(plan: Plan) -> bool:
    """Whether the query is read consistently, unless the call has ``consistent=False``."""
    return plan.pattern.kind != "global"


def _explain_write(session: Session, intent: WriteIntent) -> Explanation:
    """What a write would do, with its first request, without sending it."""
    target, companions = intent.target, concerned(intent)
    change = intent if isinstance(intent, ItemUpdate) else None
    write = IntentWithCompanions(intent)
    read = req.Get(target.key, pattern=target.entity.primary.full_name, former=bool(target.entity.versioned))
    reading = keeps(intent) or concerns(intent)
    whole = None if change is None else change.whole
    first = (reading or intent.reads) and write.reads(session.context, in_transaction=session.context.transactions)
    planned = None if first else intent.first(session.context)
    request = read if planned is None else plain(planned)
    assert not isinstance(request, req.Check)  # of transactions only
    guarded = tuple(dict.fromkeys([*(() if change is None else change.needed), *map(str, intent.judged)]))
    how = "takes {} from the entity passed in"
    condition = intent.user_condition
    if isinstance(request, req.Get):
        how = "reads {} of the item first"
    else:
        condition = condition_of(request)
    if whole is not None:
        read_how = (
            "reads the item first" if isinstance(request, req.Get) else "takes the item from the entity passed in"
        )
        whole = f"{read_how} and validates it as a whole ({whole}); retries if it has changed"
    nested = change is not None and bool(change.nested)
    note = f"{how.format(', '.join(guarded))}, makes them a condition of the write, and retries if they have changed"
    if not guarded:
        note = _CREATES if nested else _KEEPS if keeps(intent) else _LARGE if reading else ""
    note = whole or note
    keep = target.entity.keep if intent.name in ("put", "insert") else None
    rehearsal = session.connection.rehearse(request)
    return Explanation(
        f"{intent.name} {target}",
        target.entity.primary.text,
        partitions=(request.key.partition,),
        range=(request.key.sort, request.key.sort + "\0"),
        filter=condition,
        requests=None if guarded or whole or nested or keep is not None or companions or reading else rehearsal.most,
        companions=tuple(f"{companion.name} ({type(companion).__name__})" for companion in companions),
        in_transaction=session.context.transactions,
        writes=True,
        keep=keep,
        note=note,
        native=rehearsal.sent[0],
        then=rehearsal.sent[1:],
        stored=rehearsal.stored,
        compiled=_stages_of_write(session.context, intent),
    )


def _most_requests(plan: Plan) -> int | None:
    """The number of requests if a query reads single keys; otherwise None, as a backend may end any page early."""
    return len(plan.partition_keys) if plan.single else None


def _few(texts: Sequence[str]) -> str:
    listing = ", ".join(map(_printable, texts[:SHOWN]))
    return listing if len(texts) <= SHOWN else f"{listing}, … ({len(texts)} in all)"


def _range(lo: str, hi: str | None) -> str:
    if hi == "":
        return "none"
    if hi == lo + "\0":
        return f"= {_printable(lo)}"
    sides = [f"> {_printable(lo[:-1])}" if lo.endswith("\0") else f">= {_printable(lo)}"] if lo else []
    if hi is not None:
        sides.append(f"<= {_printable(hi[:-1])}" if hi.endswith("\0") else f"< {_printable(hi)}")
    return " and ".join(sides) or "all"


def _printable(key: str) -> str:
    """A key, with escapes for the characters of its binary parts that cannot be printed."""
    return key if key.isprintable() else "".join(char if char.isprintable() else ascii(char)[1:-1] for char in key)
