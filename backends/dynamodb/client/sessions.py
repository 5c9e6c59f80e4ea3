"""An aiobotocore session with the profile and the credentials of a boto3 session, including their refresh.

This module imports aiobotocore, so it is itself imported only for async calls.
"""

import asyncio
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from aiobotocore.credentials import AioCredentials
from aiobotocore.session import AioSession

from odm.backends.dynamodb.client.settings import profile_of

if TYPE_CHECKING:
    import boto3
    from botocore.credentials import Credentials


_LOADERS: "WeakKeyDictionary[boto3.Session, Any]" = WeakKeyDictionary()
"""The cached data files of each session. Reading them takes most of the time to create a client."""


def twin_of(session: "boto3.Session") -> AioSession:
    """A new aiobotocore session with the profile and the credentials of a boto3 session."""
    twin = AioSession(profile=profile_of(session))
    twin.register_component("credential_provider", _CredentialsOf(session))
    twin.register_component("data_loader", _LOADERS.setdefault(session, twin.get_component("data_loader")))
    return twin


class _CredentialsOf:
    """The credential provider of the aiobotocore session: the credentials of a boto3 session."""

    def __init__(self, session: "boto3.Session") -> None:
        self._session = session

    async def load_credentials(self) -> "_Shared | None":
        # In a thread, because this may call a metadata service, start a process or read a file.
        source = await asyncio.to_thread(self._session.get_credentials)
        if source is None:
            return None
        return _Shared(source, await asyncio.to_thread(source.get_frozen_credentials))


class _Shared(AioCredentials):  # type: ignore[misc]  # aiobotocore ships no types
    """Credentials that another session owns and refreshes."""

    def __init__(self, source: "Credentials", now: Any) -> None:
        super().__init__(now.access_key, now.secret_key, now.token, source.method, now.account_id)
        self._source = source

    async def get_frozen_credentials(self) -> Any:
        # A refresh is I/O; only credentials that expire need it.
        needs_refresh = getattr(self._source, "refresh_needed", None)
        if needs_refresh is not None and needs_refresh():
            return await asyncio.to_thread(self._source.get_frozen_credentials)
        return self._source.get_frozen_credentials()
