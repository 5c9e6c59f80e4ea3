"""The fixtures of the suite; the test module of a backend defines ``backend`` and ``capabilities``."""

from collections.abc import Iterator

import pytest

from odm import Backend, Store
from odm.testing import entities, spreading
from odm.testing.capabilities import Capabilities
from odm.testing.stores import Mode, Stores


@pytest.fixture(params=["sync", "async"])
def mode(request: pytest.FixtureRequest) -> Mode:
    """Whether the stores are sync or async."""
    return "sync" if request.param == "sync" else "async"


@pytest.fixture(autouse=True)
def known_faults(request: pytest.FixtureRequest, capabilities: Capabilities) -> None:
    """Expects a test that is listed as a known fault of the service to fail."""
    name = getattr(request.node, "originalname", None) or request.node.name
    if name in capabilities.faults:
        request.applymarker(pytest.mark.xfail(reason=capabilities.faults[name], strict=True))


@pytest.fixture
def stores(backend: Backend, mode: Mode) -> Iterator[Stores]:
    """Opens stores on the backend under test."""
    with Stores(backend, mode) as opened:
        yield opened


@pytest.fixture
def db(stores: Stores) -> Store:
    """A store of the table without indexes."""
    return stores.open(entities.plain)


@pytest.fixture
def indexed(stores: Stores) -> Store:
    """A store of the table with indexes."""
    return stores.open(entities.indexed)


@pytest.fixture
def sharded(stores: Stores) -> Store:
    """A store of the table with sharded indexes."""
    return stores.open(spreading.spread)


@pytest.fixture
def local(stores: Stores) -> Store:
    """A store of the table with local indexes."""
    return stores.open(spreading.local)


@pytest.fixture
def lean(stores: Stores) -> Store:
    """A store of the table whose indexes do not project whole items."""
    return stores.open(spreading.lean)


@pytest.fixture
def offline(stores: Stores) -> Iterator[Store]:
    """A store of the table without indexes, not created: the test must not send any request."""
    yield stores.offline(entities.plain)
    assert stores.requests == []


__all__ = ["db", "indexed", "known_faults", "lean", "local", "mode", "offline", "sharded", "stores"]
