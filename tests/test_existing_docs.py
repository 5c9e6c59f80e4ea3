"""The pages on existing tables: their examples run against moto and Google's emulator, next to the vendors' clients."""

from typing import Any

import pytest
from moto import mock_aws

from tests.test_readme import ROOT, examples, run


@pytest.mark.parametrize(
    "page", ["existing_tables", "coming_from_boto3", "coming_from_electrodb", "coming_from_pynamodb"]
)
def test_examples_run_and_print_what_the_page_shows(
    page: str, bigtable_emulator: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BIGTABLE_EMULATOR_HOST", bigtable_emulator)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "key")
    names: dict[str, Any] = {"__name__": "__main__"}
    with mock_aws():
        run(examples(ROOT / "docs" / f"{page}.md"), names)
        names["db"].close()
        if "quotes" in names:
            names["quotes"].drop()
            names["quotes"].close()
            names["client"].close()


def test_pynamodb_reads_what_odm_writes_and_the_other_way_round(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "key")
    names: dict[str, Any] = {"__name__": "__main__"}
    with mock_aws():
        run(examples(ROOT / "docs" / "coming_from_pynamodb.md"), names)
        old, new, db, noon = (names[name] for name in ("OldThread", "Thread", "db", "noon"))
        old("java", 1, author="cy", posted=noon, views=3, tags={"a", "b"}).save()
        stored = old.get("java", 1).to_dynamodb_dict()
        thread = db.one(new, forum="java", number=1)
        db.delete(thread)
        db.put(thread)
        again = old.get("java", 1).to_dynamodb_dict()
        assert {**again, "tags": {"SS": sorted(again["tags"]["SS"])}} == {**stored, "tags": {"SS": ["a", "b"]}}
        db.close()
