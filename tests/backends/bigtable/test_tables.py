"""Creating and changing tables on the emulator: what `create()` adds, and what it leaves alone."""

import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from types import SimpleNamespace
from typing import Annotated, Any, ClassVar

import attrs
import grpc
import pytest
from google.cloud.bigtable_admin_v2 import BigtableTableAdminClient, types
from google.cloud.bigtable_admin_v2.services.bigtable_table_admin.transports import BigtableTableAdminGrpcTransport
from grpc import StatusCode

from odm import (
    AccessPattern,
    AsyncStore,
    Counter,
    Entity,
    MaxAge,
    MaxVersions,
    PrimaryKey,
    Store,
    Stored,
    Table,
    increment,
    set_,
)
from odm.backends.bigtable import Bigtable, GCRule, driver
from odm.backends.bigtable.admin.commands import Admin
from odm.backends.bigtable.admin.schema import tables
from odm.backends.bigtable.admin.tables import deletes_more, differences, plan
from odm.backends.bigtable.client import admin_wire
from odm.backends.bigtable.client.errors import explain
from odm.backends.bigtable.client.native import Concurrent, Read, ReadRows
from odm.backends.bigtable.client.native_admin import (
    ColumnFamily,
    CreateTable,
    DeleteTable,
    Families,
    GetTable,
    ListTables,
    ModifyFamilies,
    Options,
    Settings,
    TableInfo,
    Tables,
    UpdateTable,
)
from odm.backends.bigtable.client.wire import Wire
from odm.backends.bigtable.requests import Procedures
from odm.errors import BackendError, BadValue
from odm.protocol.admin import silent
from odm.protocol.connection import run
from odm.protocol.requests import CreateTables, DropTables
from odm.schema.model import Schema
from tests.backends.bigtable.families import kept
from tests.backends.bigtable.playing import BUSY, google, play

ITEMS = kept({"c": 1, "d": 1})
ENTRIES = kept({"i": 1})


def users(name: str, *indexes: str) -> Table:
    """A table of users with these indexes, all by name."""
    table = Table(name)

    class User(Entity, table=table):
        user: str
        city: str = ""
        visits: Annotated[int, Counter] = 0

        primary = PrimaryKey("USER#{user}", "PROFILE")
        locals().update({index: AccessPattern(f"{index}#{{user}}") for index in indexes})

    return table


@pytest.fixture
def name() -> str:
    """Each test has tables of its own."""
    return f"t{uuid.uuid4().hex[:16]}"


@pytest.fixture
def backend(bigtable_emulator: str) -> Bigtable:
    return Bigtable("project", "instance", endpoint=bigtable_emulator)


@pytest.fixture
def send(backend: Bigtable) -> Callable[[Any], Any]:
    """Sends a native request."""
    return backend.connect(Schema(name="any", entities={}, indexes={})).call


@pytest.fixture
def there(send: Callable[[Any], Any]) -> Callable[[str], dict[str, Families]]:
    """The tables whose names have this prefix, with their families."""

    def look(name: str) -> dict[str, Families]:
        found = [one for one in send(ListTables("any")).names if one.startswith(name)]
        return {one.removeprefix(name): send(GetTable(one)).families for one in sorted(found)}

    return look


Look = Callable[[str], dict[str, Families]]
Send = Callable[[Any], Any]


def test_a_table_is_made_with_one_for_each_index_and_made_again(name: str, backend: Bigtable, there: Look) -> None:
    with Store(users(name, "by_name", "by_day"), backend) as db:
        db.create()
        made = there(name)
        db.create()
    assert made == there(name) == {"": ITEMS, ".by_day": ENTRIES, ".by_name": ENTRIES}


async def test_they_are_made_in_an_event_loop(name: str, backend: Bigtable, there: Look) -> None:
    async with AsyncStore(users(name, "by_name"), backend) as db:
        await db.create()
        assert there(name) == {"": ITEMS, ".by_name": ENTRIES}
        await db.drop()
    assert there(name) == {}


def test_several_programs_create_them_at_once(name: str, backend: Bigtable, there: Look) -> None:
    def make(number: int) -> None:
        with Store(users(name, "by_name", f"by_{number % 3}"), backend) as db:
            db.create()

    with ThreadPoolExecutor(12) as pool:
        list(pool.map(make, range(12)))
    assert there(name) == {"": ITEMS, **{f".{index}": ENTRIES for index in ("by_0", "by_1", "by_2", "by_name")}}


