"""Next to SQL: items are loaded from rows, changed items are written to rows, and changed rows are sent to items.

::

    metadata = MetaData()
    customers = sqlalchemy.Table(
        "customers",
        metadata,
        Column("id", String, primary_key=True),
        Column("name", String, nullable=False),
    )


    class Customer(Entity, table=shop):
        customer_id: str
        name: str
        sql: str | None = None  # the mark: which row it was copied from
        expires_at: Annotated[datetime | None, TTL] = None

        primary = PrimaryKey("CUSTOMER#{customer_id}")


    rows = Rows(
        Customer,
        customers,
        {"customer_id": "id", "name": "name"},
        ttl=timedelta(hours=1),
        outbox=outbox_table(metadata, customers),
        applied=applied_table(metadata, customers),
    )
    metadata.create_all(engine)
    ReadThrough(rows, missing_ttl=60).get(db, engine, customer_id="c1")  # the item, loaded from its row
    feed.on_many(Customer)(WriteBehind(rows).handler(engine))  # changed items go to SQL
    Push(rows).drain(db, engine)  # rows that SQL programs changed go to the table

| partition | sort | attributes |
|---|---|---|
| the item's own | | the mapped fields, the mark, and the time at which it expires |
| ``SQL#Customer#LOAD#c1`` | its tag | a lease, or that there is no row; it expires |
| ``SQL#Customer#CURSOR#customers.updated_at`` | its tag | with ``changed=``: how far rows were read |

| SQL table | a row for each | columns |
|---|---|---|
| of `outbox_table` | change of a row that is not pushed yet | the key of the row; the drain that has taken it |
| of `applied_table` | item that the handler has seen | the key, the last change's ``order``, digests of item and row |

**When.** A relational database has the data, and DynamoDB or Bigtable serves the reads, or takes the writes. Each of
the three parts can be used alone: `ReadThrough` for a cache, `WriteBehind` for reports in SQL, `Push` for a copy.

**The outbox** gets the key of each row that a SQL program inserts, updates or deletes, in the same transaction, from
the program or from a trigger. With ``Push(rows, changed="updated_at")`` rows are found by the time of their last change
instead: deleted rows are then found only with ``Rows(deleted=...)``, and each drain reads the last ``overlap`` again.

**Guarantees.** Once the feed is read and the outbox drained, items and rows are equal, whatever is delivered twice or
late, and wherever any part stops. An item that is a copy of a row is not written back. An item that an application
changed is written back if the row is still one that it is based on. If a SQL program has changed the row in the
meantime, the row wins: it is pushed over the item, and the logger ``odm.sql`` has a warning. So load an item before you
change it. Without an outbox the item wins, and nothing is compared afterwards, so that a copy can differ from its row
until it is loaded again. Two drains, two loaders and a handler may run at once: every write has the
condition that the item has not changed, and is compared with the row afterwards. An outbox entry is deleted after that.

**Cost** in requests:

| call | of the table | of SQL, transactions |
|---|---|---|
| ``get`` of an item that exists | 1, of 2 items | 0 |
| that loads a row | 5 | 2 |
| of an absent row that is remembered | 1, of 2 items | 0 |
| handler, of n changes | 0 | 1, with 5 statements for each |
| ``drain`` of an entry | 2, of a deleted row 3 | 3, and 1 for each 50 entries |

**Backends.** All, sync and async; SQLite and PostgreSQL. A handler needs a feed with old and new images. Bigtable has
no old images: there a delete is written back only if the handler has seen the item before it was deleted; otherwise the
row wins.

**Limits.** A value that the database changes, such as a rounded number, is pushed to the item. A put of an item that
was not loaded does not say which row it is based on: if the table has no such item and SQL has another row, the row
wins. A row that SQL refuses stops the follower until it is corrected. Keys that SQL finds equal (without case, padded)
must be so in the table. Records of deleted items stay in the applied table. Each program that follows the feed of the
table declares the `Rows`, so that it knows the leases and positions. Times in columns without a time zone are UTC.

**Known as** cache-aside, write-behind, and transactional outbox; AWS's "hybrid database system":
https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/bp-hybrid-system.html
https://docs.aws.amazon.com/prescriptive-guidance/latest/cloud-design-patterns/transactional-outbox.html
"""

from odm.patterns.sql_push import Push
from odm.patterns.sql_read import ReadThrough
from odm.patterns.sql_rows import Rows
from odm.patterns.sql_tables import applied_table, outbox_table
from odm.patterns.sql_write import WriteBehind

__all__ = ["Push", "ReadThrough", "Rows", "WriteBehind", "applied_table", "outbox_table"]
