"""Row keys of Bigtable → groups of rows with keys of one form, and what stands at each place of it.

A row key is divided at its separators. Rows whose keys have the same separators are a group; a word that decides which
columns a row has divides the group further. What differs within a group is a value: a time, a number with zeros, or
text. A word that is the same in all keys is only taken for a fixed part of them if it distinguishes groups, or if very
many rows have it: a value that happens to be the same everywhere could be another one tomorrow.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import combinations
from typing import Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace as evolve

from odm.cli.inspect.cells import MILLIS, SECONDS, moments
from odm.cli.inspect.texts import Words, words_of
from odm.cli.inspect.types import FORMATS

Columns: TypeAlias = Collection[tuple[str, bytes]]
"""The columns of a row: family and qualifier."""

MOST_FORMS: Final = 12
"""With more forms, the keys are not divided."""

_MANY: Final = 100
"""So many rows with one word in their keys make it a fixed part."""

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z _.-]{0,31}", re.ASCII)
"""A word that could name a type of rows."""

_ALIKE: Final = 0.5
"""Two sets of columns with a larger share in common are columns of one type of rows."""

_KEY_FORMATS: Final = (*FORMATS, "%Y%m%d%H%M%S", "%Y%m%d%H%M", "%Y%m%d%H", "%Y-%m-%d-%H", "%Y%m%dT%H%M%SZ")
_YEARS: Final = range(1970, 2100)
_DIGITS: Final = re.compile(r"[0-9]+", re.ASCII)
_MOST_DIGITS: Final = 18
_WHOLE: Final = re.compile(r"0|[1-9][0-9]{0,17}", re.ASCII)


class KeyPart(Struct, frozen=True):
    """What stands at one place of the keys of a group.

    Attributes:
        text: the fixed text; None: it is a value.
        type: the annotation of a value.
        format: its format in a template, such as ``010``.
        options: arguments of ``Stored``.
        word: a name for it; "" if the keys suggest none.
        why: a comment.
        values: the text in the key of each row.
    """

    text: str | None = None
    type: str = "str"
    format: str = ""
    options: str = ""
    word: str = ""
    why: str = ""
    values: tuple[str, ...] = ()

    @property
    def timed(self) -> bool:
        """Whether it is a time."""
        return self.type in ("date", "datetime")


class RowGroup(Struct, frozen=True):
    """Rows with keys of one form.

    Attributes:
        rows: the positions of the rows in the sample.
        parts: what the keys consist of: fixed texts, separators and values.
        name: a name for the type of rows; "" if the keys suggest none.
    """

    rows: tuple[int, ...]
    parts: tuple[KeyPart, ...]
    name: str = ""


def group_rows(keys: Sequence[str], columns: Sequence[Columns]) -> list[RowGroup]:
    """The rows by the form of their keys.

    Args:
        keys: the row keys.
        columns: the columns of each row, without those that only a few rows have.
    """
    divided = ([split(key) for key in keys] for split in (words_of, _at_most_common(keys), _whole))
    grouped = ((words, _groups(words, columns)) for words in divided)
    words, groups = next(grouping for grouping in grouped if len(grouping[1]) <= MOST_FORMS)
    varied = {head for rows in groups for head in _varied(rows, words)}
    return [_described(rows, words, varied, several=len(groups) > 1) for rows in groups]


def _varied(rows: list[int], words: Sequence[Words]) -> Iterator[Words]:
    """What stands in front of the words that differ within a group; "{}" for words that differ themselves."""
    head: Words = ()
    for texts in zip(*(words[row] for row in rows), strict=True):
        same = len({*texts}) == 1
        if not same:
            yield head
        head += (texts[0] if same else "{}",)


def _groups(words: Sequence[Words], columns: Sequence[Columns]) -> list[list[int]]:
    """The positions of the rows of each group."""
    forms: dict[Words, list[int]] = defaultdict(list)
    for at, row_words in enumerate(words):
        forms["", *row_words[1::2]].append(at)
    return [group for rows in forms.values() for group in _by_word(rows, words, columns)]


def _at_most_common(keys: Sequence[str]) -> Callable[[str], Words]:
    """Divide keys at the separator that most of them have."""
    counted = Counter(mark for key in keys for mark in set("".join(words_of(key)[1::2])))
    if not counted:
        return _whole
    mark = re.escape(max(counted, key=lambda mark: (counted[mark], mark == "#")))
    return lambda key: tuple(re.split(f"({mark}+)", key))


def _whole(key: str) -> Words:
    return (key,)


def _by_word(rows: list[int], words: Sequence[Words], columns: Sequence[Columns]) -> list[list[int]]:
    """Rows of one form, divided by the first word on which their columns depend."""
    for place in range(0, len(words[rows[0]]), 2):
        by_word: dict[str, list[int]] = defaultdict(list)
        for row in rows:
            by_word[words[row][place]].append(row)
        if 1 < len(by_word) <= MOST_FORMS and all(map(_NAME.fullmatch, by_word)) and len(by_word) < len(rows):
            sets = [{column for row in its for column in columns[row]} for its in by_word.values()]
            if all(not _alike(first, second) for first, second in combinations(sets, 2)):
                return [*by_word.values()]
    return [rows]


def _alike(first: set[tuple[str, bytes]], second: set[tuple[str, bytes]]) -> bool:
    return len(first & second) > _ALIKE * min(len(first), len(second)) or not (first and second)


def _described(rows: list[int], words: Sequence[Words], varied: Collection[Words], *, several: bool) -> RowGroup:
    """A group. A word is not fixed if it differs at the same place of another group."""
    places = [*zip(*(words[row] for row in rows), strict=True)]
    if len(places) == 1 and (divided := _by_width(places[0])):
        return RowGroup(tuple(rows), divided)
    parts: list[KeyPart] = []
    for place, texts in enumerate(places):
        before = parts[-2].text if place > 1 else None
        word = texts[0] if len({*texts}) == 1 else None
        head = tuple("{}" if part.text is None else part.text for part in parts)
        fixed = word and head not in varied and _NAME.fullmatch(word) and (several or len(texts) >= _MANY)
        if place % 2 or word == "" or fixed:
            parts.append(KeyPart(texts[0]))
        else:
            parts.append(_value(texts, before or ""))
    names = [part.text for part in parts[::2] if part.text]
    return RowGroup(tuple(rows), tuple(parts), names[-1] if names and (several or len(names) == 1) else "")


def _value(texts: Sequence[str], before: str) -> KeyPart:
    """The value that stands at a place of keys.

    Args:
        texts: it in every row.
        before: the fixed text in front of it.
    """
    parts = (part for find in (_epoch, _moment, _number) if (part := find(texts)) is not None)
    part = next(parts, KeyPart(format="empty" if "" in texts else ""))
    word = {"date": "day", "datetime": "at"}.get(part.type, before)
    return evolve(part, word=word, values=tuple(texts))


def _epoch(texts: Sequence[str]) -> KeyPart | None:
    for unit, span in (("ms", MILLIS), ("s", SECONDS)):
        if all(_WHOLE.fullmatch(text) and int(text) in span for text in texts):
            return KeyPart(type="datetime", options=f'epoch="{unit}"')
    return None


def _moment(texts: Sequence[str]) -> KeyPart | None:
    plausible = all(text[:4].isdecimal() and int(text[:4]) in _YEARS for text in texts)
    types = moments(texts, _KEY_FORMATS, ("%Y%m%d", "%Y-%m-%d")) if plausible else []
    return KeyPart(type=types[0][0], options=types[0][1]) if types else None


def _number(texts: Sequence[str]) -> KeyPart | None:
    """A number; with a format, if it is filled up with zeros."""
    if not all(map(_DIGITS.fullmatch, texts)):
        return None
    widths = {len(text) for text in texts}
    width = widths.pop() if len(widths) == 1 else 0
    if any(text[0] == "0" and text != "0" for text in texts):
        return KeyPart(type="int", format=f"0{width}") if 1 < width <= _MOST_DIGITS else None
    if width > 1 and len({*texts}) > 1:
        return KeyPart(why=f"{width} digits; as a number, it would have no range")
    return KeyPart(type="int") if max(map(len, texts)) <= _MOST_DIGITS else None


def _by_width(keys: Sequence[str]) -> tuple[KeyPart, ...]:
    """The parts of keys without separators: a number of fixed width and a time; empty if they are others."""
    for size, find in _TAILS:
        head = {len(key) - size for key in keys}
        part = find([key[-size:] for key in keys])
        if part is None or len(head) > 1 or not 0 < min(head) <= _MOST_DIGITS:
            continue
        heads = tuple(key[:-size] for key in keys)
        if all(map(_DIGITS.fullmatch, heads)):
            tail = evolve(part, word="day" if part.type == "date" else "at", values=tuple(k[-size:] for k in keys))
            return KeyPart(type="int", format=f"0{min(head)}", values=heads), KeyPart(""), tail
    return ()


def fixed_width(keys: Sequence[str]) -> str:
    """What keys that are one text seem to consist of, for a comment; "" if nothing is seen in them."""
    width = len(keys[0])
    if any(len(key) != width for key in keys) or len({*keys}) == 1:
        return ""
    for size, find in _TAILS:
        if width > size and (part := find([key[-size:] for key in keys])) is not None:
            noun = "a day" if part.type == "date" else "a time in milliseconds"
            return f"{width} characters each; the last {size} are {noun}"
    kinds = {tuple(map(_kind, key)) for key in keys}
    if len(kinds) == 1 and len({*next(iter(kinds))}) > 1:
        return f"{width} characters each, with letters and digits at the same places"
    return ""


_TAILS: Final[tuple[tuple[int, Callable[[Sequence[str]], KeyPart | None]], ...]] = ((8, _moment), (13, _epoch))
"""How many characters at the end of keys are a day, or a time in milliseconds."""


def _kind(character: str) -> str:
    return "9" if character.isdecimal() else "a" if character.isalpha() else character