def test_an_index_that_a_model_got_later_is_added(name: str, backend: Bigtable, there: Look) -> None:
    for indexes in ((), ("by_name",), ("by_name", "by_day")):
        with Store(users(name, *indexes), backend) as db:
            db.create()
        assert set(there(name)) == {"", *(f".{index}" for index in indexes)}


@pytest.mark.parametrize("families", [{}, {"d": 1}, {"c": 1, "mine": 2}])
def test_a_missing_family_is_added(
    families: dict[str, int], name: str, backend: Bigtable, send: Send, there: Look
) -> None:
    send(CreateTable(name, kept(families)))
    send(CreateTable(f"{name}.by_name", {}))
    with Store(users(name, "by_name"), backend) as db:
        db.create()
    assert there(name) == {"": {**ITEMS, **kept(families)}, ".by_name": ENTRIES}


def test_a_family_with_another_rule_is_left_alone(name: str, backend: Bigtable, send: Send, there: Look) -> None:
    send(CreateTable(name, kept({"d": 3, "c": 1})))
    with Store(users(name), backend) as db:
        db.create()
    assert there(name)[""] == kept({"c": 1, "d": 3})


@pytest.mark.parametrize("of", ["", ".by_name"])
def test_a_table_of_another_program_is_refused(of: str, name: str, backend: Bigtable, send: Send, there: Look) -> None:
    send(CreateTable(f"{name}{of}", kept({"stats": 1})))
    with Store(users(name, "by_name"), backend) as db, pytest.raises(BackendError) as raised:
        db.create()
    assert f"table '{name}{of}' exists with the column families 'stats' and without" in str(raised.value)
    assert "choose another name, or give the store a prefix" in str(raised.value)
    assert there(name) == {of: kept({"stats": 1})}


def test_they_are_dropped_and_dropped_again(name: str, backend: Bigtable, there: Look) -> None:
    with Store(users(name, "by_name"), backend) as db:
        db.create()
        with Store(users(f"{name}s"), backend) as other:
            other.create()
        db.drop()
        db.drop()
    assert there(name) == {"s": ITEMS}


def apply(backend: Bigtable, table: Table, *, drop: bool) -> None:
    Admin(backend, table.compile()).apply(drop=drop, tell=silent)


def user_of(table: Table) -> Any:
    return table.compile().entities["User"].cls


def test_an_index_that_was_dropped_and_came_back_fills_with_what_is_put(name: str, backend: Bigtable) -> None:
    table = users(name, "by_name")
    user = user_of(table)
    with Store(table, backend) as db:
        db.create()
        db.put(user(user="u"))
        apply(backend, users(name), drop=True)
        db.create()
        assert db.count(user.by_name(user="u")) == 0
        db.put(user(user="u"))
        assert db.count(user.by_name(user="u")) == 1


def test_items_are_written_when_an_index_that_they_list_is_gone(name: str, backend: Bigtable, send: Send) -> None:
    before, after = users(name, "by_name"), users(name)
    with Store(before, backend) as db:
        db.create()
        db.put(user_of(before)(user="u"))
    send(DeleteTable(f"{name}.by_name"))
    user = user_of(after)
    with Store(after, backend) as db:
        db.put(user(user="u", city="Rome"))
        assert db.one(user, user="u").city == "Rome"
        assert db.delete(user, user="u")


SHOP = users("shop", "by_name").compile()
MAKE = (CreateTable("shop", kept({"d": 1, "c": 1})), CreateTable("shop.by_name", ENTRIES))
LOOK = Concurrent((GetTable("shop"), GetTable("shop.by_name")))
GONE, THERE = google.NotFound("gone"), google.AlreadyExists("there")


def sent(request: CreateTables | DropTables, *answers: Any) -> list[Any]:
    return play(request, *answers, on=Procedures(SHOP))[0]


BESIDE = GetTable("shop.tx")
"""The question for a table of the same models with transactions."""


def test_tables_are_compared_and_created_together() -> None:
    assert sent(CreateTables(), (GONE, GONE), GONE, (None, None)) == [LOOK, BESIDE, Concurrent(MAKE)]


def test_a_table_beside_one_with_transactions_is_not_created() -> None:
    with pytest.raises(
        BackendError,
        match=r"'shop' does not exist, but 'shop\.tx' does.*say Table\(.*=True\) as before",
    ):
        sent(CreateTables(), (GONE, TableInfo(ENTRIES)), TableInfo(ITEMS))


