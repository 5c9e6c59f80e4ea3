"""A product catalog: one composite key serves queries for a category, a product and a brand.

On Bigtable the row keys are exactly ``hats#fedoras#brandA``, …: the unchanged keys of an old table.
"""

import tempfile
from pathlib import Path

from odm import Backend, Entity, PrimaryKey, Store, Table
from odm.backends.local import LocalFile

catalog = Table("catalog")


class Product(Entity, table=catalog):
    """What a brand makes of a product."""

    category: str
    product: str
    brand: str
    description: str
    price: int
    thumbnail: str = "https://storage..."

    primary = PrimaryKey("{category}", "{product}#{brand}")


PRODUCTS = [
    Product(category=category, product=product, brand=brand, description=description, price=price)
    for category, product, brand, price, description in (
        ("hats", "fedoras", "brandA", 30, "Made of high-quality wool..."),
        ("hats", "fedoras", "brandB", 28, "Durable water-resistant canvas..."),
        ("hats", "newsboy", "brandB", 25, "Add a vintage touch..."),
        ("shoes", "sneakers", "brandA", 40, "Stylish and comfortable..."),
        ("shoes", "sneakers", "brandB", 50, "Classic features, modern materials..."),
    )
]


def main(backend: Backend) -> dict[str, list[Product]]:
    """Store the catalog, and query every level of its key."""
    with Store(catalog, backend) as db:
        db.create()
        with db.batch() as batch:
            for product in PRODUCTS:
                batch.put(product)
        return {
            "all hats": list(db.query(Product.primary(category="hats"))),
            "all fedoras": list(db.query(Product.primary(category="hats", product="fedoras"))),
            "one product": [db.one(Product, category="shoes", product="sneakers", brand="brandB")],
        }


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        for question, products in main(LocalFile(Path(folder, "catalog.db"))).items():
            print(f"{question}:")
            for found in products:
                print(f"  {found.category} {found.product} {found.brand} {found.price:>3}  {found.description}")
