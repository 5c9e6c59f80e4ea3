"""For each rule of the linter, declarations that break it, and the nearest that do not."""

from typing import NamedTuple


class Case(NamedTuple):
    """A declaration that a rule finds, and the nearest one that it does not."""

    rule: str
    where: str
    fields: str
    has: str
    has_not: str
    name: str = "Order"
    options: str = ""
    leaves: str = ""
    """Another rule that finds something in the second one."""

    def source(self, keys: str) -> str:
        lines = [f"class {self.name}(Entity, table=shop{self.options}):", *self.fields.split("; "), *keys.split("; ")]
        return "\n    ".join(lines) + "\n"


ORDER = "customer_id: str; order_id: str; placed_at: datetime"
STATUS = f'{ORDER}; status: Literal["open", "shipped"]'
BY_ID = 'primary = PrimaryKey("ORDER#{order_id}")'
BATTERY = "at: datetime; user: str; percent: int"
TRACK = "device: str; at: datetime"

CASES = [
    Case(  # the case of the phone batteries, fixed by field promotion
        "hot-partition",
        "Reading.primary",
        BATTERY,
        'primary = PrimaryKey("BATTERY", "{at}")',
        'primary = PrimaryKey("BATTERY#{user}", "{at}")',
        "Reading",
        ", keep=1000",
    ),
    Case(  # and by salting
        "hot-partition",
        "Reading.by_time",
        f"{BATTERY}; reading_id: str",
        'primary = PrimaryKey("{reading_id}"); by_time = AccessPattern("BATTERY", "{at:ms}#{user}")',
        'primary = PrimaryKey("{reading_id}"); '
        'by_time = AccessPattern("BATTERY", "{at:ms}#{user}", shards=Shards(3, by="user"))',
        "Reading",
    ),
    Case(  # salted by hand
        "hot-partition",
        "Reading.primary",
        f"{BATTERY}; salt: Annotated[int, Field(ge=0, lt=3)]",
        'primary = PrimaryKey("BATTERY", "{salt}#{at}#{user}")',
        'primary = PrimaryKey("BATTERY#{salt}", "{at}#{user}")',
        "Reading",
        ", keep=9",
    ),
    Case(
        "hot-partition",
        "Order.by_status",
        STATUS,
        f'{BY_ID}; by_status = AccessPattern("STATUS#{{status}}", "{{placed_at}}#{{order_id}}")',
        f'{BY_ID}; by_status = AccessPattern("STATUS#{{status}}#{{customer_id}}", "{{placed_at}}#{{order_id}}")',
    ),
    Case(
        "hot-partition",
        "Order.by_flag",
        f"{ORDER}; paid: bool | None = None",
        f'{BY_ID}; by_flag = AccessPattern("PAID#{{paid}}", "{{customer_id}}")',
        f'{BY_ID}; by_flag = AccessPattern("PAID#{{paid}}", "{{customer_id}}", shards=Shards(2))',
    ),
    Case(
        "hot-partition",
        "Order.by_day",
        f"{ORDER}; day: date",
        f'{BY_ID}; by_day = AccessPattern("DAY#{{day}}", "{{order_id}}")',
        f'{BY_ID}; by_day = AccessPattern("DAY#{{day}}", "{{order_id}}", shards=Shards(200))',
    ),
    Case(
        "hot-partition",
        "Order.by_minute",
        ORDER,
        f'{BY_ID}; by_minute = AccessPattern("AT#{{placed_at:%Y%m%d%H%M}}")',
        f'{BY_ID}; by_minute = AccessPattern("AT#{{placed_at:s}}")',
        leaves="monotonic-key",
    ),
    Case(  # one item, and as many as a Literal has values, are settings
        "hot-partition",
        "Setting.primary",
        'name: str; kind: Literal["a", "b"]; value: str = ""',
        'primary = PrimaryKey("SETTINGS", "{name}")',
        'primary = PrimaryKey("SETTINGS", "{kind}")',
        "Setting",
    ),
    Case(  # 32 partitions
        "hot-partition",
        "Order.by_kind",
        f'{ORDER}; kind: Literal["a", "b", "c", "d", "e", "f", "g", "h"]; size: Literal["s", "m", "l", "xl"]',
        f'{BY_ID}; by_kind = AccessPattern("KIND#{{kind}}", "{{customer_id}}")',
        f'{BY_ID}; by_kind = AccessPattern("KIND#{{kind}}#{{size}}", "{{customer_id}}")',
    ),
    Case(
        "hot-partition",
        "Order.all_of_them",
        ORDER,
        f'{BY_ID}; all_of_them = AccessPattern("ORDERS")',
        BY_ID,
    ),
    Case(
        "monotonic-key",
        "Reading.primary",
        BATTERY,
        'primary = PrimaryKey("BATTERY#{at:%Y%m%d%H%M%S%3f}#{user}")',
        'primary = PrimaryKey("BATTERY#{user}#{at:%Y%m%d%H%M%S%3f}")',
        "Reading",
    ),
    Case(  # behind a few values it leads all the same
        "monotonic-key",
        "Reading.primary",
        f'{BATTERY}; kind: Literal["a", "b"]',
        'primary = PrimaryKey("{kind}#{at:ms}#{user}")',
        'primary = PrimaryKey("{kind}#{user}#{at:ms}")',
        "Reading",
    ),
    Case(  # shards stand behind the partition: a salt behind a timestamp does not help
        "monotonic-key",
        "Reading.by_time",
        f"{BATTERY}; reading_id: str",
        'primary = PrimaryKey("{reading_id}"); '
        'by_time = AccessPattern("BATTERY#{at:ms}", "{user}", shards=Shards(3, by="user"))',
        'primary = PrimaryKey("{reading_id}"); '
        'by_time = AccessPattern("BATTERY", "{at:ms}#{user}", shards=Shards(3, by="user"))',
        "Reading",
    ),
    Case(
        "monotonic-key",
        "Order.primary",
        "order_id: int; total: int",
        'primary = PrimaryKey("ORDER#{order_id}")',
        'primary = PrimaryKey("ORDER#{total}#{order_id}")',
    ),
    Case(
        "monotonic-key",
        "Order.primary",
        "meter_id: Annotated[int, Field(ge=0, lt=10**10)]; level_id: Annotated[int, Field(ge=0, lt=1000)]",
        'primary = PrimaryKey("{meter_id}")',
        'primary = PrimaryKey("{level_id}#{meter_id}")',
    ),
    Case(
        "monotonic-key",
        "Order.primary",
        "late: UUID7; random: UUID4",
        'primary = PrimaryKey("{late}")',
        'primary = PrimaryKey("{random}")',
    ),
    Case(
        "constant-key",
        "Order.primary",
        "customer_id: str = ''; order_id: str",
        'primary = PrimaryKey(f"CUSTOMER#{customer_id}x", "ORDER")',
        'primary = PrimaryKey("CUSTOMER#{customer_id}", "ORDER")',
    ),
    Case(
        "constant-key",
        "Order.primary",
        "order_id: str",
        'primary = PrimaryKey("ORDERS", "ALL")',
        'primary = PrimaryKey("ORDERS#{order_id}", "ALL")',
    ),
    Case(
        "non-unique-key",
        "Order.primary",
        ORDER,
        'primary = PrimaryKey("CUSTOMER#{customer_id}", "PLACED#{placed_at}")',
        'primary = PrimaryKey("CUSTOMER#{customer_id}", "PLACED#{placed_at}#{order_id}")',
        options=", keep=5",
    ),
    Case(
        "non-unique-key",
        "OpenOrder.primary",
        f"{STATUS}; total: Annotated[Decimal, Field(decimal_places=2)]",
        'primary = PrimaryKey("CUSTOMER#{customer_id}", "{status}#{total}")',
        'primary = PrimaryKey("CUSTOMER#{customer_id}", "LAST_ORDER")',  # a pointer
        "OpenOrder",
    ),
    Case(  # the stored name of an entity names its id as well
        "non-unique-key",
        "OrderV2.primary",
        ORDER,
        'primary = PrimaryKey("CUSTOMER#{customer_id}", "{placed_at:s}")',
        'primary = PrimaryKey("CUSTOMER#{customer_id}", "{placed_at:s}#{order_id}")',
        "OrderV2",
        ", tag='Order'",
    ),
    Case(
        "lossy-key",
        "Track.primary",
        TRACK,
        'primary = PrimaryKey("{device}", "{at:s}")',
        'primary = PrimaryKey("{device}", "{at:ms}")',
        "Track",
        ", keep=5",
    ),
    Case(  # a bucket in the partition is whole in the sort key
        "lossy-key",
        "Track.primary",
        TRACK,
        'primary = PrimaryKey("{device}#{at:%Y%m%d}")',
        'primary = PrimaryKey("{device}#{at:%Y%m%d}", "{at}")',
        "Track",
    ),
    Case(  # a row a day, by its name
        "lossy-key",
        "Track.primary",
        "device: str; at: datetime; first_day: datetime",
        'primary = PrimaryKey("{device}", "{at:%Y%m%d:desc}")',
        'primary = PrimaryKey("{device}", "{first_day:%Y%m%d:desc}")',
        "Track",
        ", keep=5",
    ),
    Case(  # milliseconds are enough next to what distinguishes devices
        "lossy-key",
        "Track.primary",
        TRACK,
        'primary = PrimaryKey("TRACKS#{at:ms}")',
        'primary = PrimaryKey("TRACKS#{at:ms}", "{device}")',
        "Track",
        leaves="monotonic-key",
    ),
    Case(
        "lossy-key",
        "Track.primary",
        f"{TRACK}; track_id: str",
        'primary = PrimaryKey("{device}", "{at:%Y%m%d%H}#{device}")',
        'primary = PrimaryKey("{device}", "{at:%Y%m%d%H}#{track_id}")',
        "Track",
        ", keep=5",
    ),
    Case(
        "unbounded-collection",
        "Order.by_total",
        f"{ORDER}; total: int; number: Annotated[int, Field(ge=0, lt=10**6)]",
        'primary = PrimaryKey("CUSTOMER#{customer_id}", "{order_id}"); '
        'by_total = AccessPattern("CUSTOMER#{customer_id}", "{total}#{order_id}", local=True)',
        'primary = PrimaryKey("CUSTOMER#{customer_id}", "{number}"); '
        'by_total = AccessPattern("CUSTOMER#{customer_id}", "{total}#{order_id}", local=True)',
    ),
    Case(
        "unbounded-collection",
        "Order.by_total",
        f"{ORDER}; total: int",
        'primary = PrimaryKey("CUSTOMER#{customer_id}", "{order_id}"); '
        'by_total = AccessPattern("CUSTOMER#{customer_id}", "{total}#{order_id}", local=True)',
        'primary = PrimaryKey("CUSTOMER#{customer_id}", "{order_id}"); ends: Annotated[datetime, TTL]; '
        'by_total = AccessPattern("CUSTOMER#{customer_id}", "{total}#{order_id}", local=True)',
    ),
    Case(
        "missing-ttl",
        "Track.primary",
        "device: str; at: datetime; day: date",
        'primary = PrimaryKey("{device}", "{at}#{day}")',
        'primary = PrimaryKey("{device}", "{day}#{at}")',
        "Track",
    ),
    Case(
        "missing-ttl",
        "Track.primary",
        TRACK,
        'primary = PrimaryKey("{device}", "{at:ms:desc}")',
        'primary = PrimaryKey("{device}", "{at:ms:desc}"); expires_at: Annotated[datetime, TTL]',
        "Track",
    ),
    Case(  # an order has an identity: it is not a point of a series
        "missing-ttl",
        "Order.primary",
        "device: str; at: datetime",
        'primary = PrimaryKey("{device}", "{at}"); track_id: str',
        'primary = PrimaryKey("{device}", "{at}#{order_id}"); order_id: str',
    ),
    Case(
        "equal-indexes",
        "Order.by_status",
        STATUS,
        f'{BY_ID}; listed = AccessPattern("C#{{customer_id}}", "{{order_id}}"); '
        'by_status = AccessPattern("C#{customer_id}", "{order_id}")',
        f'{BY_ID}; listed = AccessPattern("C#{{customer_id}}", "{{order_id}}"); '
        'by_status = AccessPattern("C#{customer_id}", "{status}")',
    ),
    Case(
        "long-names",
        "Order",
        "; ".join(f"estimated_window_of_delivery_{n}: str" for n in range(8)),
        'n2345678901234567: str; primary = PrimaryKey("{n2345678901234567}")',
        'n234567890123456: str; primary = PrimaryKey("{n234567890123456}")',
    ),
    Case(
        "deleted-by-age",
        "Track",
        TRACK,
        'primary = PrimaryKey("{device}"); expires_at: Annotated[datetime, TTL]',
        'primary = PrimaryKey("{device}")',
        "Track",
        ', family="tracks", gc=MaxAge(days=1)',
    ),
    Case(
        "deleted-by-age",
        "Track",
        f"{TRACK}; text: str",
        'primary = PrimaryKey("{device}", "{at}"); x: Annotated[str, Stored(family="tracks", gc=MaxAge(days=1))] = ""',
        'primary = PrimaryKey("{device}", "{at}"); x: Annotated[str, Stored(family="others", gc=MaxAge(days=1))] = ""',
        "Track",
        ', family="tracks", keep=3',
    ),
]
