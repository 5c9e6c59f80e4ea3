"""Unique e-mail addresses: no two customers have the same one, and a customer signs in by it, without an index.

On DynamoDB the customer and the claim on the address are written in one transaction; on Bigtable, which writes one row
at a time, the claim comes first, and a program that stops in between leaves nothing wrong behind.
"""

import tempfile
from pathlib import Path

from pydantic import field_validator

from odm import Backend, Entity, ItemExists, PrimaryKey, Store, Table, set_
from odm.backends.local import LocalFile
from odm.patterns.unique import Unique

accounts = Table("accounts")


class Customer(Entity, table=accounts):
    """A customer, whose key is not the address: that may change."""

    customer_id: str
    email: str | None = None

    primary = PrimaryKey("CUSTOMER#{customer_id}")
    unique_email = Unique("email")

    @field_validator("email")
    @classmethod
    def _lower(cls, email: str | None) -> str | None:
        """Ann@example.com and ann@example.com are one address."""
        return None if email is None else email.lower()


def main(backend: Backend) -> dict[str, str]:
    """Sign up, change addresses, sign in."""
    answers: dict[str, str] = {}
    with Store(accounts, backend) as db:
        db.create()
        for customer in db.scan(Customer):  # of an earlier run; with a customer goes the claim on the address
            db.delete(customer)

        def attempt(what: str, customer: Customer) -> None:
            try:
                db.put(customer)
                answers[what] = "done"
            except ItemExists:
                answers[what] = "the address is taken"

        attempt("ann signs up", Customer(customer_id="ann", email="Ann@example.com"))
        attempt("bob takes her address", Customer(customer_id="bob", email="ann@example.com"))
        attempt("two without an address: one", Customer(customer_id="cleo"))
        attempt("two without an address: two", Customer(customer_id="dora"))
        answers["who signs in"] = db.one(Customer.unique_email(email="ANN@example.com")).customer_id

        ann = Customer.primary(customer_id="ann")
        db.update(ann, set_(Customer.email, "ann@example.org"))
        attempt("bob takes her old address", Customer(customer_id="bob", email="ann@example.com"))
        db.delete(ann)
        attempt("cleo takes the one of a customer that has gone", Customer(customer_id="cleo", email="ann@example.org"))

    assert answers == {
        "ann signs up": "done",
        "bob takes her address": "the address is taken",
        "two without an address: one": "done",
        "two without an address: two": "done",
        "who signs in": "ann",
        "bob takes her old address": "done",
        "cleo takes the one of a customer that has gone": "done",
    }
    return answers


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        for step, answer in main(LocalFile(Path(folder, "accounts.db"))).items():
            print(f"{step}: {answer}")
