"""Places: a hierarchical sort key can be queried at any level, whatever characters the names have.

The places are 3,376 real airports, of the package `vega_datasets`, and a few invented ones with a `#` in their names:
`#` separates the parts of a key, and odm escapes it in values.
"""

import csv
import tempfile
from importlib.util import find_spec
from pathlib import Path

from odm import Backend, Entity, PrimaryKey, Query, Store, Table, starts_with
from odm.backends.local import LocalFile

places = Table("places")


class Place(Entity, table=places):
    """An airport, with its place in the world."""

    iata: str
    name: str
    city: str
    state: str
    country: str

    primary = PrimaryKey("{country}", "{state}#{city}#{name}#{iata}")


MADE_UP = [
    Place(iata="~1", name='Pier #7 "Old Harbour"', city="Saint-Août-d'Île", state="Île #2", country="São Nowhere"),
    Place(iata="~2", name="Pier #7", city="Saint-Août-d'Île", state="Île #2", country="São Nowhere"),
    Place(iata="~3", name="Pier", city="Saint-Août", state="Île #2", country="São Nowhere"),
    Place(iata="~4", name="Pier", city="Saint-Août-d'Île", state="Île", country="São Nowhere"),
    Place(iata="~5", name="Not in Houston", city="Houston", state="TX#Houston", country="USA"),
]


def read_airports() -> list[Place]:
    """The airports, read from the package's file: importing the package would import pandas."""
    spec = find_spec("vega_datasets")
    if spec is None or spec.origin is None:
        raise SystemExit("this example needs its data: pip install 'single-table-odm[cli]'")
    with Path(spec.origin).with_name("_data").joinpath("airports.csv").open(encoding="utf-8", newline="") as lines:
        return [Place.model_validate(row) for row in csv.DictReader(lines)]


def main(backend: Backend) -> dict[str, list[str]]:
    """Store the places, and ask for the codes of those in a country, a state and a city, and by name."""
    with Store(places, backend) as db:
        db.create()
        with db.batch() as batch:
            for place in [*read_airports(), *MADE_UP]:
                batch.put(place)

        def codes(query: Query[Place]) -> list[str]:
            return [place.iata for place in db.query(query)]

        houston = Place.primary(country="USA", state="TX", city="Houston")
        island = Place.primary(country="São Nowhere", state="Île #2")
        pier = Place.primary(country="São Nowhere", state="Île #2", city="Saint-Août-d'Île", name="Pier #7")
        return {
            "in the USA": codes(Place.primary(country="USA")),
            "in Hawaii": codes(Place.primary(country="USA", state="HI")),
            "in Houston": codes(houston),
            "in Houston, name begins with W": codes(houston.where(starts_with(Place.name, "W"))),
            "in a state with a # in its name": codes(island),
            "of a name with a # in it": codes(pier),
        }


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        for question, answer in main(LocalFile(Path(folder, "places.db"))).items():
            print(f"{question}: {len(answer):,} places: {' '.join(answer[:10])}{' ...' if len(answer) > 10 else ''}")
