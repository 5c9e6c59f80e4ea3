"""The backends whose changes tests of patterns follow."""

from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import boto3
import pytest

from odm.backends.bigtable import Bigtable
from odm.backends.dynamodb import DynamoDB
from odm.backends.local import LocalFile, Memory
from odm.protocol.connection import Backend


def with_feed(request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    """A backend with a change feed, by the parameter of a fixture, with tables of its own."""
    name: str = request.param
    match name:
        case "memory":
            return Memory(changes=True)
        case "file":
            return LocalFile(tmp_path / "followed.db", changes=True)
        case "bigtable" | "wide":
            layout: Any = "row_per_partition" if name == "wide" else None
            address = request.getfixturevalue("odm_bigtable_emulator").address
            return Bigtable(
                "project", f"i{uuid4().hex[:12]}", endpoint=address, layout=layout, stream=timedelta(days=1)
            )
        case server:
            session = boto3.Session(
                aws_access_key_id=f"key{uuid4().hex[:12]}", aws_secret_access_key="secret", region_name="eu-west-1"
            )
            return DynamoDB(session, endpoint_url=request.getfixturevalue(server), stream="new_and_old_images")
