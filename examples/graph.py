"""A graph of people and firms: edges of two types with dates, neighbours by type and date, and bounded walks."""

import tempfile
from datetime import date
from pathlib import Path

from odm import Backend, Entity, PrimaryKey, Store, Table
from odm.backends.local import LocalFile
from odm.patterns.adjacency_list import AdjacencyList, edge
from odm.patterns.graph import walk

circle = Table("graph")


class Person(Entity, table=circle):
    """A node."""

    person: str

    primary = PrimaryKey("PERSON#{person}", "NODE")


class Firm(Entity, table=circle):
    """A node of another type."""

    firm: str

    primary = PrimaryKey("FIRM#{firm}", "NODE")


class Knows(Entity, table=circle):
    """Who introduced themselves to whom, and when."""

    one: str
    other: str
    met: date

    primary, out, into = edge("PERSON#{one}", "KNOWS", "PERSON#{other}", sort="{met}")


class WorksAt(Entity, table=circle):
    """An edge from one type of node to the other."""

    person: str
    firm: str
    since: date

    primary, out, into = edge("PERSON#{person}", "WORKS_AT", "FIRM#{firm}", sort="{since}")


network = AdjacencyList(Person, Firm, Knows, WorksAt)
MET = (("ana", "bo", 2019), ("ana", "cy", 2024), ("ana", "di", 2025), ("bo", "ed", 2020), ("cy", "ed", 2025))
HIRED = (("ana", "Acme", 2018), ("ed", "Acme", 2016), ("fay", "Acme", 2023), ("bo", "Bell & Co #2", 2020))


def main(backend: Backend) -> dict[str, list[str]]:
    """Store the graph, and ask it."""
    with Store(circle, backend) as db:
        db.create()
        with db.batch() as batch:
            for one, other, year in MET:
                batch.put(Knows(one=one, other=other, met=date(year, 7, 1)))
            for person, firm, year in HIRED:
                batch.put(WorksAt(person=person, firm=firm, since=date(year, 1, 1)))
            for person in ("ana", "bo", "cy", "di", "ed", "fay"):
                batch.put(Person(person=person))
            batch.put(Firm(firm="Acme"))  # an edge may end at a node that is not stored, such as the other firm

        ana = Person.primary(person="ana")
        recent = Knows.out(one="ana").where(Knows.met >= date(2024, 1, 1))
        answers = {
            "Ana has met since 2024": [found.person for _, found in db.run(network.neighbours(recent))],
            "at Acme, the newest first": [e.person for e in db.query(WorksAt.into(firm="Acme").reverse())],
        }
        with db.meter() as meter:
            found = db.run(walk(network, ana, out=[Knows], into=[Knows], depth=2, most=10))
        answers["within two handshakes"] = [f"{v.node.values['person']} ({v.depth})" for v in found.visits]
        assert found.reads == 2 * (1 + 3) <= meter.calls  # both directions of Ana, and of the three that she knows
        works = db.run(walk(network, ana, out=[WorksAt], into=[WorksAt], depth=2, most=2))
        answers["her firm, and a colleague"] = [str(visit.node) for visit in works.visits]
    assert list(answers.values()) == [
        ["cy", "di"],
        ["fay", "ana", "ed"],
        ["bo (1)", "cy (1)", "di (1)", "ed (2)"],
        ["Firm.primary(firm='Acme')", "Person.primary(person='ed')"],
    ]
    return answers


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        for question, answer in main(LocalFile(Path(folder, "graph.db"))).items():
            print(f"{question}: {', '.join(answer)}")
