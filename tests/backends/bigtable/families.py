"""Column families in short form, for tests."""

from collections.abc import Mapping

from odm.backends.bigtable.client.native_admin import ColumnFamily, Families
from odm.expressions.collection import MaxVersions


def kept(versions: Mapping[str, int]) -> Families:
    """Column families that keep these numbers of versions."""
    return {name: ColumnFamily(MaxVersions(number)) for name, number in versions.items()}
