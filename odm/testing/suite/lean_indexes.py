"""Indexes that do not project whole items: queries return the same results as with any other index."""
# ruff: noqa: D101  # a test's name says what it shows; its data is never changed

from odm import Store, increment, select, set_, some
from odm.testing.capabilities import needs
from odm.testing.spreading import Report
from odm.testing.suite.helpers import FUTURE, PAST, fill, walk

REPORTS = [
    Report(report_id=f"r{n}", number=n, score=n % 4, body="long" * n, until=FUTURE if n % 2 else None)
    for n in range(12)
]
EXPIRED = Report(report_id="old", number=5, until=PAST)
BY_TEAM = Report.by_team(team="t")
BY_SCORE = Report.by_score(team="t")


@needs("indexes")
class TestLeanIndexes:
    def test_give_whole_items_in_order(self, lean: Store) -> None:
        other = Report(report_id="x", team="u", number=99)
        fill(lean, [*REPORTS, other, EXPIRED])
        assert list(lean.query(BY_TEAM)) == REPORTS
        assert list(lean.query(BY_TEAM.reverse().limit(3))) == REPORTS[:8:-1]
        assert list(lean.query(BY_SCORE)) == sorted(REPORTS, key=lambda report: report.score)
        assert list(lean.query(Report.spread())) == [*REPORTS, other]
        assert list(lean.query(Report.by_number(report_id="r3"))) == [REPORTS[3]]
        assert lean.first(Report.by_team(team="t", number=7)) == REPORTS[7]
        assert list(lean.query(Report.by_team(team="nobody"))) == []

    def test_judge_filters_on_what_they_lack(self, lean: Store) -> None:
        fill(lean, [*REPORTS, EXPIRED])
        for pattern in (BY_TEAM, BY_SCORE, Report.spread()):
            short = pattern.where(Report.body == "longlong")
            assert list(lean.query(short)) == [REPORTS[2]]
            assert lean.count(short) == 1
            assert list(lean.query(pattern.where(some(Report.until) == FUTURE).limit(2))) != []
        high = BY_SCORE.where(Report.score >= 2)
        assert lean.count(high) == 6
        assert lean.count(BY_TEAM.where(Report.score >= 2)) == 6
        assert lean.count(BY_TEAM.where(Report.score >= 2).limit(4)) == 4
        assert lean.count(BY_TEAM) == lean.count(BY_SCORE) == 12

    def test_pages(self, lean: Store) -> None:
        fill(lean, [*REPORTS, EXPIRED])
        odd = BY_TEAM.where(Report.body != "", Report.score > 1)
        for size in (1, 5, 12):
            assert [r for page in walk(lean, BY_TEAM, size) for r in page] == REPORTS
            assert [r for page in walk(lean, BY_TEAM.reverse(), size) for r in page] == REPORTS[::-1]
            assert [r.number for page in walk(lean, odd, size) for r in page] == [2, 3, 6, 7, 10, 11]

    def test_more_than_are_fetched_at_once(self, lean: Store) -> None:
        many = fill(lean, [Report(report_id=f"r{n}", number=n, score=n % 2) for n in range(230)])
        assert list(lean.query(BY_TEAM)) == many
        assert list(lean.query(BY_SCORE.where(Report.body == ""))) == many[::2] + many[1::2]
        late = BY_TEAM.where(Report.number > 110).limit(105)
        assert [report.number for report in lean.query(late)] == [*range(111, 216)]
        assert lean.count(BY_TEAM) == 230

    def test_writes_keep_them_right(self, lean: Store) -> None:
        fill(lean, REPORTS[:2])
        moved = lean.update(REPORTS[0], set_(Report.team, "u"), increment(Report.score), returning="new")
        assert list(lean.query(BY_TEAM)) == [REPORTS[1]]
        assert list(lean.query(Report.by_score(team="u"))) == [moved]
        lean.delete(REPORTS[1])
        assert list(lean.query(BY_TEAM)) == []

    def test_explain_says_that_items_are_fetched(self, lean: Store) -> None:
        assert "fetched by key" in lean.explain(BY_TEAM).note
        assert "holds number, s next to keys" in lean.explain(BY_SCORE).note
        assert lean.explain(select(Report).where(Report.report_id == "r1")).note == ""
