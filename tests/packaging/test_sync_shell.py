"""The sync shell is what its generator makes of the async one."""

import pytest

from tests.sync_shell import GENERATED, SOURCE, sync_shell


def test_the_sync_shell_is_generated() -> None:
    assert sync_shell(SOURCE.read_text(encoding="utf-8")) == GENERATED.read_text(encoding="utf-8"), (
        "run python -m tests.sync_shell"
    )


def test_a_text_that_is_gone_is_named() -> None:
    with pytest.raises(ValueError, match=r"asynchronous\.py has no .* any more"):
        sync_shell('"""Another file."""\n')
