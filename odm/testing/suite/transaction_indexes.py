"""Transactions in a table with indexes: entries are correct, whatever is written between read and commit."""
# ruff: noqa: D101  # a test's name says what it shows

import re

import pytest

from odm import ConditionFailed, Conflict, ItemNotFound, Store, increment, remove, set_
from odm.protocol import contention
from odm.protocol import requests as req
from odm.testing.capabilities import needs
from odm.testing.entities import Contract, Ticket
from odm.testing.stores import Stores
from odm.testing.suite.helpers import at, fill
from odm.testing.suite.indexes import KEY, TICKET, but, entries, expected
from odm.testing.suite.transactions import failed, kinds


@needs("transactions", "indexes")
class TestTransactionIndexes:
    def test_every_operation_keeps_entries_right(self, indexed: Store) -> None:
        old = Ticket(member_id="m", ticket_id="old", filed_at=at(1))
        indexed.put(old)
        with indexed.transaction() as tx:
            tx.put(TICKET)
            tx.delete(old)
        assert entries(indexed) == expected(TICKET)
        with indexed.transaction() as tx:
            tx.update(KEY, increment(Ticket.level), set_(Ticket.due_at, at(7)), remove(Ticket.assignee))
        new = but(level=TICKET.level + 1, due_at=at(7), assignee=None)
        assert indexed.one(KEY) == new
        assert entries(indexed) == expected(new)

    def test_one_read_for_all_that_is_needed(self, indexed: Store, stores: Stores) -> None:
        other = but(ticket_id="u")
        fill(indexed, [TICKET, other])
        stores.forget()
        with indexed.transaction() as tx:
            tx.update(KEY, set_(Ticket.assignee, "bob"))
            tx.update(Ticket.primary(member_id="m", ticket_id="u"), increment(Ticket.level))
            tx.update(Contract.primary(contract_id="c"), set_(Contract.party, "p"), upsert=True)
        kinds = [type(request) for request in stores.requests]
        assert kinds == [req.BatchGet, req.Transact, req.Transact]  # read again, because the contract does not exist
        assert indexed.one(KEY).assignee == "bob"
        assert indexed.one(Contract, contract_id="c").revision == 1

    def test_an_item_that_keeps_changing_is_a_conflict(
        self, indexed: Store, stores: Stores, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        indexed.put(TICKET)
        stores.rival_puts(*(but(level=n % 2) for n in range(9)))
        monkeypatch.setattr(contention, "LONGEST_SECONDS", 0.0)
        failure = failed(
            indexed,
            lambda tx: tx.put(Contract(contract_id="c", party="p")),
            lambda tx: tx.update(KEY, set_(Ticket.assignee, "bob")),
        )
        assert kinds(failure) == [None, Conflict]
        assert re.search(r"other writers before each of \d+ attempts in \d+\.\d seconds", str(failure))
        assert indexed.one(KEY).assignee == "ann"

    def test_reasons_are_complete_where_an_update_fails_on_what_it_read(self, indexed: Store) -> None:
        indexed.put(TICKET)
        failure = failed(
            indexed,
            lambda tx: tx.update(Ticket.primary(member_id="m", ticket_id="gone"), set_(Ticket.assignee, "b")),
            lambda tx: tx.update(KEY, increment(Ticket.level, 1000)),
            lambda tx: tx.check(Contract, contract_id="gone"),
            lambda tx: tx.put(Contract(contract_id="c", party="p")),
        )
        assert kinds(failure) == [ItemNotFound, ConditionFailed, ItemNotFound, None]
        assert entries(indexed) == expected(TICKET)
