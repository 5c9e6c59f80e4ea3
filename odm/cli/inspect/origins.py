"""From which attribute a part of a key is made: the names decide.

That an attribute has the values of a part of the key proves nothing: a user is often created by that user, and the
first numbers of everything are 1, 2 and 3. A key that is made of the wrong attribute replaces another item as soon as
the two differ. So an attribute is taken only if its name says so: by the word in front of the part, by the name of the
key attribute, or by that of the entity.
"""

import re
from collections.abc import Collection, Sequence
from typing import Final

from msgspec import Struct

_IDENTIFIERS: Final = (
    *("id", "ids", "uuid", "guid", "ulid", "identifier", "key", "no", "nr", "num", "number", "code", "sku", "slug"),
    *("symbol", "ticker", "handle", "username", "login", "email", "mail", "name", "vin", "isbn", "iban", "arn", "url"),
)
"""Words that say that a value identifies an item, the plainest first."""

_TIMES: Final = frozenset(
    {*("at", "on", "date", "time", "timestamp", "ts", "datetime", "day", "created", "creation", "create", "utc"), "iso"}
)
"""Words that say that a value is the time of an item, which does not change later."""

_SHORT: Final = 3
"""A word with fewer letters is too short for an abbreviation of one name and no other."""

_MOST_SHOWN: Final = 4

_WORDS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")


class Place(Struct, frozen=True):
    """A part of a key.

    Attributes:
        word: the fixed word in front of it; "" if there is none.
        own: it is the part that distinguishes the items of the entity, directly behind its word.
        key: the name of the key attribute; "" if it says nothing, as PK.
        around: the words in the names of the entity and the table.
        timed: its values are times.
    """

    word: str
    own: bool
    key: str
    around: Collection[str]
    timed: bool


def words_in(name: str) -> list[str]:
    """The words of a name, in the singular and in small letters."""
    return [_singular(word.lower()) for word in _WORDS.findall(name)]


def nearness(attribute: str, place: Place) -> tuple[int, int]:
    """How near the name of an attribute is to a part of a key; the first number is 0 if it is not.

    The second number prefers ``user_id`` to ``user_name``.
    """
    whole = words_in(attribute)
    stem = [word for word in whole if word not in _IDENTIFIERS]
    plain = -min((_IDENTIFIERS.index(word) for word in whole if word in _IDENTIFIERS), default=len(_IDENTIFIERS))
    return _near(whole, stem, place), plain


def _near(whole: Sequence[str], stem: Sequence[str], place: Place) -> int:
    word, name, key = words_in(place.word), "".join(stem), words_in(place.key)
    text = "".join(word)
    if text and text in ("".join(whole), name):
        return 6
    if key and {*whole} <= {*key}:
        return 5
    if place.timed and whole and {*whole} - {*word} <= _TIMES:
        return 4
    if not text:
        return 4 if stem and {*stem} <= {*place.around} else 3 * (not stem and place.own)
    if not stem:
        return 3 * place.own
    if len(text) < _SHORT:
        return 2 * (name.startswith(text) and not {*stem}.isdisjoint(place.around))
    return 2 * (_abbreviates(text, stem) or (len(name) >= _SHORT and _abbreviates(name, word)))


def _abbreviates(short: str, name: Sequence[str]) -> bool:
    """Whether a text is the beginning of a name of one word, or letters of it from the first on: cust, acct, txn."""
    if len(name) != 1 or short[0] != name[0][0]:
        return False
    letters, telling = iter(name[0]), len(short) > _SHORT or not {*short} & {*"aeiou"}
    return name[0].startswith(short) or (telling and all(letter in letters for letter in short))


def _singular(word: str) -> str:
    if len(word) > 3 and word.endswith("ies"):
        return f"{word[:-3]}y"
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


def nearest(attributes: Sequence[str], place: Place) -> str | None:
    """The attribute of these whose name is nearest; None if none is near, or two are equally near."""
    ranked = sorted(((nearness(name, place), name) for name in attributes), reverse=True)
    ranked = [candidate for candidate in ranked if candidate[0][0]]
    if not ranked or (len(ranked) > 1 and ranked[0][0] == ranked[1][0]):
        return None
    return ranked[0][1]


def doubt(where: str, taken: str | None, others: Sequence[str], count: int, thing: str) -> str:
    """The comment on a part of a key whose values other attributes have, too.

    Args:
        where: the part.
        taken: the attribute that it is made of; None: it is a field of its own.
        others: the other attributes.
        count: the number of items in the sample.
        thing: what an item is called.
    """
    have = "has" if len(others) == 1 else "have"
    some = ", ".join(others[:_MOST_SHOWN]) + ", …" * (len(others) > _MOST_SHOWN)
    same = (
        f"{some} {have} the same value in {f'all {count} {thing}s' if count > 1 else f'the one {thing}'} of the sample"
    )
    if taken is None:
        return f"{where}: a field of its own, as no name says what it is made of; {same}."
    return f"{where}: taken for {taken}, by its name; {same}."
