"""What clients of DynamoDB compute again for each session, computed once: tests open thousands of sessions.

Only functions whose results depend on nothing but their arguments are remembered, and files of botocore's data folder.
Programs that tests start run botocore as it is.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any
from weakref import WeakKeyDictionary

import botocore.hooks
import botocore.session


def remember() -> None:
    """Let the sessions of this process share what botocore reads from its data folder and finds out of its handlers.

    A session takes a tenth of a second otherwise, and the first client of each as much again.
    """
    vendor: Any = botocore.hooks
    if vendor.accepts_kwargs.__module__ == __name__:
        return
    vendor.accepts_kwargs = _remembering(vendor.accepts_kwargs)
    begin, names = vendor.EventAliaser.__init__, dict[str, str]()

    def begin_with_names(self: Any, event_emitter: Any, event_aliases: Any = None) -> None:
        begin(self, event_emitter, event_aliases)
        if event_aliases is None:
            self._alias_name_cache = names

    vendor.EventAliaser.__init__ = begin_with_names
    session: Any = botocore.session
    session.create_loader = lru_cache(session.create_loader)


def _remembering(accepts_kwargs: Callable[[Any], Any]) -> Callable[[Any], Any]:
    # Weak, and by the function of a method: tests check that clients are collected.
    known: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()

    def remembering(handler: Any) -> Any:
        function = getattr(handler, "__func__", handler)
        if function not in known:
            known[function] = accepts_kwargs(handler)
        return known[function]

    return remembering
