"""Where a table is, in one word: ``shop.db``, ``dynamodb:eu-west-1``, ``bigtable:project/instance``."""

import re
from typing import Any
from urllib.parse import parse_qsl

from attrs import evolve

from odm.backends.local import LocalFile
from odm.cli.clouds import Cloud
from odm.cli.usage import BadUsage, checked
from odm.protocol.connection import Backend
from odm.schema.table import Table
from odm.stores.sync import Store


def store_at(text: str, table: Table) -> Store:
    """The store at a location: ``shop.db``, ``dynamodb:eu-west-1?prefix=prod-``, ``bigtable:project/instance``.

    Raises:
        BadUsage: the location is not valid.
    """
    backend, prefix = backend_at(text)
    return Store(table, backend, prefix=prefix)


def backend_at(text: str) -> tuple[Backend, str]:
    """The backend at a location, and the prefix of its tables. Raises as `store_at`."""
    kind, colon, rest = text.partition(":")
    if kind not in _KINDS or not colon:
        if colon and re.fullmatch(r"\w\w+", kind):
            raise BadUsage(
                f"{text!r}: there is no kind of location {kind!r}: write shop.db, dynamodb:REGION or "
                f"bigtable:PROJECT/INSTANCE; for a file of that name write file:{text}"
            )
        kind, rest = "file", text
    place, _, query = rest.partition("?")
    options = dict(parse_qsl(query))
    if (unknown := options.keys() - _KINDS[kind]) or (query and not options):
        names = ", ".join(f"{name}=" for name in _KINDS[kind])
        unfit = min(unknown, default=query)
        raise BadUsage(f"{text!r}: there is no option {unfit!r} of such a location; it has {names}")
    prefix = options.pop("prefix", "")
    return _backend(kind, place, options, text), prefix


_SWITCH = {"on": True, "off": False}

_KINDS = {
    "file": ("prefix",),
    "dynamodb": ("prefix", "profile", "endpoint_url"),
    "bigtable": ("prefix", "app_profile", "endpoint", "layout", "transactions"),
}
"""The options of each kind of location."""


def _backend(kind: str, place: str, options: dict[str, str], text: str) -> Backend:
    if kind == "file":
        with checked():
            return LocalFile(place)
    if kind == "dynamodb":
        profile, endpoint_url = options.get("profile"), options.get("endpoint_url")
        return Cloud(backend="dynamodb", region=place or None, profile=profile, endpoint_url=endpoint_url).settings()
    project, slash, instance = place.partition("/")
    if not (slash and project and instance):
        raise BadUsage(f"{text!r}: write bigtable:PROJECT/INSTANCE")
    profile, endpoint = options.get("app_profile"), options.get("endpoint")
    cloud = Cloud(backend="bigtable", project=project, instance=instance, app_profile=profile, endpoint=endpoint)
    return _laid_out(cloud.settings(), options, text)


def _laid_out(backend: Backend, options: dict[str, str], text: str) -> Backend:
    """The Bigtable instance, with tables that differ from their models as the location says."""
    from odm.backends.bigtable import Bigtable  # imported here, as the other clouds

    assert isinstance(backend, Bigtable)
    said: dict[str, Any] = {"layout": options["layout"]} if "layout" in options else {}  # checked by Bigtable
    if "transactions" in options:
        if options["transactions"] not in _SWITCH:
            raise BadUsage(f"{text!r}: write transactions=on or transactions=off")
        said["transactions"] = _SWITCH[options["transactions"]]
    with checked():
        return evolve(backend, **said)
