"""Game scores: two equally important queries have one access pattern each, so neither needs a filter.

With one key, `GAME#LoL` by day, a query for a player's wins reads the matches of all players and drops most of them.
The second pattern stores each match again in the order of the other query, and odm keeps both copies consistent. (A
game has one match a player and day here; with more, the time of the day would be in the key.)
"""

import tempfile
from datetime import date
from pathlib import Path

from odm import AccessPattern, Backend, Entity, PrimaryKey, Query, Store, Table, between, field
from odm.backends.local import LocalFile

games = Table("games")


class Match(Entity, table=games):
    """What a player did on a day."""

    game: str
    day: date
    player: str
    win: bool
    kda: float

    primary = PrimaryKey("GAME#{game}", "{day}#{player}")
    wins = AccessPattern("WINS#{player}#{game}", "{day}", when=field("win") == True)  # noqa: E712  # a condition


MATCHES = [
    Match(game=game, day=date(2015, 3, day), player=player, win=win, kda=kda)
    for game, day, player, win, kda in (
        ("LoL", 1, "Corrie", False, 4.25),
        ("LoL", 2, "Jo", True, 7.0),
        ("LoL", 2, "Sam", True, 7.0),
        ("LoL", 3, "Corrie", True, 9.5),
        ("Starcraft", 3, "Eriko", True, 6.0),
    )
]


def main(backend: Backend) -> dict[str, list[str]]:
    """Store the matches, run both queries for March 2015, and run the first one on the wrong pattern."""
    march = between(Match.day, date(2015, 3, 1), date(2015, 3, 31))
    wins = Match.wins(player="Corrie", game="LoL").where(march)
    matches = Match.primary(game="LoL").where(march)
    filtered = matches.where(Match.player == "Corrie", Match.win == True)  # noqa: E712
    with Store(games, backend) as db:
        db.create()
        with db.batch() as batch:
            for match in MATCHES:
                batch.put(match)

        def found(query: Query[Match]) -> list[str]:
            return [f"{match.day} {match.player} {match.kda}" for match in db.query(query)]

        assert (db.explain(wins).filter, db.explain(matches).filter) == (None, None)
        assert str(db.explain(filtered).filter) == "player = 'Corrie' and win = True"  # judged on all that was read
        assert found(filtered) == found(wins)
        answers = {"LoL wins of Corrie in March 2015": found(wins), "LoL matches in March 2015": found(matches)}

    assert {question: len(answer) for question, answer in answers.items()} == {
        "LoL wins of Corrie in March 2015": 1,
        "LoL matches in March 2015": 4,
    }
    return answers


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        for question, answer in main(LocalFile(Path(folder, "games.db"))).items():
            print(f"{question}: {', '.join(answer)}")
