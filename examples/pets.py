"""Pets: an item collection is sorted by its sort key, and can be read from either end or between two names."""

import tempfile
from pathlib import Path

from odm import Backend, Entity, PrimaryKey, Query, Store, Table
from odm.backends.local import LocalFile

pets = Table("pets")


class Pet(Entity, table=pets):
    """A pet; all of a kind are one item collection, sorted by name."""

    animal_type: str
    name: str

    primary = PrimaryKey("{animal_type}", "{name}")


PETS = {
    "Dog": ["Fido", "Bowser", "Rover", "Kelly", "Apollo"],
    "Cat": ["Muffy"],
    "Bird": ["Polly", "Woody"],
    "Fish": ["Jaws"],
    "Turtle": ["Sheldon"],
}


def main(backend: Backend) -> dict[str, list[str]]:
    """Store the pets, and ask for dogs in three ways."""
    with Store(pets, backend) as db:
        db.create()
        with db.batch() as batch:
            for animal_type, names in PETS.items():
                for name in names:
                    batch.put(Pet(animal_type=animal_type, name=name))

        def names_of(query: Query[Pet]) -> list[str]:
            return [pet.name for pet in db.query(query)]

        dogs = Pet.primary(animal_type="Dog")
        return {
            "dogs": names_of(dogs),
            "dogs, from the end": names_of(dogs.reverse()),
            "dogs whose name begins with A to K": names_of(dogs.where(Pet.name >= "A", Pet.name < "L")),
        }


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        for question, answer in main(LocalFile(Path(folder, "pets.db"))).items():
            print(f"{question}: {', '.join(answer)}")