def test_existing_tables_are_only_compared() -> None:
    asked = sent(CreateTables(), (TableInfo(ITEMS), TableInfo(ENTRIES)), Read())
    assert asked == [LOOK, asked[1]]
    assert isinstance(asked[1], ReadRows)  # a row, which would show other options of keys
    assert asked[1].limit == 1


def test_concurrently_created_tables_are_compared_again() -> None:
    there = TableInfo(kept({"d": 1})), TableInfo(ENTRIES)
    asked = sent(CreateTables(), (GONE, GONE), GONE, (THERE, None), there, Read(), None)
    add = ModifyFamilies("shop", create=kept({"c": 1}))
    assert [asked[0], asked[2], asked[4], asked[6]] == [LOOK, Concurrent(MAKE), LOOK, add]


def test_only_unanswered_calls_are_sent_again() -> None:
    asked = sent(CreateTables(), (GONE, GONE), GONE, (None, BUSY), None)
    assert [asked[2], asked[4]] == [Concurrent(MAKE), MAKE[1]]


@pytest.mark.parametrize("answers", [(BUSY, google.PermissionDenied("no")), (google.PermissionDenied("no"), BUSY)])
def test_permanent_errors_are_not_retried(answers: Any) -> None:
    with pytest.raises(BackendError, match="PERMISSION_DENIED, no"):
        sent(CreateTables(), answers)


def test_a_missing_instance_is_not_a_missing_table() -> None:
    with pytest.raises(BackendError, match="NOT_FOUND, gone: the instance or its project does not exist"):
        sent(CreateTables(), (GONE, GONE), GONE, (GONE, GONE))


def test_items_are_dropped_before_the_entries_that_they_list() -> None:
    asked = sent(DropTables(), None, GONE)
    assert asked == [DeleteTable("shop"), DeleteTable("shop.by_name")]


def test_every_page_of_names_is_read_and_other_tables_are_left_alone() -> None:
    pages = {"": Tables(("other", "shopping", "shop.eu.by_day"), "2"), "2": Tables(("shop.by_day", "shop.cache"))}

    def answer(native: Any) -> Any:
        match native:
            case ListTables():
                return pages[native.page]
            case Concurrent():
                found: dict[str, Families] = {
                    "shop": ITEMS,
                    "shop.by_day": ENTRIES,
                    "shop.cache": {"x": ColumnFamily(None)},
                }
                there = {name: TableInfo(families) for name, families in found.items()}
                return tuple(there.get(call.table, GONE) for call in native.calls)
            case _:
                return Read()

    found = run(plan(SHOP, Procedures(SHOP).retry), answer)
    assert [(change.kind, change.what) for change in found] == [("add", "index 'by_name'"), ("extra", "index 'by_day'")]


class TestWhatIsNotThere:
    """A missing table or family: the error says what to do, for every request."""

    CALLS: ClassVar[dict[str, Callable[[Store, Any], object]]] = {
        "get": lambda db, user: db.get(user, user="u"),
        "get_many": lambda db, user: db.get_many([user.primary(user="u")]),
        "put": lambda db, user: db.put(user(user="u")),
        "insert": lambda db, user: db.insert(user(user="u")),
        "delete": lambda db, user: db.delete(user, user="u"),
        "batch": lambda db, user: db.delete_all(user.primary(user="u")),
        "query": lambda db, user: db.page(user.primary(user="u")),
        "update": lambda db, user: db.update(user.primary(user="u"), set_(user.city, "Rome")),
        "increment": lambda db, user: db.update(user.primary(user="u"), increment(user.visits)),
        "index": lambda db, user: db.page(user.by_name(user="u")),
        "scan": lambda db, user: list(db.scan(user)),
    }

    @pytest.mark.parametrize("call", CALLS)
    def test_a_table(self, call: str, name: str, backend: Bigtable) -> None:
        table = users(name, "by_name")
        with (
            Store(table, backend) as db,
            pytest.raises(BackendError, match=rf"'{name}(\.by_name)?': NOT_FOUND.*create\(\)"),
        ):
            self.CALLS[call](db, user_of(table))

    @pytest.mark.parametrize("call", ["put", "insert", "batched puts"])
    def test_a_family(self, call: str, name: str, backend: Bigtable, send: Send) -> None:
        send(CreateTable(name, {}))
        send(CreateTable(f"{name}.by_name", {}))
        table = users(name, "by_name")
        user = user_of(table)

        def put_many(db: Store, _user: Any) -> None:
            with db.batch() as batch:
                batch.put(user(user="u"))

        calls = {**self.CALLS, "batched puts": put_many}
        with (
            Store(table, backend) as db,
            pytest.raises(BackendError, match=r"lacks a column family: call store\.create"),
        ):
            calls[call](db, user)

    @pytest.mark.parametrize(
        ("code", "message", "call", "said"),
        [
            (StatusCode.NOT_FOUND, "Requested column family not found", ReadRows("shop"), "lacks a column family"),
            (StatusCode.FAILED_PRECONDITION, "protected", DeleteTable("shop"), "first run .* --no-deletion-protection"),
            (StatusCode.NOT_FOUND, "no", ListTables("shop"), "the instance or its project does not exist"),
            (StatusCode.PERMISSION_DENIED, "no", CreateTable("shop", {}), "roles/bigtable.user .to create tables"),
        ],
    )
    def test_messages_by_status_and_call(self, code: StatusCode, message: str, call: Any, said: str) -> None:
        with pytest.raises(BackendError, match=said):
            raise explain(code, message, call)


