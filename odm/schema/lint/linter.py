"""The rules, run over a compiled `Schema`.

A rule is a function from an entity to findings. It sees only declarations, never data, and reports nothing if it is
not certain. One, `odm.schema.lint.validators`, runs the validators of the models on examples.

``# odm: ignore[hot-partition]`` on a line of a declaration suppresses the rule there; on the line of the class, for
the whole entity. Without source (a notebook, classes made at run time) there are no lines and no comments.
"""

import ast
import inspect
import re
import warnings
from collections.abc import Collection, Iterable, Iterator
from difflib import get_close_matches
from textwrap import dedent
from typing import Final

from odm.errors import BadValue
from odm.immutable import Immutable, evolve, field
from odm.schema.entity import EntitySchema
from odm.schema.lint.finding import (
    BOTH,
    RULES,
    SEVERITIES,
    UNSTABLE_VALUE,
    UNUSED_IGNORE,
    Cloud,
    LintFinding,
    lint_finding,
)
from odm.schema.lint.growth import (
    deleted_by_age,
    filtered_reads,
    long_names,
    missing_ttl,
    unbounded_collection,
    unbounded_row,
)
from odm.schema.lint.keys import ambiguous_row_keys, constant_key, equal_indexes, lossy_key, non_unique_key, text_order
from odm.schema.lint.load import hot_partition, monotonic_key
from odm.schema.lint.validators import unstable_value
from odm.schema.model import Schema

_COMMENT: Final = re.compile(r"#\s*odm:\s*ignore\[([\w\s,-]*)\]")


class Comment(Immutable):
    """A comment that suppresses rules.

    Attributes:
        about: the declaration on its line; "" for the class.
    """

    about: str
    file: str
    line: int
    rules: tuple[str, ...]


class Places(Immutable):
    """The declarations of an entity in its source.

    Attributes:
        lines: file and line by attribute name; "" for the class itself.
    """

    lines: dict[str, tuple[str, int]] = field(factory=dict)
    comments: list[Comment] = field(factory=list)

    def suppressing(self, about: str, rule: str) -> Iterator[Comment]:
        """The comments that suppress a rule for a declaration, or for the entity if ``about`` is ""."""
        return (comment for comment in self.comments if comment.about in ("", about) and rule in comment.rules)


def find_places(entity: EntitySchema) -> Places:
    """Find the class and its bases; those without source are skipped."""
    places = Places()
    for base in reversed(entity.cls.__mro__):  # the nearest declaration of a name comes last
        if base.__module__.partition(".")[0] not in ("odm", "pydantic", "builtins") or base is entity.cls:
            _add(places, base, is_entity=base is entity.cls)
    return places


def _add(places: Places, cls: type, *, is_entity: bool) -> None:
    try:
        file = inspect.getsourcefile(cls)
        lines, start = inspect.getsourcelines(cls)
        [tree] = ast.parse(dedent("".join(lines))).body
    except (OSError, TypeError, SyntaxError, ValueError):
        return
    if file is None or not isinstance(tree, ast.ClassDef):
        return
    for statement in tree.body:
        for name in _names(statement):
            places.comments[:] = [comment for comment in places.comments if comment.about != name]
            last = statement.end_lineno or statement.lineno
            _note(places, name, file, range(statement.lineno, last + 1), lines, start)
    if is_entity:
        _note(places, "", file, range(tree.lineno, tree.body[0].lineno), lines, start)


def _note(places: Places, name: str, file: str, span: range, lines: list[str], start: int) -> None:
    """Record a declaration and the comments on its lines, counted from the start of the class."""
    places.lines[name] = (file, start + span.start - 1)
    for at in span:
        for names in _COMMENT.findall(lines[at - 1]):
            rules = tuple(rule.strip() for rule in names.split(","))
            places.comments.append(Comment(name, file, start + at - 1, rules))


def _names(statement: ast.stmt) -> Iterator[str]:
    match statement:
        case ast.Assign(targets=targets):
            yield from (target.id for target in targets if isinstance(target, ast.Name))
        case ast.AnnAssign(target=ast.Name(id=name)):
            yield name


