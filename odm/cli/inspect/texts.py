"""Texts of keys → words: which are the same in all items of a type, and which are values."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable
from typing import Final, TypeAlias

Words: TypeAlias = tuple[str, ...]
"""A key in parts: words at even positions, with the separators between them. A word may be empty."""

_TIME: Final = r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?"
_URL: Final = r"https?://[^\s#|]+"
_EMAIL: Final = r"[^\s#|:/~^@]+@[^\s#|:/~^@]+\.[A-Za-z]{2,}"
_PART: Final = re.compile(rf"({_TIME}|{_URL}|{_EMAIL})|([#|:/~^@])|([^#|:/~^@]+)", re.ASCII)
_MARKED: Final = re.compile(r"""^["'$#]|["'$#]$""")
_WORD: Final = re.compile(r"""(?=[^A-Za-z]*[A-Za-z])["'$_A-Za-z -]+""", re.ASCII)
"""Words with a letter. It looks for the letter first: any other order takes the square of the time for a long word."""
_VERSIONED: Final = re.compile(r"\$[A-Za-z][A-Za-z_-]*_[0-9]+", re.ASCII)
"""The name and version of an entity, as ElectroDB writes them."""

_PREFIX: Final = re.compile(r"([A-Za-z]{3,32}[_.-])(?=.)", re.ASCII)
_CONSTANT: Final = frozenset(
    {"meta", "metadata", "info", "profile", "detail", "details", "settings", "config", "state", "count", "root", "self"}
)
MOST_TYPES: Final = 8
"""With more words at one place, the words are values, unless the items differ by them."""


def words_of(text: str, prefixes: Collection[str] = (), whole: Collection[str] = ()) -> Words:
    """A key in words and separators; a time, an address and a URL are one word. The first and the last may be empty.

    Args:
        text: the key.
        prefixes: words with a separator of another kind, ``USER_``, that begin keys; see `prefixes_of`.
        whole: values with separators in them, which are one word where they end the key.
    """
    tail = max((ending for ending in whole if _ends(text, ending)), key=len, default=None)
    if tail is not None and len(tail) < len(text):
        head = words_of(text[: -len(tail)])
        return (*head[:-1], tail) if head[-1] == "" else (text,)
    if tail is not None:
        return (text,)
    words: list[str] = [""]
    for part in _PART.finditer(text):
        if part[2]:
            words += [part[2], ""]
        else:
            words[-1] += part[0]
    if len(words) == 1 and (begins := _PREFIX.match(text)) and begins[1] in prefixes:
        return begins[1][:-1], begins[1][-1], text[begins.end() :]
    return tuple(words)


def _ends(text: str, value: str) -> bool:
    return text.endswith(value) and (len(text) == len(value) or text[-len(value) - 1] in "#|:/~^@")


def prefixes_of(texts: Iterable[str]) -> frozenset[str]:
    """The words that begin keys without a usual separator, with theirs: ``USER_``.

    There are few, each is in front of several values, and it is in capitals or in front of digits: a name such as
    ``mary-ann`` has no such word.
    """
    tails: dict[str, set[str]] = defaultdict(set)
    for text in texts:
        if (begins := _PREFIX.match(text)) and len(words_of(text)) == 1:
            tails[begins[1]].add(text[begins.end() :])
    prefixes = {
        head
        for head, its in tails.items()
        if len(its) > 1 and (head.isupper() or all(any(map(str.isdecimal, tail)) for tail in its))
    }
    return frozenset(prefixes if len(prefixes) <= MOST_TYPES else ())


def is_word(text: str) -> bool:
    """Whether a text could be a fixed part of keys."""
    return _WORD.fullmatch(text) is not None or _VERSIONED.fullmatch(text) is not None


def is_constant(text: str) -> bool:
    """Whether a text is one that stands for the item itself, such as ``#META#``."""
    return text.strip("\"'$#").lower() in _CONSTANT or (is_word(text) and _MARKED.search(text) is not None)


def _is_fixed(words: Words, at: int, *, alone: bool, repeated: bool, known: Collection[str]) -> bool:
    """Whether a word that is the same in all items of a type looks like a fixed part of their keys.

    Args:
        words: the key.
        at: the position of the word.
        alone: it is the only word, with separators around it, as in ``#META#``.
        repeated: the same text is the key of items under several partition keys.
        known: the values of other attributes that the word may be.
    """
    word = words[at]
    if not word:
        return True
    if not is_word(word) or (word in known and at > 0):
        return False
    if len(words) == 1:
        return word not in known and (repeated or is_constant(word))
    return alone or at < len(words) - 1 or len(words) >= 5


def form_of(words: Words, same: Collection[int], *, repeated: bool, known: Collection[str] = ()) -> Words:
    """The form of keys: ``{}`` stands for a value.

    Args:
        words: one of the keys.
        same: the positions of words that are the same in all keys.
        repeated: the same text is the key of items under several partition keys.
        known: the values of other attributes that a word may be.
    """
    alone = "" in words[::2] and sum(map(bool, words[::2])) == 1
    fixed = {at for at in same if at % 2 or _is_fixed(words, at, alone=alone, repeated=repeated, known=known)}
    return tuple(word if at % 2 or at in fixed else "{}" for at, word in enumerate(words))


def positions_alike(keys: Collection[Words]) -> frozenset[int] | None:
    """The positions at which keys have the same word; None if their separators differ."""
    if len({len(words) for words in keys}) != 1 or len({words[1::2] for words in keys}) != 1:
        return None
    return frozenset(at for at, texts in enumerate(zip(*keys, strict=True)) if len({*texts}) == 1)


def values_in(form: Words, words: Words) -> tuple[str, ...]:
    """The values of a key, in order."""
    return tuple(word for word, part in zip(words, form, strict=True) if part == "{}")
