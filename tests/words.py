"""Words that readers stumbled over, and what to write instead: ``python -m tests.words [file or folder ...]``.

Prose is what people read: pages, comments, docstrings, and string literals of three words or more (error messages, help
texts). Names in code are not looked at.
"""

import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
OWN: Final = frozenset({"words", "test_words"})
"""Files that must name the words."""

INSTEAD: Final = {
    r"can not": "cannot",
    r"mend(?:s|ed|ing)?": "fix",
    r"(?:both|either|other|each|one) colours?": "sync and async",
    r"strand(?:s|ed|ing)?": "orphan",
    r"tell(?:s|ing)? apart|told apart": "distinguish",
    r"tells?(?![:`=])|telling|told": "report, return, say",
    r"beside": "next to",
    r"aside from": "except",
    r"(?<!there )(?:is|are|was|were) none": "is not one",
    r"(?<!there )(?<!There )(?:is|was) no(?= [a-z])(?! longer| more| less)": "is not a",
    r"(?<!\{)moments?": "timestamp, instant",
    r"(?:go|goes|went|going) along|along with": "is written with, with",
    r"(?:go|goes|went|going) before": "take precedence over",
    r"silenced?|silences": "suppress",
    r"(?:come|comes|came|had) by": "get, obtain",
    r"in the way of": "prevent",
    r"as it was(?! read| judged| sent| given)": "the previous item",
    r"as (?:it is|they are) stored": "the stored item",
    r"(?:write|put|delete|update|insert|it) (?:is|was) (?:not )?done": "applied",
    r"(?:no|more|free|the|enough) room|room (?:on|for|in)": "space",
    r"whoever|whosoever|whatsoever": "the caller, any program that",
    r"for ever": "forever",
    r"hand(?:s|ed)? back": "return",
    r"undone": "unprocessed, not applied",
    r"never rests?": "does not end",
    r"hears? of|hears? from": "receive, is notified of",
    r"weigh(?:s|ed|ing)?": "size, measure",
    r"speaks? of": "describe",
    r"anew": "again",
    r"thereof|therein|thereby|hereby|whereof|wherein|whereby|thereto": "a plain sentence",
    r"in vain": "without effect",
    r"lest": "so that ... not",
    r"merely": "only",
    r"somebody else|somebody": "another writer, another program",
    r"made good": "fixed, completed",
}
"""What to look for, and what to write instead."""

_WORDS: Final = re.compile("|".join(rf"(?P<w{at}>\b(?:{words})\b)" for at, words in enumerate(INSTEAD)))
_ANY: Final = re.compile(rf"\b(?:{'|'.join(INSTEAD)})\b")
"""The same without what to write instead, which is ten times as fast; most files have none."""

_ADVICE: Final = tuple(INSTEAD.values())


def prose(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a file that people read, with their numbers."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        yield from enumerate(text.splitlines(), 1)
        return
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        literal = tokenize.tok_name[token.type] in {"STRING", "FSTRING_MIDDLE"} and token.string.count(" ") > 1
        if literal or token.type == tokenize.COMMENT:
            yield from enumerate(token.string.splitlines(), token.start[0])


def found(path: Path) -> Iterator[str]:
    """A line for each word to replace."""
    if not _ANY.search(path.read_text(encoding="utf-8")):
        return
    for number, line in prose(path):
        for match in _WORDS.finditer(line):
            advice = _ADVICE[int(str(match.lastgroup)[1:])]
            yield f"{path.relative_to(ROOT)}:{number}: “{match.group()}”: write {advice}"


def files(under: Iterable[str] = ()) -> list[Path]:
    """The files with prose: Python and Markdown in git, once each, except this one and its test."""
    listed = subprocess.run(["git", "ls-files", *under], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    paths = [ROOT / name for name in listed.splitlines()]
    return [path for path in paths if path.suffix in {".py", ".md"} and path.is_file() and path.stem not in OWN]


def main(under: Sequence[str]) -> int:
    """Print what is to be replaced; the exit code is 1 if there is anything."""
    lines = [line for path in files(under) for line in found(path)]
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