DAY, FEW = MaxAge(days=1), MaxVersions(2)


@pytest.mark.parametrize(
    ("rule", "kind"),
    [
        (None, "extra"),
        (FEW, "extra"),
        (DAY & MaxVersions(1), "extra"),
        (DAY, "problem"),
        (DAY & MaxAge(hours=1), "problem"),
        (DAY & FEW | MaxVersions(1), "extra"),
        ((DAY | FEW) & MaxVersions(1), "extra"),
        (DAY & FEW | MaxAge(seconds=9), "problem"),
    ],
)
@pytest.mark.parametrize("table", ["shop", "shop.by_name"])
def test_a_rule_is_a_problem_if_it_deletes_the_newest_value(rule: GCRule | None, kind: str, table: str) -> None:
    found = {"shop": ITEMS, "shop.by_name": ENTRIES}
    family = min(found[table].keys() - {"c"})
    found[table] = {**found[table], family: ColumnFamily(rule)}
    changes = differences(SHOP, {name: TableInfo(families) for name, families in found.items()})
    assert [(one.kind, one.call) for one in changes] == [(kind, ModifyFamilies(table, update=kept({family: 1})))]


@pytest.fixture
def vendor(bigtable_emulator: str) -> Iterator[Any]:
    """Google's client, for operations that odm does not have."""
    with grpc.insecure_channel(bigtable_emulator) as channel:
        yield BigtableTableAdminClient(transport=BigtableTableAdminGrpcTransport(channel=channel))


RULE: Any = types.GcRule
INSTANCE = "projects/project/instances/instance"


def test_a_protected_table_stays(name: str, backend: Bigtable, vendor: Any, there: Look) -> None:
    def protect(*, on: bool) -> None:
        table = types.Table(name=f"{INSTANCE}/tables/{name}", deletion_protection=on)
        vendor.update_table(table=table, update_mask={"paths": ["deletion_protection"]}).result()

    with Store(users(name), backend) as db:
        db.create()
        protect(on=True)
        with pytest.raises(BackendError, match=r"FAILED_PRECONDITION.*gcloud bigtable instances tables update"):
            db.drop()
        assert set(there(name)) == {""}
        protect(on=False)
        db.drop()
    assert there(name) == {}


def test_rules_of_every_kind_are_named(name: str, vendor: Any, there: Look) -> None:
    day, few = RULE(max_age=timedelta(days=1)), RULE(max_num_versions=2)
    both = RULE(intersection=RULE.Intersection(rules=[day, few]))
    rules = {
        "a": RULE(),
        "b": day,
        "c": both,
        "d": RULE(union=RULE.Union(rules=[both, few])),
    }
    families = {family: types.ColumnFamily(gc_rule=rule) for family, rule in rules.items()}
    vendor.create_table(parent=INSTANCE, table_id=name, table=types.Table(column_families=families))
    assert there(name)[""] == {
        "a": ColumnFamily(None),
        "b": ColumnFamily(DAY),
        "c": ColumnFamily(FEW & DAY),
        "d": ColumnFamily(FEW & DAY | FEW),
    }


def test_families_that_models_declare_are_created_with_their_rules(
    name: str, backend: Bigtable, send: Send, there: Look
) -> None:
    table = Table(name)

    class Comment(Entity, table=table, family="comments", gc=DAY | FEW):
        id: str
        likes: Annotated[int, Stored(family="stats")] = 0

        primary = PrimaryKey("COMMENT#{id}")

    declared = {"comments": ColumnFamily(FEW | DAY), "stats": ColumnFamily()}
    with Store(table, backend) as db:
        db.create()
        assert there(name) == {"": {**ITEMS, **declared}}
        db.drop()
        send(CreateTable(name, ITEMS))
        db.create()
    assert there(name) == {"": {**ITEMS, **declared}}


