"""The prose of the project has none of the words that readers stumbled over: tests/words.py lists them."""

from pathlib import Path

import pytest

from tests import words


def test_no_word_that_readers_stumbled_over_is_left() -> None:
    assert [line for path in words.files() for line in words.found(path)] == []


@pytest.mark.parametrize(
    ("line", "advice"),
    [
        ("# It can not be so.", "cannot"),
        ('raise ValueError("the write is done, as was told")', "applied"),
        ('"""This is no cursor."""', "is not a"),
        ('found = "there is no longer any such item"', None),
        ("told = mend(colour)", None),
    ],
)
def test_only_prose_is_looked_at(
    line: str, advice: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(words, "ROOT", tmp_path)
    path = tmp_path / "one.py"
    path.write_text(f"{line}\n", encoding="utf-8")
    found = list(words.found(path))
    assert any(f"write {advice}" in one for one in found) if advice else found == []
