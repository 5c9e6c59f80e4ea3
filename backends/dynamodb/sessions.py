"""An aiobotocore session that stands for a boto3 session: its profile, and its credentials however they are refreshed.

This module imports aiobotocore, and so is itself imported only for an async call.
"""

import asyncio
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from aiobotocore.credentials import AioCredentials
from aiobotocore.session import AioSession

from odm.backends.dynamodb.profiles import profile_of

if TYPE_CHECKING:
    import boto3
    from botocore.credentials import Credentials


_LOADERS: "WeakKeyDictionary[boto3.Session, Any]" = WeakKeyDictionary()
"""What was read of botocore's files for a session: reading takes far longer than all else that makes a client."""


def twin_of(session: "boto3.Session") -> AioSession:
    """A new aiobotocore session with the profile and the credentials of a boto3 session."""
    twin = AioSession(profile=profile_of(session))
    twin.register_component("credential_provider", _CredentialsOf(session))
    twin.register_component("data_loader", _LOADERS.setdefault(session, twin.get_component("data_loader")))
    return twin


class _CredentialsOf:
    """The part of an aiobotocore session that finds credentials."""

    def __init__(self, session: "boto3.Session") -> None:
        self._session = session

    async def load_credentials(self) -> "_Shared | None":
        # May ask a metadata service, a process or a file.
        source = await asyncio.to_thread(self._session.get_credentials)
        if source is None:
            return None
        return _Shared(source, await asyncio.to_thread(source.get_frozen_credentials))


class _Shared(AioCredentials):  # type: ignore[misc]  # aiobotocore ships no types
    """Credentials that another session holds and refreshes."""

    def __init__(self, source: "Credentials", now: Any) -> None:
        super().__init__(now.access_key, now.secret_key, now.token, source.method, now.account_id)
        self._source = source

    async def get_frozen_credentials(self) -> Any:
        # Only credentials that expire can need a refresh, which is I/O.
        needs_refresh = getattr(self._source, "refresh_needed", None)
        if needs_refresh is not None and needs_refresh():
            return await asyncio.to_thread(self._source.get_frozen_credentials)
        return self._source.get_frozen_credentials()