@pytest.mark.parametrize("kind", ["sum", "min", "max", "hll", None])
def test_a_family_is_read_with_its_type(kind: Any, name: str, send: Send, there: Look) -> None:
    families = {"n": ColumnFamily(DAY, kind)}
    send(CreateTable(name, {}))
    send(ModifyFamilies(name, create=families))
    assert there(name) == {"": families}
    send(ModifyFamilies(name, update={"n": ColumnFamily(None, kind)}))
    assert there(name) == {"": {"n": ColumnFamily(None, kind)}}


def test_a_family_of_another_type_is_refused() -> None:
    found = {**ITEMS, "c": ColumnFamily(aggregate="sum")}
    changes = differences(SHOP, {"shop": TableInfo(found), "shop.by_name": TableInfo(ENTRIES)})
    assert [(one.kind, one.call) for one in changes] == [("refused", None)]
    assert "has cells of type sum, and the models need plain cells" in changes[0].text


HOUR, MANY = MaxAge(hours=1), MaxVersions(5)


@pytest.mark.parametrize(
    ("old", "new", "more"),
    [
        (DAY, HOUR, True),
        (HOUR, DAY, False),
        (None, MANY, True),
        (MANY, None, False),
        (MANY, DAY, True),
        (DAY, MANY, True),
        (DAY, DAY & FEW, False),
        (DAY, DAY | FEW, True),
        (DAY & FEW, DAY & FEW | HOUR & MANY, True),
        (DAY | FEW, FEW, False),
        ((DAY | FEW) & MANY, MANY, False),
        (DAY & MANY | FEW & DAY, FEW & DAY, False),
    ],
)
def test_a_rule_that_deletes_more_is_a_problem_and_one_that_keeps_more_a_change(
    old: GCRule | None, new: GCRule | None, more: bool
) -> None:
    assert deletes_more(new, old) is more
    if new is None:
        return
    table = Table("shop")

    class Comment(Entity, table=table, family="comments", gc=new):
        id: str

        primary = PrimaryKey("COMMENT#{id}")

    changes = differences(table.compile(), {"shop": TableInfo({**ITEMS, "comments": ColumnFamily(old)})})
    change = ModifyFamilies("shop", update={"comments": ColumnFamily(new)})
    assert [(one.kind, one.call) for one in changes] == [("problem" if more else "change", change)]
    assert f"; the models state {new}" in changes[0].text


THREE, SEVEN = timedelta(days=3), timedelta(days=7)
OPTIONS = Options(True, THREE, SEVEN, ("USER#5",))


def test_a_new_table_has_the_options(name: str, backend: Bigtable, send: Send) -> None:
    given = attrs.evolve(
        backend,
        deletion_protection=True,
        stream=timedelta(days=3),
        automated_backups=timedelta(days=7),
        initial_splits=["USER#5"],
    )
    items, entries = tables(users(name, "by_name").compile(), given.options)
    message = admin_wire.write(items, INSTANCE).request
    assert message.table.deletion_protection
    assert message.table.change_stream_config.retention_period == timedelta(days=3)
    assert message.table.automated_backup_policy.retention_period == timedelta(days=7)
    assert [split.key for split in message.initial_splits] == [b"USER#5"]
    assert (entries.settings, entries.splits) == (Settings(True), ())
    assert str(items).endswith(" splits='USER#5'")
    with Store(users(name, "by_name"), given) as db:
        db.create()
        assert [send(GetTable(table)).settings.deletion_protection for table in (name, f"{name}.by_name")] == [True] * 2
        with pytest.raises(BackendError, match="deletion protection"):
            db.drop()
    admin = Admin(attrs.evolve(backend, deletion_protection=False), users(name, "by_name").compile())
    assert [change.kind for change in admin.survey(0).changes] == ["change", "change"]
    admin.apply(drop=False, tell=silent)
    assert not send(GetTable(name)).settings.deletion_protection
    with Store(users(name, "by_name"), backend) as db:
        db.drop()


def test_an_update_that_takes_too_long_is_reported() -> None:
    class Vendor:
        """An operation that does not end."""

        def update_table(self, **_: Any) -> "Vendor":
            return self

        def result(self, _timeout: float) -> None:
            raise TimeoutError

    native = UpdateTable("shop", deletion_protection=True)
    with pytest.raises(google.DeadlineExceeded, match="not complete after 300 seconds"):
        driver._administer(SimpleNamespace(vendor=Vendor()), native, Wire(INSTANCE, "").message(native))