_CHECKS: Final = (
    ambiguous_row_keys,
    constant_key,
    non_unique_key,
    lossy_key,
    hot_partition,
    monotonic_key,
    unbounded_collection,
    unbounded_row,
    filtered_reads,
    equal_indexes,
    text_order,
    long_names,
    missing_ttl,
    deleted_by_age,
    unstable_value,
)


def lint_schema(schema: Schema, ignore: Collection[str] = (), backend: Cloud | None = None) -> list[LintFinding]:
    """The findings of all rules for a table; see `odm.Table.lint`."""
    _check_names(ignore, RULES, "rule")
    _check_names(() if backend is None else (backend,), BOTH, "backend")
    told = (finding for entity in schema.entities.values() for finding in _of_entity(schema, entity, ignore))
    findings = (
        finding for finding in told if finding.rule not in ignore and (backend is None or backend in finding.backends)
    )
    return sorted(findings, key=lambda finding: SEVERITIES.index(finding.severity))


def warn_of_constant_keys(schema: Schema) -> None:
    """Warn of keys that make items overwrite each other whatever their values are, unless a comment suppresses it."""
    for entity in schema.entities.values():
        if _is_made(schema, entity):
            continue
        for finding in constant_key(schema, entity):
            about = finding.where.partition(".")[2]
            if not any(find_places(entity).suppressing(about, finding.rule)):
                fix = finding.fix.replace("\n", " ")
                warnings.warn(f"{finding.where}: {finding.what}, and {finding.why}. Write {fix}", stacklevel=2)


def _check_names(names: Collection[str], known: Iterable[str], word: str) -> None:
    if isinstance(names, str):
        raise BadValue(f"lint: ignore={names!r} is one name: write ignore=[{names!r}]")
    for name in names:
        if name not in known:
            near = get_close_matches(str(name), [*known], 1)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise BadValue(f"lint: there is no {word} {name!r}; {hint}there are {', '.join(known)}")


def _of_entity(schema: Schema, entity: EntitySchema, ignore: Collection[str]) -> Iterator[LintFinding]:
    places = find_places(entity)
    used: list[Comment] = []
    checks = (ambiguous_row_keys,) if _is_made(schema, entity) else _CHECKS
    runs_code = UNSTABLE_VALUE.name not in ignore  # who ignores the rule does not want their validators to run
    run = [check for check in checks if runs_code or check is not unstable_value]
    for finding in (finding for check in run for finding in check(schema, entity)):
        about = finding.where.removeprefix(entity.name).removeprefix(".")
        suppressing = list(places.suppressing(about, finding.rule))
        used += suppressing
        if not suppressing:
            file, line = places.lines.get(about, (None, None))
            yield evolve(finding, file=file, line=line)
    used += [] if runs_code else [comment for comment in places.comments if UNSTABLE_VALUE.name in comment.rules]
    yield from _unused(entity, places, used)


def _is_made(schema: Schema, entity: EntitySchema) -> bool:
    """Whether a companion made it: except for the beginning of its keys it is not the user's design."""
    companion_tags = (
        f"{owner.tag}.{companion.name}" for owner in schema.entities.values() for companion in owner.companions
    )
    return any(entity.tag == tag or entity.tag.startswith(f"{tag}.") for tag in companion_tags)


def _unused(entity: EntitySchema, places: Places, used: list[Comment]) -> Iterator[LintFinding]:
    """The comments that suppress nothing: the finding is gone, or the rule does not exist."""
    for comment in places.comments:
        if comment in used:
            continue
        where = f"{entity.name}.{comment.about}" if comment.about else entity.name
        names = ", ".join(comment.rules)
        unknown = next((f", because there is no rule {name!r}" for name in comment.rules if name not in RULES), "")
        finding = lint_finding(
            UNUSED_IGNORE,
            where,
            what=f"the comment ignore[{names}] suppresses nothing{unknown}",
            why="it would hide a later finding",
            fix="remove the comment",
        )
        yield evolve(finding, file=comment.file, line=comment.line)
