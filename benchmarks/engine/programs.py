"""Whole programs, each for a fresh process: what odm costs from the interpreter to the first item that it reads.

Laziness alone only moves cost from the import to the first calls, so what is compared with pydantic is the sum.
``python -m benchmarks.engine.programs`` is the service of those on DynamoDB: it answers as an empty table does, prints
its port, and ends with its input. It is a process of its own, so that its CPU time is nobody's.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any, ClassVar, Final

from benchmarks.fresh import ROOT

PYDANTIC: Final = "one pydantic model"
IMPORT: Final = "import odm's names"
MEMORY: Final = "to the first get, Memory"
DYNAMODB: Final = "to the first get, DynamoDB"

_PROGRAM: Final = """
from odm import Entity, PrimaryKey, Store, Table
{backend}
table = Table("shop")

class Customer(Entity, table=table):
    customer_id: str
    name: str
    primary = PrimaryKey("CUSTOMER#{{customer_id}}")

class Order(Entity, table=table):
    customer_id: str
    order_id: str
    total: int = 0
    primary = PrimaryKey("CUSTOMER#{{customer_id}}", "ORDER#{{order_id}}")

with Store(table, backend) as db:
    db.create()
    db.put(Order(customer_id="c1", order_id="o1", total=7))
    assert db.get(Order, customer_id="c1", order_id="o1").total == 7
"""


def programs(endpoint: str) -> dict[str, str]:
    """The code of each program by its name."""
    memory = "from odm.backends.local import Memory\nbackend = Memory()"
    dynamodb = (
        f"from odm.backends.dynamodb import DynamoDB\nbackend = DynamoDB(endpoint_url={endpoint!r}, region='us-east-1')"
    )
    return {
        "python": "pass",
        PYDANTIC: "from pydantic import BaseModel\nclass Model(BaseModel):\n    number: int",
        IMPORT: "from odm import Entity, Store, Table",
        MEMORY: _PROGRAM.format(backend=memory),
        DYNAMODB: _PROGRAM.format(backend=dynamodb),
    }


@contextmanager
def service() -> Iterator[str]:
    """The endpoint of a service that answers as an empty table of DynamoDB does."""
    command = [sys.executable, "-m", "benchmarks.engine.programs"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT, text=True) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(running.stdout.readline())}"
        finally:
            running.stdin.close()


class _Answers(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    stored: ClassVar[dict[str, Any]] = {}

    def do_POST(self) -> None:  # the name is that of the base class
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        answer: dict[str, Any] = {}
        status = 200
        match self.headers["X-Amz-Target"].partition(".")[2]:
            case "CreateTable":
                self.stored["table"] = {**request, "TableStatus": "ACTIVE"}
                answer = {"TableDescription": self.stored["table"]}
            case "DescribeTable" if "table" not in self.stored:
                status, answer = 400, {"__type": "com.amazonaws.dynamodb.v20120810#ResourceNotFoundException"}
            case "DescribeTable":
                answer = {"Table": self.stored["table"]}
            case "PutItem":
                self.stored["item"] = request["Item"]
            case "GetItem":
                answer = {"Item": self.stored["item"]}
            case "Scan":
                answer = {"Items": [], "Count": 0, "ScannedCount": 0}
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/x-amz-json-1.0")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing is logged."""


if __name__ == "__main__":
    server = HTTPServer(("127.0.0.1", 0), _Answers)
    Thread(target=server.serve_forever, daemon=True).start()
    sys.stdout.write(f"{server.server_port}\n")
    sys.stdout.flush()
    sys.stdin.read()
