"""The benchmark of the video page runs, at a size that takes no time, and counts the requests that the docs state."""

import re
import socket
from collections.abc import Iterator
from threading import Thread

import pytest

from benchmarks import relay
from benchmarks.video.__main__ import BENCHMARK, SERVERS, Measured, Server
from benchmarks.video.site import ACTIONS, SHOWN
from tests.readme import README, command

SPEED = README.parent / "docs" / "speed.md"
COMMENTS = 60
"""More than two pages, and more than two batches of DynamoDB."""

TINY = ("--size", "6", "--rounds", "1", "--turn", "0")
WIDE, TALL, DYNOXIDE, LOCAL = SERVERS


@pytest.fixture(params=[WIDE, TALL, DYNOXIDE, pytest.param(LOCAL, marks=pytest.mark.full)], ids=lambda each: each.name)
def server(request: pytest.FixtureRequest) -> Server:
    found: Server = request.param
    return found


@pytest.fixture
def measured(server: Server, request: pytest.FixtureRequest) -> Iterator[Measured]:
    of = {WIDE: "bigtable_emulator", TALL: "bigtable_emulator", DYNOXIDE: "dynoxide", LOCAL: "dynamodb_local"}
    with server.at(request.getfixturevalue(of[server]), COMMENTS) as found:
        yield found


@pytest.mark.full
def test_the_requests_and_bytes_of_each_action(server: Server, measured: Measured) -> None:
    counted = {name: measured.counted(action) for name, action in ACTIONS.items()}
    batches = 3  # of at most 25 items
    delete = 2 if server in (WIDE, TALL) else 1 + batches
    assert {name: calls for name, (calls, _) in counted.items()} == {
        "load": 1,
        "more": 1,
        "add": 1,
        "view": 1,
        "delete": delete,
    }
    text = len(measured.direct.comment(0).text)
    sizes = {name: size for name, (_, size) in counted.items()}
    assert sizes["load"] > SHOWN * text
    assert sizes["more"] > SHOWN * text
    assert 100 < sizes["view"] < sizes["add"] < sizes["load"]


def test_a_site_that_loses_a_comment_is_not_measured(bigtable_emulator: str) -> None:
    with WIDE.at(bigtable_emulator, 3) as found:
        site = found.direct
        site.comments = 4
        check, fill = site.check, site.fill

        def forgetful(video_id: str) -> str:
            filled = fill(video_id)
            site.db.delete(site.comment(2, video_id))
            return filled

        site.fill = forgetful  # type: ignore[method-assign]
        with pytest.raises(AssertionError):
            check()


@pytest.mark.full
def test_a_run_prints_calls_bytes_and_times(capsys: pytest.CaptureFixture[str]) -> None:
    BENCHMARK.main(TINY)
    printed = capsys.readouterr().out
    for section in ("Calls", "Bytes", "Microseconds on the clock", "Microseconds of CPU of the client"):
        assert f"## {section}\n" in printed
    assert "| delete the video and its 6 comments |" in printed


def test_the_table_of_the_documentation(bigtable_emulator: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = command("video benchmarks", page=SPEED).split()
    assert BENCHMARK.parser().parse_args(words[words.index("benchmarks.video") + 1 :]).readme
    BENCHMARK.main(["--only", "load", "--candidates", WIDE.name, "--readme", *TINY])
    head, _, calls, size, time, *_ = capsys.readouterr().out.splitlines()
    assert head == f"| µs | {WIDE.name} |"
    assert calls.endswith("comments: calls | 1 |")
    assert re.search(r"comments: on the wire \| [\d,]+ B \|$", size)
    assert "comments: on the clock" in time
    in_docs = SPEED.read_text(encoding="utf-8")
    assert head.removesuffix("|") + "".join(f"| {each.name} " for each in (TALL, DYNOXIDE, LOCAL)) + "|\n" in in_docs
    assert calls.rpartition(" | 1")[0].replace("of 6 comments", "of 500 comments") in in_docs


@pytest.mark.parametrize("url", ["{}:{}", "http://{}:{}"])
def test_a_relay_counts_both_directions(url: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        answering = Thread(target=_answer, args=(server,))
        answering.start()
        with relay.running(url.format(*server.getsockname())) as counting:
            assert counting.address == url.format("127.0.0.1", counting.server_address[1])
            with socket.create_connection(("127.0.0.1", counting.server_address[1])) as client:
                client.sendall(b"x" * 1000)
                client.shutdown(socket.SHUT_WR)
                assert client.makefile("rb").read() == b"y" * 300_000
            assert counting.counted() == 301_000
        answering.join()


def _answer(server: socket.socket) -> None:
    taken, _ = server.accept()
    with taken:
        while taken.recv(100):
            pass
        taken.sendall(b"y" * 300_000)
