"""A server of the small llama in a thread, and what asks it."""

from __future__ import annotations

import contextlib
import http.client
import json
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from dmlvk.language import LanguageModel
from dmlvk.language.batch import Drafter
from dmlvk.serving.app import Bounds, Server
from dmlvk.serving.running import EndingServer, configured
from dmlvk.serving.vectors import Vectors

NAME = "small"


class RunningServer:
    def __init__(self, port: int, server: Server, ending: EndingServer) -> None:
        self.port, self.server, self.ending = port, server, ending

    def headers(self, method: str, path: str, headers: Mapping[str, str]) -> Mapping[str, str]:
        """Of the answer to a request without a body, by their names in small letters."""
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)) as connection:
            connection.request(method, path, headers=dict(headers))
            return {name.lower(): value for name, value in connection.getresponse().getheaders()}

    def ask(self, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> tuple[int, bytes]:
        """Status and contents of an answer; a body that is no text or bytes is sent as JSON."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)
        with contextlib.closing(connection):
            data = body if isinstance(body, (bytes, str, type(None))) else json.dumps(body)
            connection.request("GET" if data is None else "POST", path, data, dict(headers or {}))
            answer = connection.getresponse()
            return answer.status, answer.read()

    def error(self, path: str, body: Any, headers: Mapping[str, str] | None = None) -> tuple[int, str]:
        """Status and message of an answer that is an error."""
        status, contents = self.ask(path, body, headers)
        return status, json.loads(contents)["error"]["message"]


@contextlib.contextmanager
def running(
    model: LanguageModel,
    bounds: Bounds | None = None,
    grace: float = 1.0,
    drafter: Drafter | None = None,
    vectors: Vectors | None = None,
) -> Iterator[RunningServer]:
    """A server in a thread, until the block ends."""
    server = Server(model, NAME, bounds or Bounds(), drafter, vectors)
    config = configured(server, grace=3.0, host="127.0.0.1", port=0)
    addresses: list[str] = []
    is_there = threading.Event()

    def started(address: str) -> None:
        addresses.append(address)
        is_there.set()

    ending = EndingServer(config, server, grace, started)
    thread = threading.Thread(target=ending.run)
    thread.start()
    try:
        assert is_there.wait(60)
        yield RunningServer(int(addresses[0].rpartition(":")[2]), server, ending)
    finally:
        ending.should_exit = True
        thread.join(60)
        assert not thread.is_alive()


def write_model(directory: Path) -> Path:
    """The folder of the small llama."""
    from tests.language.small_llama import write_folder

    return write_folder(directory)
