"""odm: single-table design for DynamoDB and Bigtable.

Declare entities and access patterns as Pydantic models; the same queries run on DynamoDB, on Bigtable and on the
bundled engine. Start with `Table`, `Entity`, `PrimaryKey`, `AccessPattern` and `Store`.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from odm._public import *  # noqa: F403  # it has an __all__
    from odm._public import __all__ as __all__
else:
    # Loaded at the first use, as pydantic does it: a program that only may need odm starts without its cost.

    def __getattr__(name: str) -> object:
        if name.startswith("_") and name != "__all__":
            raise AttributeError(f"module 'odm' has no attribute {name!r}")
        from odm import _public

        if name != "__all__" and name not in _public.__all__:
            raise AttributeError(f"module 'odm' has no attribute {name!r}")
        globals().update({public: getattr(_public, public) for public in _public.__all__}, __all__=_public.__all__)
        return globals()[name]

    def __dir__() -> list[str]:
        from odm import _public

        return sorted({*globals(), *_public.__all__})
