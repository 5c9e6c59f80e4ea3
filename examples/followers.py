"""Followers and friends, many to many: whom a user follows, and who follows them, by date.

An edge is one item with an index entry for each end, so one write changes both ends, and none of them can be left
without the other. On DynamoDB a query of an end may be late, as those of any global index, usually by less than a
second. Removing a user removes all of their edges.
"""

import tempfile
from datetime import UTC, datetime
from pathlib import Path

from odm import Backend, Entity, PrimaryKey, Store, Table, set_
from odm.backends.local import LocalFile
from odm.patterns.adjacency_list import AdjacencyList, edge

social = Table("followers")


class User(Entity, table=social):
    """A node."""

    user_id: str
    name: str

    primary = PrimaryKey("USER#{user_id}", "PROFILE")


class Follows(Entity, table=social):
    """An edge, with its own attributes."""

    follower: str
    followed: str
    since: datetime
    muted: bool = False

    primary, out, into = edge("USER#{follower}", "FOLLOWS", "USER#{followed}", sort="{since}")


network = AdjacencyList(User, Follows)


def on(day: int, follower: str, followed: str) -> Follows:
    """An edge that began on a day in May 2026."""
    return Follows(follower=follower, followed=followed, since=datetime(2026, 5, day, tzinfo=UTC))


def friends(db: Store, user_id: str) -> set[str]:
    """Those who follow and are followed: two requests."""
    followers = {one.follower for one in db.query(Follows.into(followed=user_id))}
    return followers & {one.followed for one in db.query(Follows.out(follower=user_id))}


def main(backend: Backend) -> dict[str, list[str]]:
    """Let four users follow one another, and remove an edge, then a user."""
    with Store(social, backend) as db:
        db.create()
        for user_id, name in (("ana", "Ana #1"), ("bo", "Bo"), ("cy", "Cy"), ("di", "Di")):
            db.put(User(user_id=user_id, name=name))
        for one in (on(1, "ana", "cy"), on(2, "ana", "bo"), on(3, "bo", "ana"), on(4, "cy", "bo"), on(5, "di", "ana")):
            db.put(one)

        answers = {
            "Ana follows": [user.name for _, user in db.run(network.neighbours(Follows.out(follower="ana")))],
            "Ana's followers": [user.name for _, user in db.run(network.neighbours(Follows.into(followed="ana")))],
            "friends of Ana": sorted(friends(db, "ana")),
        }
        assert answers == {"Ana follows": ["Cy", "Bo"], "Ana's followers": ["Bo", "Di"], "friends of Ana": ["bo"]}

        db.update(Follows.primary(follower="ana", followed="cy"), set_(Follows.since, on(9, "ana", "cy").since))
        db.update(Follows.primary(follower="ana", followed="bo"), set_(Follows.muted, True))
        edges = db.query(Follows.out(follower="ana"))
        answers["Ana follows, Cy again"] = [one.followed + " (muted)" * one.muted for one in edges]
        db.delete(Follows, follower="bo", followed="ana")
        answers["friends of Ana, without Bo"] = sorted(friends(db, "ana"))
        assert list(answers.values())[3:] == [["bo (muted)", "cy"], []]

        assert db.run(network.remove_node(User.primary(user_id="ana")))
        answers["edges without Ana"] = [f"{one.follower} → {one.followed}" for one in db.scan(Follows)]
        assert answers["edges without Ana"] == ["cy → bo"]
    return answers


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        for question, answer in main(LocalFile(Path(folder, "followers.db"))).items():
            print(f"{question}: {', '.join(answer)}")
