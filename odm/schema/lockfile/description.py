"""The content of a lock file, as frozen values, and its text form.

The text is JSON, sorted and without default values, so that a change of a model is a small diff. Besides what decides
the stored bytes it has class names and templates, which make it readable in a review.
"""

import json
import re
from collections.abc import Mapping
from typing import Any, Final, Literal, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, ValidationError

from odm.codec import TAG, TTL_ATTRIBUTE
from odm.errors import BadValue

FORMAT: Final = 2
"""The format of lock files that this version of odm writes; it reads this format and older ones. Format 1 has no
defaults, no validators, and not all limits: see `odm.schema.lockfile.compare`."""

Limit: TypeAlias = bool | int | float | str
Limits: TypeAlias = Mapping[str, Limit]


class _Description(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class SlotLock(_Description):
    """A placeholder of a key template: the stored name of its field, and its encoding."""

    field: str
    encoding: str


class TemplateLock(_Description):
    """A key template, and its placeholders in order."""

    text: str
    slots: tuple[SlotLock, ...] = ()

    @property
    def literals(self) -> tuple[str, ...]:
        """The text around the placeholders."""
        return tuple(re.split(r"\{[^{}]*\}", self.text))

    def same_bytes(self, other: Self) -> bool:
        """Whether both make the same key for the same item, even if field names differ."""
        return self.literals == other.literals and self.slots == other.slots


class ShardsLock(_Description):
    """The number of shards of a pattern, and the field whose text selects one; None: at random.

    ``was``: the previous number; entries may still be in those shards.
    """

    count: int
    by: SlotLock | None = None
    was: int | None = None


class PatternLock(_Description):
    """A primary key or an access pattern. ``when`` is the condition as text, over stored names and values.

    ``projection``: the stored names of the attributes that the index holds besides keys on DynamoDB; None: all.
    ``filled``: stored items have their entries; False: it was new or its key changed, and `odm backfill` has not yet
    recorded that it is complete.
    """

    name: str
    kind: Literal["primary", "global", "local"]
    partition: TemplateLock
    sort: TemplateLock | None = None
    when: str | None = None
    shards: ShardsLock | None = None
    projection: tuple[str, ...] | None = None
    filled: bool = True

    def uses(self, field: str) -> bool:
        """Whether a key or the condition has the field of this stored name."""
        by = None if self.shards is None else self.shards.by
        slots = [*self.partition.slots, *(self.sort.slots if self.sort else ()), *([by] if by else ())]
        named = self.when is not None and re.search(rf"(?<!\w){re.escape(field)}(?!\w)", self.when)
        return bool(named) or any(slot.field == field for slot in slots)


class FieldLock(_Description):
    """How a field is stored.

    Attributes:
        field: its name in the class, if that differs from the stored name.
        type: the stored type; each ``model`` in it has its fields in ``models``, in order.
        values: the stored values that a Literal or an Enum allows, those of a Flag combined; None: all of the type.
        optional: it may be None.
        absent: the value in an item without it: an error, None, another default, or what a default factory makes.
        default: the stored form of that other default, or the name of the factory.
        limits: what Pydantic checks or converts: name, such as ``max_length``, to value; those of a part of the
            type have its position first, such as ``[0].max_length`` for the items of a list. Options of a model's
            configuration are at the position of the model.
        validators: the names of the code that runs when it is read, with their positions in the same way.
        models: the fields of each model in the type, by stored name.
    """

    type: str
    field: str | None = None
    values: tuple[str | int | bool, ...] | None = None
    optional: bool = False
    absent: Literal["error", "none", "default", "factory"] = "error"
    default: str | None = None
    limits: Limits = {}
    validators: tuple[str, ...] = ()
    models: "tuple[Mapping[str, FieldLock], ...]" = ()


class EntityLock(_Description):
    """An entity, under its tag; fields by stored name, patterns by the name of their index.

    ``limits`` and ``validators`` are those of the whole model: options of its configuration, and model validators.
    """

    name: str
    version: int = 1
    keep: int | None = None
    primary: PatternLock
    patterns: Mapping[str, PatternLock] = {}
    fields: Mapping[str, FieldLock]
    ttl: str | None = None
    revision: str | None = None
    counters: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    family: str | None = None
    families: Mapping[str, str] = {}
    cells: Mapping[str, str] = {}
    versioned: Mapping[str, int] = {}
    blobs: tuple[str, ...] = ()
    aggregates: Mapping[str, str] = {}
    limits: Limits = {}
    validators: tuple[str, ...] = ()


class TableLock(_Description):
    """A table; entities by tag. ``index_keys`` has only indexes with attribute names that differ from the default.

    ``format`` is that of the file when the table was written: its neighbors in the file may have been written later.
    """

    format: int = 1
    keys: tuple[str, ...]
    index_keys: Mapping[str, tuple[str | tuple[str, ...], ...]] = {}
    verbatim: bool = False
    tag: str | None = TAG
    ttl: str = TTL_ATTRIBUTE
    hash_only: bool = False
    row_key_join: str = "#"
    wide: bool = False
    verbatim_rows: bool = False
    transactions: bool = False
    entities: Mapping[str, EntityLock]


class LockFile(_Description):
    """A whole lock file; tables by name."""

    format: int
    tables: Mapping[str, TableLock]


def write_lock(lock: LockFile) -> str:
    """The text of a lock file: the same for the same tables, in every run."""
    return json.dumps(plain(lock), indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def plain(lock: LockFile) -> dict[str, Any]:
    """A lock file as dicts, lists and scalars, without default values."""
    return lock.model_dump(mode="json", exclude_defaults=True)


def read_lock(text: str, name: str) -> LockFile:
    """Parse a lock file.

    Args:
        text: the text that `write_lock` returned.
        name: the file name, for messages.

    Raises:
        BadValue: the text is not a lock file, is damaged, or is from a newer odm.
    """
    fix = "restore it from version control, or remove it and write it again with odm lock"
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadValue(f"{name} is not a lock file of odm, or it is damaged: {error}; {fix}") from error
    version = document.get("format") if isinstance(document, dict) else None
    if type(version) is int and version > FORMAT:
        raise BadValue(
            f"{name} was written by a newer odm: it has format {version}, and this odm reads {FORMAT}; upgrade odm"
        )
    try:
        return LockFile.model_validate(document)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"])) or "the top"
        raise BadValue(
            f"{name} is not a lock file of odm, or it is damaged: at {where}: {first['msg']}; {fix}"
        ) from error
