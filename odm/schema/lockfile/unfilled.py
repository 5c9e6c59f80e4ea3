"""Which access patterns lack the entries of stored items, by the lock file.

`odm lock` records a pattern that is new or has another key as not filled, and `odm backfill` records that it is.
"""

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final

from odm.errors import BadValue
from odm.schema.lockfile.compare import made_of_fields, same_entries
from odm.schema.lockfile.description import EntityLock, LockFile, PatternLock, TableLock, read_lock

_OF_ENTRIES: Final = ("name", "partition", "sort", "when", "shards", "filled")
"""What a backfill makes true of a locked pattern."""


def unfilled(old: TableLock, new: TableLock, *, by_fields: bool) -> dict[str, str]:
    """The patterns of a table that are not backfilled, such as "Order.by_score", each with the reason.

    Args:
        old: the locked description.
        new: the current description.
        by_fields: an index whose key attributes are fields fills itself, as on DynamoDB.
    """
    return {
        f"{entity.name}.{pattern.name}": why
        for _, entity, index, pattern, why in _unfilled(old, new)
        if not (by_fields and made_of_fields(pattern, index, new))
    }


def with_unfilled(old: TableLock | None, new: TableLock) -> TableLock:
    """The current description, in which the patterns that are not backfilled are recorded as such."""
    entities = dict(new.entities)
    for tag, _, index, pattern, _ in () if old is None else _unfilled(old, new):
        patterns = {**entities[tag].patterns, index: pattern.model_copy(update={"filled": False})}
        entities[tag] = entities[tag].model_copy(update={"patterns": patterns})
    return new.model_copy(update={"entities": entities})


def with_filled(lock: TableLock, now: TableLock, names: Collection[str]) -> TableLock:
    """The locked description after a backfill of these patterns: the entries of stored items are as the models say."""
    entities = dict(lock.entities)
    for tag, entity in now.entities.items():
        patterns = dict(entities[tag].patterns) if tag in entities else {}
        for index, pattern in entity.patterns.items():
            if tag not in entities or f"{entity.name}.{pattern.name}" not in names:
                continue
            entries = {
                name: getattr(pattern, name) for name in ("name", "partition", "sort", "when", "shards", "filled")
            }
            patterns[index] = patterns[index].model_copy(update=entries) if index in patterns else pattern
            entities[tag] = entities[tag].model_copy(update={"patterns": patterns})
    return lock.model_copy(update={"entities": entities})


def lock_at(path: Path, option: str) -> LockFile | None:
    """The lock file under a path; None: there is none.

    Args:
        path: its path.
        option: the option that names it, for messages.

    Raises:
        BadValue: it cannot be read, or is not a lock file.
    """
    try:
        return read_lock(path.read_text(encoding="utf-8"), str(path))
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise BadValue(
            f"{path} is not a lock file of odm: it is not text; choose another path with {option}"
        ) from error
    except OSError as error:
        raise BadValue(f"{path} cannot be read: {error.strerror}; choose another path with {option}") from error


def _unfilled(old: TableLock, new: TableLock) -> Iterator[tuple[str, EntityLock, str, PatternLock, str]]:
    for tag, entity in new.entities.items():
        if tag not in old.entities:  # no item of a new entity was stored before its patterns
            continue
        for index, pattern in entity.patterns.items():
            was = old.entities[tag].patterns.get(index)
            if was is None:
                yield tag, entity, index, pattern, "it is new"
            elif not same_entries(was, pattern):
                yield tag, entity, index, pattern, "its key or condition has changed"
            elif not was.filled:
                yield tag, entity, index, pattern, "the lock file has it as not backfilled"
