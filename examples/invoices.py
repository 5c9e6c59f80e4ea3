"""Invoices and their payments, in the published forms of the case.

The adjacency list has one item per invoice and one per payment, in the same partition: one request reads an invoice
with its payments, and a payment leads to its invoice. The wide form has one item per invoice, which contains its
payments: on Bigtable one row per invoice and one column per payment. A payment is added by writing its column, without
a read. The last form is the adjacency list with ``layout="row_per_partition"``: the same items, and on Bigtable the row
of the wide form.
"""

import tempfile
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, Field

from odm import AccessPattern, Backend, Columns, Entity, PrimaryKey, Store, Table, Unsupported, collection, set_
from odm.backends.bigtable import Bigtable
from odm.backends.local import LocalFile

billing = Table("billing")
wide = Table("wide-invoices")
rows = Table("invoice-rows", layout="row_per_partition")


class Amount(BaseModel):
    """What was paid, by whom."""

    created_at: datetime
    amount_usd: int
    bill_to: str
    address: str


class InvoiceHead(Entity):
    """What both forms of an invoice have."""

    invoice_id: str
    created_at: datetime
    discount: Decimal
    sales_tax_usd: Decimal
    due_date: date


class Invoice(InvoiceHead, table=billing):
    """An invoice, in front of its payments."""

    primary = PrimaryKey("INVOICE#{invoice_id}", "INVOICE")


class Payment(Entity, table=billing):
    """A payment, next to its invoice, and found by its own id too."""

    invoice_id: str
    payment_id: str
    paid: Amount

    primary = PrimaryKey("INVOICE#{invoice_id}", "PAYMENT#{payment_id}")
    by_id = AccessPattern("PAYMENT#{payment_id}")


class WideInvoice(InvoiceHead, table=wide):
    """An invoice with its payments inside; on Bigtable each of them is a column."""

    payments: Annotated[dict[str, Amount], Columns] = Field(default_factory=dict)

    primary = PrimaryKey("{invoice_id}")


class RowInvoice(InvoiceHead, table=rows):
    """An invoice; on Bigtable a cell of its row."""

    primary = PrimaryKey("{invoice_id}", "INVOICE")


class RowPayment(Entity, table=rows, family="payments"):
    """A payment; on Bigtable a cell of the invoice's row, in a family of its own."""

    invoice_id: str
    payment_id: str
    paid: Amount

    primary = PrimaryKey("{invoice_id}", "PAYMENT#{payment_id}")  # odm: ignore[unbounded-row]  an invoice has few


def moment(text: str) -> datetime:
    """A time of September 2023."""
    return datetime.fromisoformat(f"2023-09-{text}").replace(tzinfo=UTC)


SIZE = r"c:\xff"
DUE = date(2023, 10, 3)
INVOICES = (
    ("0123", moment("10T15:21:48"), Decimal("0.10"), Decimal(8)),
    ("0124", moment("09T10:11:28"), Decimal("0.20"), Decimal(11)),
)
PAYMENTS = (
    ("0123", "0680", moment("10T15:21:40"), 120, "John", "123 Abc St"),
    ("0123", "0789", moment("10T15:21:31"), 120, "Jane", "13 Xyz St"),
    ("0124", "0327", moment("09T10:11:10"), 180, "Bob", "321 Cba St"),
    ("0124", "0275", moment("09T10:11:03"), 70, "Kate", "21 Zyx St"),
)


def invoices() -> Iterator[dict[str, str | datetime | Decimal | date]]:
    """The fields of the invoices."""
    for invoice_id, created_at, discount, tax in INVOICES:
        yield {
            "invoice_id": invoice_id,
            "created_at": created_at,
            "discount": discount,
            "sales_tax_usd": tax,
            "due_date": DUE,
        }


def payments() -> Iterator[Payment]:
    """The payments, in the order in which the invoices list them."""
    for invoice_id, payment_id, created_at, amount, bill_to, address in PAYMENTS:
        paid = Amount(created_at=created_at, amount_usd=amount, bill_to=bill_to, address=address)
        yield Payment(invoice_id=invoice_id, payment_id=payment_id, paid=paid)


def as_list(backend: Backend) -> dict[str, list[Entity]]:
    """The adjacency list: an invoice with its payments in one request, and the invoice of a payment."""
    with Store(billing, backend) as db:
        db.create()
        for invoice in invoices():
            db.put(Invoice.model_validate(invoice))
        for payment in payments():
            db.put(payment)

        with db.meter() as meter:
            together = list(db.query(collection(Invoice.primary(invoice_id="0123"))))
        assert meter.calls == 1
        found = list(db.query(Payment.by_id(payment_id="0275")))
        return {
            "invoice 0123 with its payments": together,
            "the invoice of payment 0275": [db.one(Invoice, invoice_id=payment.invoice_id) for payment in found],
        }


def as_columns(backend: Backend) -> dict[str, list[Entity]]:
    """The wide form: payments are added to their invoice one by one, each by one write."""
    with Store(wide, backend) as db:
        db.create()
        for invoice in invoices():
            db.put(WideInvoice.model_validate(invoice))
        for payment in payments():
            key = WideInvoice.primary(invoice_id=payment.invoice_id)
            db.update(key, set_(WideInvoice.payments[payment.payment_id], payment.paid))
        return {"both invoices, wide": [db.one(WideInvoice, invoice_id=invoice_id) for invoice_id in ("0123", "0124")]}


def as_rows(backend: Backend) -> dict[str, list[Entity]]:
    """The list in rows: an invoice with its payments in one request, which on Bigtable reads one row."""
    with Store(rows, backend) as db:
        db.create()
        for invoice in invoices():
            db.put(RowInvoice.model_validate(invoice))
        for payment in payments():
            db.put(RowPayment.model_validate(payment.model_dump()))
        with db.meter() as meter:
            together = list(db.query(collection(RowInvoice.primary(invoice_id="0123"))))
        assert meter.calls == 1
        return {"invoice 0123 in one row": together}


def row() -> list[str]:
    """The cells of the row of invoice 0123 on Bigtable, as ``cbt read`` prints them; this sends nothing.

    Without the cell to which every write adds its size.
    """
    with Store(rows, Bigtable("my-project", "my-instance")) as db:
        items: list[Entity] = [RowInvoice.model_validate(next(invoices()))]
        items += [RowPayment.model_validate(p.model_dump()) for p in payments() if p.invoice_id == "0123"]
        lines = [line for item in items for line in db.explain(item).stored.splitlines()[3:] if line]
        cells = zip(lines[::2], lines[1::2], strict=True)
        return [line for cell in cells if SIZE not in cell[0] for line in cell]


def main(backend: Backend) -> dict[str, list[Entity]]:
    """Store invoices and payments in all forms, and read them."""
    return as_list(backend) | as_columns(backend) | as_rows(backend)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        for question, answer in main(LocalFile(Path(folder, "invoices.db"))).items():
            print(f"{question}:")
            for found in answer:
                print(f"  {found}")
    with suppress(Unsupported):  # Google's client is not installed
        print("0123", *row(), sep="\n")
