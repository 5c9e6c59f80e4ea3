"""Texts of keys → templates: which parts are the same in all items, and which are values."""

import re
from collections.abc import Collection, Sequence
from typing import Final, TypeAlias

Words: TypeAlias = tuple[str, ...]
"""A key in parts: words at even positions, with the separators between them."""

_TIME: Final = r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?"
_PART: Final = re.compile(rf"({_TIME})|([#|:/~^@]+)|([^#|:/~^@]+)", re.ASCII)
_MARKED: Final = re.compile(r"""^["'$#]|["'$#]$""")
_WORD: Final = re.compile(r"""(?=[^A-Za-z]*[A-Za-z])["'$_A-Za-z -]+""", re.ASCII)
"""Words with a letter. It looks for the letter first: any other order takes the square of the time for a long word."""
_CONSTANT: Final = frozenset(
    {"meta", "metadata", "info", "profile", "detail", "details", "settings", "config", "state", "count", "root", "self"}
)


def words_of(text: str) -> Words:
    """A key in words and separators; a time is one word. The first and the last may be empty."""
    words: list[str] = [""]
    for found in _PART.finditer(text):
        if found[2]:
            words += [found[2], ""]
        else:
            words[-1] += found[0]
    return tuple(words)


def _is_literal(words: Words, at: int, *, alone: bool, repeated: bool, known: Collection[str]) -> bool:
    """Whether a word looks like a fixed part of keys.

    Args:
        words: the key.
        at: the position of the word.
        alone: it is the only word, with separators around it.
        repeated: the same text is the key of items under several partition keys.
        known: the values of other attributes, which are not fixed.
    """
    word = words[at]
    if at % 2 or not word:
        return True
    if not _WORD.fullmatch(word) or word in known:
        return False
    if len(words) == 1:
        plain = word.strip("\"'$#").lower()
        return repeated or plain in _CONSTANT or _MARKED.search(word) is not None
    if alone:
        return True  # "#META#"
    last = at == len(words) - 1
    return not last or len(words) >= 5


def form_of(text: str, *, repeated: bool, known: Collection[str] = ()) -> Words:
    """The key with ``{}`` in place of its values.

    Args:
        text: the key.
        repeated: the same text is the key of items under several partition keys.
        known: the values of other attributes, which are not fixed.
    """
    words = words_of(text)
    alone = "" in words[::2] and len([part for part in words[::2] if part]) == 1
    fixed = (_is_literal(words, at, alone=alone, repeated=repeated, known=known) for at in range(len(words)))
    return tuple(word if same else "{}" for word, same in zip(words, fixed, strict=True))


def common_form(texts: Sequence[str], forms: Sequence[Words]) -> Words | None:
    """The form of all keys: words that differ are values; None if the separators differ."""
    split = [words_of(text) for text in texts]
    if len({len(words) for words in split}) > 1 or len({words[1::2] for words in split}) > 1:
        return None
    merged = []
    for at in range(len(split[0])):
        same = len({words[at] for words in split}) == 1 and all(form[at] != "{}" for form in forms)
        merged.append(split[0][at] if same else "{}")
    return tuple(merged)


def values_in(form: Words, text: str) -> tuple[str, ...]:
    """The values of a key, in order."""
    return tuple(word for word, shown in zip(words_of(text), form, strict=True) if shown == "{}")