async def test_protection_is_added_in_an_event_loop(name: str, backend: Bigtable, send: Send) -> None:
    async with AsyncStore(users(name), backend) as db:
        await db.create()
    async with AsyncStore(users(name), attrs.evolve(backend, deletion_protection=True)) as db:
        await db.create()
    assert send(GetTable(name)).settings.deletion_protection


@pytest.mark.parametrize(
    ("found", "changes"),
    [
        (
            Settings(),
            [
                ("add", "deletion protection of table 'shop': off → on", UpdateTable("shop", deletion_protection=True)),
                ("add", "change stream of table 'shop': off → 3 days", UpdateTable("shop", stream=THREE)),
                ("add", "daily backups of table 'shop': off → 7 days", UpdateTable("shop", backups=SEVEN)),
            ],
        ),
        (
            Settings(True, timedelta(days=1), timedelta(days=9)),
            [
                (
                    "change",
                    "change stream of table 'shop': 1 day → 3 days",
                    UpdateTable("shop", stream=THREE),
                ),
                (
                    "change",
                    "daily backups of table 'shop': 9 days → 7 days",
                    UpdateTable("shop", backups=SEVEN),
                ),
            ],
        ),
        (OPTIONS.new, []),
    ],
    ids=["none", "others", "the same"],
)
def test_options_that_differ_are_changes(found: Settings, changes: list[Any]) -> None:
    there = {"shop": TableInfo(ITEMS, found), "shop.by_name": TableInfo(ENTRIES, Settings(True))}
    made = differences(SHOP, there, OPTIONS)
    assert [(one.kind, f"{one.what}: {one.text}", one.call) for one in made] == changes
    assert differences(SHOP, there) == ()  # what is not given is left alone


def test_an_update_names_only_the_settings_that_it_changes() -> None:
    for native, paths in (
        (UpdateTable("shop", deletion_protection=False), ["deletion_protection"]),
        (UpdateTable("shop", stream=timedelta(days=1)), ["change_stream_config"]),
        (UpdateTable("shop", backups=timedelta(days=3)), ["automated_backup_policy"]),
    ):
        message = admin_wire.write(native, INSTANCE)
        assert (message.method, list(message.request.update_mask.paths)) == ("update_table", paths)
    assert str(UpdateTable("shop", deletion_protection=False)) == "updatetable shop deletion_protection=False"


def test_settings_are_read_from_googles_message() -> None:
    table: Any = types.Table
    policy = table.AutomatedBackupPolicy(retention_period=timedelta(days=3))
    stream = types.ChangeStreamConfig(retention_period=timedelta(days=2))
    message = table(deletion_protection=True, change_stream_config=stream, automated_backup_policy=policy)
    found: Any = admin_wire.read(GetTable("shop"), message)
    assert found.settings == Settings(True, timedelta(days=2), timedelta(days=3))
    disabled = table(automated_backup_policy=table.AutomatedBackupPolicy(disabled=True))
    assert admin_wire.read(GetTable("shop"), disabled) == TableInfo({})


@pytest.mark.parametrize(
    ("option", "says"),
    [
        ({"deletion_protection": 2}, "write True or False"),
        ({"stream": timedelta(days=8)}, "a timedelta of 1 to 7 days"),
        ({"stream": "new_image"}, "a timedelta of 1 to 7 days"),
        ({"automated_backups": timedelta(days=2)}, "a timedelta of 3 to 90 days"),
        ({"initial_splits": "USER#"}, "give row keys"),
        ({"initial_splits": [""]}, "give row keys"),
    ],
    ids=str,
)
def test_an_option_that_is_not_valid(option: Any, says: str) -> None:
    with pytest.raises(BadValue, match=says):
        Bigtable("project", "instance", **option)


def test_a_page_of_names_is_asked_for_by_its_token() -> None:
    message = admin_wire.write(ListTables("shop", "2"), INSTANCE)
    assert (message.request.parent, message.request.page_token) == (INSTANCE, "2")
    listed: Any = types.ListTablesResponse
    listing = [types.Table(name=f"{INSTANCE}/tables/shop")]
    answer = admin_wire.read(ListTables("shop"), listed(tables=listing, next_page_token="3"))
    assert answer == Tables(("shop",), "3")
