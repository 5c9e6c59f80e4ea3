"""Find declarations in the source, and the rules that comments next to them suppress.

``# odm: ignore[hot-partition]`` on a line of a declaration suppresses the rule there; on the line of the class, for
the whole entity. Without source (a notebook, classes made at run time) there are no lines and no comments.
"""

import ast
import inspect
import re
from collections.abc import Iterator
from textwrap import dedent
from typing import Final

from odm.immutable import Immutable, field
from odm.schema.entity import EntitySchema

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
