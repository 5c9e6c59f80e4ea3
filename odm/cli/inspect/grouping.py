"""The items of a table → the types of items in it: by an attribute that names the type, or by the form of keys.

Items whose keys have the same separators are of one type, unless a word in the keys divides them: the word that begins
a key, or follows a value in it, if there are few; or any word by which the attributes of the items differ. A word that
does neither is a value: a make, a state, a colour.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import combinations
from typing import Final

from msgspec import Struct
from msgspec.structs import replace as evolve

from odm.cli.inspect.facts import Attributes, TableFacts
from odm.cli.inspect.origins import words_in
from odm.cli.inspect.texts import MOST_TYPES, Words, is_constant, is_word, prefixes_of, words_of

_TAGS: Final = frozenset(
    {
        *("entitytype", "entity", "type", "itemtype", "kind", "typename", "t", "et", "model", "recordtype"),
        *("objecttype", "edbe", "clsname", "cls"),
    }
)
_MOST_KINDS: Final = 50
_ALIKE: Final = 0.5
"""Two sets of attributes with a larger share in common are those of one type."""

_LONG: Final = 3
"""The least characters of a value with separators that is looked for in keys."""


class ItemGroup(Struct, frozen=True):
    """Items of one type.

    Attributes:
        name: a name for the type.
        tag: the value of the attribute that names it; None: there is none.
        items: their positions in the sample.
        match: the attribute that only these items have, if nothing else distinguishes them from others; "": none.
    """

    name: str
    tag: str | None
    items: tuple[int, ...]
    match: str = ""


class Keys(Struct, frozen=True, dict=True):
    """The key attributes of a sample, divided into words.

    Attributes:
        facts: the table.
    """

    facts: TableFacts

    @cached_property
    def _prefixes(self) -> Mapping[str, frozenset[str]]:
        names = {*self.facts.keys, *(name for index in self.facts.indexes.values() for name in index.names)}
        return {name: prefixes_of(i[name]["S"] for i in self.facts.items if "S" in i.get(name, ())) for name in names}

    def words(self, at: int, attribute: str) -> Words | None:
        """The words of a key attribute of an item; None if it has none that is text."""
        item = self.facts.items[at]
        text = item.get(attribute, {}).get("S")
        if text is None:
            return None
        divided = words_of(text, self._prefixes.get(attribute, ()))
        if len(divided) < 2:
            return divided
        labelled = [part for word in divided for part in _labelled(word, item)]
        if len(labelled) > len(divided):
            return tuple(labelled)
        # A value with separators in it, such as a path, is one word where an attribute has all of it.
        whole = {
            value["S"]
            for name, value in item.items()
            if name not in self._prefixes
            and "S" in value
            and len(value["S"]) >= _LONG
            and len(words_of(value["S"])) > 1
        }
        return words_of(text, self._prefixes.get(attribute, ()), whole)


def _labelled(word: str, item: Attributes) -> tuple[str, ...]:
    """A word such as ``country_usa`` in parts, if the item has an attribute of that name and value."""
    label, mark, value = word.partition("_")
    named = item.get(label, {})
    return (label, mark, value) if value and value in (named.get("S"), named.get("N")) else (word,)


def group_items(keys: Keys) -> tuple[str | None, list[ItemGroup]]:
    """The attribute that names the type of each item, if there is one, and the items of each type."""
    facts = keys.facts
    forms = _Forms(keys)
    for tag in _tags(facts):
        by_tag: dict[str, list[int]] = defaultdict(list)
        for at, item in enumerate(facts.items):
            by_tag[item[tag]["S"]].append(at)
        if forms.differ(list(by_tag), list(by_tag.values())):
            return tag, [ItemGroup(name, name, tuple(rows)) for name, rows in sorted(by_tag.items())]
    groups = forms.groups()
    if len(groups) == 1:
        return None, [ItemGroup(facts.name, None, tuple(groups[0]))]
    return None, _named(facts.name, [(forms.fixed(rows), rows) for rows in groups])


def halves(facts: TableFacts, group: ItemGroup) -> list[ItemGroup]:
    """A group as two, if its items are of two types that have no attribute in common but those of keys."""
    sets = _attributes(facts, group)
    mine = set(next((names for names in sets if names), ()))
    while more := {name for names in sets if names & mine for name in names} - mine:
        mine |= more
    own = tuple(at for at, names in zip(group.items, sets, strict=True) if names & mine)
    others = tuple(at for at in group.items if at not in {*own})
    parts = matched(facts, evolve(group, items=own), evolve(group, items=others))
    return [evolve(part, name=f"{group.name} {part.match}") for part in parts] or [group]


def matched(facts: TableFacts, *groups: ItemGroup) -> list[ItemGroup]:
    """Two groups, each with an attribute that all of its items have and none of the other has; empty if there is none.

    Few items are not enough evidence.
    """
    if min(len(group.items) for group in groups) < _FEW:
        return []
    every = [_attributes(facts, group) for group in groups]
    own = [sorted(frozenset.intersection(*sets).difference(*others)) for sets, others in (every, every[::-1])]
    if not all(own):
        return []
    return [evolve(group, match=names[0]) for group, names in zip(groups, own, strict=True)]


def _attributes(facts: TableFacts, group: ItemGroup) -> list[frozenset[str]]:
    """The attributes of each item but those of keys."""
    keys = {*facts.keys, *(key for index in facts.indexes.values() for key in index.names)}
    return [frozenset(facts.items[at]) - keys for at in group.items]


_FEW: Final = 2
"""Fewer items do not show that they are of a type of their own."""


def merged(keys: Keys, groups: Sequence[ItemGroup], which: Sequence[int]) -> list[ItemGroup]:
    """The groups, with these as one."""
    forms, name = _Forms(keys), keys.facts.name
    items = [group.items for number, group in enumerate(groups) if number not in which]
    items.append(tuple(sorted(at for number in which for at in groups[number].items)))
    if len(items) == 1 and not any(forms.fixed(items[0])):
        return [ItemGroup(name, None, items[0])]
    return _named(name, [(forms.fixed(rows), rows) for rows in items])


def _tags(facts: TableFacts) -> list[str]:
    """The attributes whose names say that they name the type of an item, and whose values may."""
    keys = {*facts.keys, *(key for index in facts.indexes.values() for key in index.names)}
    everywhere = set.intersection(*(set(item) for item in facts.items)) - keys if facts.items else set()
    tags = []
    for name in sorted(everywhere):
        if "".join(filter(str.isalpha, name)).lower() not in _TAGS:
            continue
        values = [item[name].get("S") for item in facts.items]
        if all(values) and len({*values}) <= min(_MOST_KINDS, max(1, len(values) - 1)):
            tags.append(name)
    return tags


def _alike(first: frozenset[str], second: frozenset[str]) -> bool:
    return len(first & second) > _ALIKE * min(len(first), len(second)) or not (first and second)


class _Forms(Struct, frozen=True, dict=True):
    keys: Keys

    @cached_property
    def _words(self) -> list[tuple[Words, ...]]:
        """The words of the key attributes of each item; a number and bytes are one, which names nothing."""
        names, items = self.keys.facts.keys, self.keys.facts.items
        return [tuple(self.keys.words(at, name) or ("0",) for name in names) for at in range(len(items))]

    @cached_property
    def _sets(self) -> list[frozenset[str]]:
        facts = self.keys.facts
        names = {*facts.keys, *(name for index in facts.indexes.values() for name in index.names)}
        return [frozenset(item.keys() - names) for item in facts.items]

    def _held(self, rows: Iterable[int]) -> frozenset[str]:
        return frozenset[str]().union(*(self._sets[row] for row in rows))

    def groups(self) -> list[list[int]]:
        """The items of each form of keys."""
        by_marks: dict[tuple[Words, ...], list[int]] = defaultdict(list)
        for at in range(len(self._words)):
            by_marks[self._marks(at)].append(at)
        return [group for rows in by_marks.values() for group in self._divided(rows, 0)]

    def _divided(self, rows: list[int], start: int) -> list[list[int]]:
        places = [(key, at) for key, words in enumerate(self._words[rows[0]]) for at in range(0, len(words), 2)]
        for number, (key, at) in enumerate(places[start:], start=start):
            parts = self._parts(rows, key, at)
            if len(parts) > 1:
                return [group for part in parts for group in self._divided(part, number + 1)]
        return [rows]

    def _parts(self, rows: list[int], key: int, at: int) -> list[list[int]]:
        """The items by their word at a place, if it divides them."""
        by_word: dict[str, list[int]] = defaultdict(list)
        for row in rows:
            by_word[self._words[row][key][at]].append(row)
        words = [word for word in by_word if is_word(word)]
        if len(by_word) == 1 or not words:
            return [rows]
        apart = words if self._names_types(rows, key, at, by_word) else self._unlike(by_word, words)
        others = [row for word, its in by_word.items() if word not in apart for row in its]
        return [*(by_word[word] for word in apart), *([sorted(others)] if others else [])]

    def _names_types(self, rows: list[int], key: int, at: int, by_word: Mapping[str, list[int]]) -> bool:
        """Whether the words at a place name types by where they stand: in front of a value, or behind one."""
        length = len(self._words[rows[0]][key])
        if length == 1 or len(by_word) > MOST_TYPES or not all(map(is_word, by_word)):
            return False
        before = {self._words[row][key][at - 2] for row in rows} if at else set()
        if at and not (at == length - 1 and not all(map(is_word, before))):
            return False
        plain = all(any(map(str.isdecimal, self._words[row][key][at + 2])) for row in rows) if at == 0 else True
        return plain or len(rows) >= 2 * len(by_word) or all(map(str.isupper, by_word))

    def _unlike(self, by_word: Mapping[str, list[int]], words: Sequence[str]) -> list[str]:
        """The words whose items have other attributes than those of all other words."""
        clusters: list[tuple[list[str], frozenset[str]]] = []
        for word, rows in by_word.items():
            held = self._held(rows)
            near = next((at for at, (_, its) in enumerate(clusters) if _alike(its, held)), None)
            if near is None:
                clusters.append(([word], held))
            else:
                clusters[near] = ([*clusters[near][0], word], clusters[near][1] | held)
        constants = [its[0] for its, _ in clusters if len(its) == 1 and its[0] in words]
        constants += [word for word in words if is_constant(word) and word not in constants]
        return constants if len(constants) <= MOST_TYPES else []

    def differ(self, tags: Sequence[str], by_tag: Sequence[Sequence[int]]) -> bool:
        """Whether the items of each value of a tag differ from those of all others: in their keys or attributes.

        Many values that show in the keys as one word each, and in nothing else, are values like any others.
        """
        forms = [(self._marks(rows[0]), self.fixed(rows)) for rows in by_tag]
        held = [self._held(rows) for rows in by_tag]
        pairs = list(combinations(range(len(by_tag)), 2))
        alike = {pair for pair in pairs if _alike(held[pair[0]], held[pair[1]])}
        if any(forms[first] == forms[second] for first, second in alike):
            return False
        if len(by_tag) == 1:  # all are of one kind: the tag is one if the keys name it too
            return not {*words_in(tags[0])}.isdisjoint(word for key in forms[0][1] for w in key for word in words_in(w))
        by_word = all(forms[first][0] == forms[second][0] for first, second in alike)
        return not (len(by_tag) > MOST_TYPES and len(alike) == len(pairs) and by_word)

    def _marks(self, row: int) -> tuple[Words, ...]:
        """The separators in the keys of an item."""
        return tuple(("", *words[1::2]) for words in self._words[row])

    def fixed(self, rows: Sequence[int]) -> list[list[str]]:
        """For each key attribute, the words that all these items have."""
        return [
            [texts[0] for texts in [*zip(*keys, strict=False)][::2] if len({*texts}) == 1 and is_word(texts[0])]
            for keys in zip(*(self._words[row] for row in rows), strict=True)
        ]


def _named(table: str, groups: Iterable[tuple[list[list[str]], Sequence[int]]]) -> list[ItemGroup]:
    """Groups with the names that the words of their keys suggest."""
    by_name: dict[str, Sequence[int]] = {}
    for fixed, rows in groups:
        name = next((name for name in _names(table, fixed) if name not in by_name), "")
        number = 2
        while not name or name in by_name:
            name, number = f"{next(_names(table, fixed))} {number}", number + 1
        by_name[name] = rows
    return [ItemGroup(name, None, tuple(rows)) for name, rows in sorted(by_name.items())]


def _names(table: str, fixed: list[list[str]]) -> Iterator[str]:
    words = [word.strip("\"'$# ") for key in reversed(fixed) for word in reversed(key)]
    own = [word for word in words if not is_constant(word)]
    yield from (word for word in own if len(word) > 2)
    if fixed[0]:
        yield from (f"{fixed[0][0]} {word}" for word in words if word != fixed[0][0])
    yield from own
    yield from words
    yield table


def texts_of(item: Attributes, attribute: str) -> set[str]:
    """The texts of an item's other attributes."""
    return {value["S"] for name, value in item.items() if name != attribute and "S" in value}
