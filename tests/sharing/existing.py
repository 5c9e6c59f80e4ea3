"""Models of a table that another program made: keys as they are, key attributes that are fields, its own names.

`models` makes them in several ways: items are known by the form of their keys or by the attribute ``EntityType``, and
keys are texts as they are or escaped.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Annotated, Any, Final, Literal

from attrs import frozen

from odm import (
    TTL,
    AccessPattern,
    Condition,
    Entity,
    PrimaryKey,
    Query,
    Stored,
    Table,
    add_to,
    append,
    between,
    collection,
    contains,
    exists,
    field,
    increment,
    is_in,
    missing,
    not_,
    remove,
    set_,
    size,
    starts_with,
)

NOON: Final = datetime(2100, 1, 5, 12, tzinfo=UTC)
USERS: Final = ("ann", "bo", "a-b")
ROOMS: Final = ("r1", "r2")
GAMES: Final = ("go", "chess")
NUMBERS: Final = (1, 2, 3, 12)
DIGESTS: Final = (b"\0", b"\0\xff", b"\0\xff\x01", b"\x01", b"\xff")
SCORES: Final = (-3, 0, 2, 10, 100)

INDEXES: Final = {
    "ByRoom": ("RoomID", "Created"),
    "ByScore": ("Game", "Score"),
    "ByDigest": ("Game", "Digest"),
    "ByMail": ("Mail",),
    "Inverted": ("SK", "PK"),
    "GSI1": ("GSI1PK", "GSI1SK"),
}


STYLES: Final[dict[Literal["verbatim", "escaped"], dict[str, str]]] = {
    "verbatim": {
        "user": "User:{user}",
        "at": "C_{at:03}",
        "mood": "MOOD {mood}!",
        "mood at": "{at:03}",
        "player": "Player|{player}",
        "round": "{round}_R",
        "number": "DOC/{number}",
    },
    "escaped": {
        "user": "USER#{user}",
        "at": "C#{at}",
        "mood": "MOOD#{mood}",
        "mood at": "{at}",
        "player": "PLAYER#{player}",
        "round": "{round}#R",
        "number": "DOC#{number}",
    },
}
"""Templates."""


@frozen
class Models:
    """The entities of one table."""

    table: Table
    comment: Any
    score: Any
    invoice: Any
    receipt: Any


def models(tag: str | None, style: Literal["verbatim", "escaped"] = "verbatim") -> Models:
    """The models of a table with this tag."""
    table = Table("existing", keys=("PK", "SK"), index_keys=INDEXES, key_style=style, tag=tag, ttl="expires")
    texts = STYLES[style]

    class Comment(Entity, table=table):
        user: str
        at: int
        room: Annotated[str | None, Stored("RoomID")] = None
        created: Annotated[str, Stored("Created")] = "c1"
        mood: str | None = None
        stars: int = 0
        tags: set[str] = set()
        lines: list[str] = []
        expires_at: Annotated[datetime | None, TTL] = None

        primary = PrimaryKey(texts["user"], texts["at"])
        by_room = AccessPattern("{room}", "{created}", index="ByRoom")
        by_at = AccessPattern(texts["at"], texts["user"], index="Inverted")
        by_mood = AccessPattern(texts["mood"], texts["mood at"], index="GSI1")

    class Score(Entity, table=table):
        player: str
        round: int
        game: Annotated[str | None, Stored("Game")] = None
        score: Annotated[int | None, Stored("Score")] = None
        digest: Annotated[bytes | None, Stored("Digest")] = None
        stars: int = 0

        primary = PrimaryKey(texts["player"], texts["round"])
        by_score = AccessPattern("{game}", "{score}", index="ByScore")
        by_digest = AccessPattern("{game}", "{digest}", index="ByDigest")
        by_round = AccessPattern(texts["round"], texts["player"], index="Inverted")

    class Document(Entity):
        user: str
        number: int
        mail: Annotated[str | None, Stored("Mail")] = None
        stars: int = 0

        primary = PrimaryKey(texts["user"], texts["number"])
        by_mail = AccessPattern("{mail}", index="ByMail")
        by_number = AccessPattern(texts["number"], texts["user"], index="Inverted")

    class Invoice(Document, table=table, match=field("kind") == "invoice"):
        kind: Annotated[Literal["invoice"], Stored("Type")] = "invoice"

    class Receipt(Document, table=table, match=field("kind") == "receipt"):
        kind: Annotated[Literal["receipt"], Stored("Type")] = "receipt"

    return Models(table, Comment, Score, Invoice, Receipt)


@frozen
class Picks:
    """Random entities, keys, conditions, actions and queries of the models."""

    of: Models
    random: Random

    def one(self, choices: Any) -> Any:
        return self.random.choice(list(choices))

    def entity(self) -> Any:
        return self.one([self.comment, self.comment, self.score, self.document])()

    def comment(self) -> Any:
        return self.of.comment(
            user=self.one(USERS),
            at=self.one(NUMBERS),
            room=self.one([None, *ROOMS]),
            created=self.one(["c1", "c2"]),
            mood=self.one([None, "fine", "b ad"]),
            stars=self.one([0, 5]),
            tags=self.one([set(), {"x"}, {"x", "y"}]),
            expires_at=self.one([None, None, NOON + timedelta(hours=1)]),
        )

    def score(self) -> Any:
        return self.of.score(
            player=self.one(USERS),
            round=self.one(NUMBERS),
            game=self.one([None, *GAMES]),
            score=self.one([None, *SCORES]),
            digest=self.one([None, *DIGESTS]),
        )

    def document(self) -> Any:
        cls = self.one([self.of.invoice, self.of.receipt])
        return cls(user=self.one(USERS), number=self.one(NUMBERS), mail=self.one([None, "a@b", "#"]))

    def key(self, cls: Any = None) -> Query[Any]:
        of = self.of
        cls = cls or self.one([of.comment, of.comment, of.score, of.invoice, of.receipt])
        if cls is of.comment:
            found: Query[Any] = cls.primary(user=self.one(USERS), at=self.one(NUMBERS))
        elif cls is of.score:
            found = cls.primary(player=self.one(USERS), round=self.one(NUMBERS))
        else:
            found = cls.primary(user=self.one(USERS), number=self.one(NUMBERS))
        return found

    def actions(self, cls: Any) -> list[Any]:
        of = self.of
        found: list[list[Any]] = [[increment(cls.stars)], [set_(cls.stars, 3)], [remove(cls.stars)]]
        if cls is of.comment:
            found += [
                [set_(cls.room, self.one(ROOMS))],
                [set_(cls.room, None)],
                [remove(cls.room)],
                [set_(cls.created, "c2"), increment(cls.stars, 2)],
                [set_(cls.mood, self.one(["fine", "b ad", None]))],
                [remove(cls.mood), set_(cls.room, "r2")],
                [add_to(cls.tags, "n")],
                [append(cls.lines, "l")],
                [set_(cls.expires_at, self.one([None, NOON + timedelta(hours=2)]))],
                [remove(cls.expires_at)],
            ]
        elif cls is of.score:
            found += [
                [set_(cls.score, self.one(SCORES))],
                [increment(cls.score, 2)],
                [set_(cls.game, self.one(GAMES))],
                [remove(cls.game)],
                [set_(cls.score, None), set_(cls.game, "go")],
                [set_(cls.digest, self.one(DIGESTS))],
                [remove(cls.digest), increment(cls.score)],
            ]
        else:
            found += [[set_(cls.mail, "x@y")], [remove(cls.mail)], [set_(cls.mail, None)]]
        return list(self.one(found))

    def condition(self, cls: Any, *, reading: bool, depth: int = 3) -> Any:
        """A condition, of several up to a depth; filters may compare the part of an index key in more ways."""
        kind = self.random.random()
        if depth == 0 or kind < 0.5:
            return self.one(self._conditions(cls, reading=reading))
        one, other = (self.condition(cls, reading=reading, depth=depth - 1) for _ in range(2))
        if kind < 0.65:
            return not_(one)
        return one & other if kind < 0.85 else one | other

    def _conditions(self, cls: Any, *, reading: bool) -> list[Condition]:
        of = self.of
        found = [cls.stars > 1, cls.stars == 0, missing(cls.stars), exists(cls.stars)]
        if cls is of.comment:
            found += [
                cls.user == "ann",
                cls.user != "ann",
                starts_with(cls.user, "a"),
                is_in(cls.user, ["bo", "zed"]),
                exists(cls.user),
                missing(cls.user),
                size(cls.user) > 2,
                contains(cls.user, "-"),
                cls.at > 2,
                between(cls.at, 2, 3),
                (cls.at == 1) & (cls.user == "bo"),
                cls.room == "r1",
                cls.room != "r1",
                cls.room == None,  # noqa: E711
                missing(cls.room),
                cls.created > "c1",
                cls.mood == "fine",
                cls.mood != "fine",
                cls.mood == None,  # noqa: E711
                cls.mood != None,  # noqa: E711
                is_in(cls.mood, ["fine", "sad"]),
                exists(cls.mood),
                missing(cls.mood),
                contains(cls.tags, "x"),
                exists(cls.tags) & (size(cls.tags) > 1),  # moto refuses the size of an absent attribute
                cls.expires_at > NOON,
                missing(cls.expires_at),
                cls.expires_at == NOON + timedelta(hours=1),
            ]
            found += (
                [starts_with(cls.mood, "b"), exists(cls.mood) & (size(cls.mood) > 4), cls.mood > "c"] if reading else []
            )
        elif cls is of.score:
            found += [
                cls.player == "ann",
                cls.round < 3,
                cls.game == "go",
                exists(cls.game),
                cls.score == 2,
                cls.score > 1,
                missing(cls.score),
                between(cls.score, -5, 5),
                cls.digest > b"\0",
                starts_with(cls.digest, b"\0\xff"),
                cls.score == None,  # noqa: E711
            ]
        else:
            found += [cls.user == "ann", cls.number >= 2, cls.mail == "a@b", exists(cls.mail), cls.kind == "invoice"]
        return found

    def query(self) -> tuple[Query[Any], str]:
        """A query, and how its results are ordered: by a key that distinguishes them, or not."""
        of = self.of
        user, room, game, number = self.one(USERS), self.one(ROOMS), self.one(GAMES), self.one(NUMBERS)
        c, s, i = of.comment, of.score, of.invoice
        choices: list[tuple[Any, str, Callable[[], Query[Any]]]] = [
            (c, "all", lambda: c.primary(user=user)),
            (c, "all", lambda: c.primary(user=user, at=number)),
            (c, "all", lambda: c.primary(user=user).where(c.at > number)),
            (c, "all", lambda: c.primary(user=user).where(between(c.at, 2, number))),
            (c, "some", lambda: c.by_room(room=room)),
            (c, "some", lambda: c.by_room(room=room).where(c.created >= "c2")),
            (c, "some", lambda: c.by_room(room=room).where(starts_with(c.created, "c"))),
            (c, "all", lambda: c.by_at(at=number)),
            (c, "all", lambda: c.by_at(at=number).where(starts_with(c.user, "a"))),
            (c, "some", lambda: c.by_mood(mood=self.one(["fine", "b ad"]))),
            (s, "some", lambda: s.by_score(game=game)),
            (s, "some", lambda: s.by_score(game=game).where(s.score > self.one(SCORES))),
            (s, "some", lambda: s.by_score(game=game).where(between(s.score, -1, self.one(SCORES)))),
            (s, "some", lambda: s.by_score(game=game, score=self.one(SCORES))),
            (s, "some", lambda: s.by_digest(game=game)),
            (s, "some", lambda: s.by_digest(game=game).where(starts_with(s.digest, self.one(DIGESTS)))),
            (s, "some", lambda: s.by_digest(game=game).where(s.digest <= self.one(DIGESTS))),
            (s, "all", lambda: s.primary(player=user)),
            (i, "some", lambda: i.by_mail(mail=self.one(["a@b", "#"]))),
            (i, "all", lambda: i.primary(user=user)),
            (of.receipt, "all", lambda: of.receipt.primary(user=user)),
        ]
        cls, order, make = self.one(choices)
        query = make()
        if self.random.random() < 0.5:
            query = query.where(self.condition(cls, reading=True))
        if self.random.random() < 0.3:
            query = query.reverse()
        if self.random.random() < 0.1:
            return collection(c.primary(user=user)), "all"
        return query, order
