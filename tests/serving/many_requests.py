"""Thousands of requests of all kinds to a server at once: no answer changes, none is lost, and memory stays flat.

    python -m tests.serving.many_requests [--requests 10000] [--device N|NAME] [--seed N] [--answers FILE]

The server has the small llama. Some clients ask for answers that are known from asking alone, some are cut off in the
middle, some vanish before they have asked, and some ask for what nobody can have. A hash of the known answers is told,
which is the same on every device. With ``--answers`` that of each is written to a file, or compared with those in it.

Exit status: 0 nothing found, 1 something was.
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import contextlib
import ctypes
import gc
import hashlib
import http.client
import json
import random
import re
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from dmlvk.language import LanguageModel
from dmlvk.runtime.vulkan.host_memory import resident_in_bytes
from dmlvk.serving.app import Bounds
from dmlvk.serving.engine import Generation
from dmlvk.serving.running import share_heaps
from tests.native_objects import native_objects
from tests.serving.small_server import RunningServer, running, write_model

SEQUENCES, ROOM = 6, 112
BOUNDS = Bounds(most_body=2**16, seconds=120)
CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
FORM = {"type": "object", "properties": {"a": {"type": "integer", "maximum": 99, "minimum": 0}}, "required": ["a"]}
FORMAT = {"type": "json_schema", "json_schema": {"schema": {**FORM, "additionalProperties": False}}}

_MOST_GROWTH_MIB = 10.0
"""Of resident memory, from the middle of the requests to the last ones. Before, kinds of texts meet for the first time,
and are kept: by an NVIDIA driver in 60 KiB each, some 350 in the first half and 20 in the second one."""

_MOST_MADE, _ENOUGH_REQUESTS = 200, 5_000
"""Objects on the device, by the last third of so many requests at least: for some kinds of texts that met first then.
"""

Body = tuple[str, Any]


def random_request(choose: random.Random) -> tuple[str, dict[str, Any]]:
    """An address and a body that breaks no rule."""
    letters = "".join(choose.choices("ab cdefgh\u00fc\n", k=choose.randint(1, 40)))
    body: dict[str, Any] = {"max_tokens": choose.choice([1, 3, 8, 14]), "seed": choose.randrange(2**32)}
    body |= choose.choice([{}, {"temperature": 0.9}, {"temperature": 1.2, "top_k": 0, "top_p": 0.9}])
    body |= choose.choice([{}, {}, {"stream": True}, {"repetition_penalty": 1.4}, {"stop": ["a", "\n"]}, {"n": 2}])
    if choose.random() < 0.5:
        body |= {"messages": [{"role": "user", "content": letters}]}
        body |= choose.choice([{}, {}, {"logprobs": True, "top_logprobs": 2}, {"response_format": FORMAT}])
        return CHAT, body
    body["prompt"] = choose.choice([letters, [70, 71, 72] * 7 + [choose.randrange(3, 250)], [letters, "x"]])
    body |= choose.choice([{}, {}, {"logprobs": 2}, {"logprobs": 1, "echo": True}, {"echo": True}])
    return TEXT, body


_USER = {"role": "user", "content": "a"}
_TOOL = {"type": "function", "function": {"name": "f"}}


def _of_schema(schema: Any) -> dict[str, Any]:
    form = {"type": "json_schema", "json_schema": {"schema": schema}}
    return {"messages": [_USER], "response_format": form, "max_tokens": 20}


def _of_call(call: dict[str, Any]) -> dict[str, Any]:
    return {"messages": [_USER, {"role": "assistant", "tool_calls": [{"id": "x", **call}]}]}


HOSTILE: dict[str, tuple[str, Any, int, str]] = {
    "no JSON": (TEXT, b"{", 400, "the body is no JSON"),
    "not UTF-8": (TEXT, b'{"prompt": "\xff"}', 400, "the body is no JSON"),
    "NaN": (TEXT, b'{"prompt": "a", "temperature": NaN}', 400, "NaN is no number"),
    "deep": (TEXT, b"[" * 60000, 400, "the body is no JSON"),
    "a list": (CHAT, [], 400, "must be a JSON object; got list"),
    "nothing": (CHAT, {}, 400, "messages must be a list of 1 to 10000"),
    "an unknown field": (TEXT, {"prompt": "a", "tempratur": 1}, 400, "tempratur is no field"),
    "an unknown field inside": (
        CHAT,
        {"messages": [{"role": "user", "content": "a", "x": 1}]},
        400,
        r"messages\[0\].x is no field",
    ),
    "a role": (CHAT, {"messages": [{"role": "odd", "content": "a"}]}, 400, r"messages\[0\].role must be one of"),
    "a picture": (
        CHAT,
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]},
        400,
        "pictures and sounds are not read",
    ),
    "too long": (
        TEXT,
        {"prompt": "x" * 300},
        400,
        "the prompt has 300 tokens, and an answer of 16; there is room for 112",
    ),
    "too much": (TEXT, {"prompt": "x", "max_tokens": 10**6}, 400, "an answer of 1000000; there is room for 112"),
    "too large": (TEXT, {"prompt": "x" * 2**17}, 413, "more than 65536 bytes"),
    "no tokens": (TEXT, {"prompt": ""}, 400, "no tokens"),
    "strange tokens": (TEXT, {"prompt": [3, -1]}, 400, "the token -1 is none"),
    "half a character": (TEXT, {"prompt": "\ud800"}, 400, "which is no character"),
    "a large integer": (TEXT, {"prompt": "a", "seed": 10**40}, 400, "seed must be an integer"),
    "a temperature": (TEXT, {"prompt": "a", "temperature": "hot"}, 400, "temperature must be a number"),
    "too many answers": (TEXT, {"prompt": ["a"] * 64, "n": 3}, 400, "n must be at most 2 for 64 prompts"),
    "stops": (TEXT, {"prompt": "a", "stop": [""]}, 400, "stop must be a text of 1 to 1000"),
    "a penalty": (TEXT, {"prompt": "a", "presence_penalty": 1}, 400, "repetition_penalty is run"),
    "another model": (TEXT, {"prompt": "a", "model": "gpt-9"}, 404, "there is no model 'gpt-9'"),
    "a schema of nothing": (
        CHAT,
        {
            "messages": [{"role": "user", "content": "a"}],
            "response_format": {
                "type": "json_schema",
                "json_schema": {"schema": {"allOf": [{"type": "string"}, {"type": "null"}]}},
            },
        },
        400,
        "the schema cannot be met",
    ),
    "no schema": (
        CHAT,
        {"messages": [{"role": "user", "content": "a"}], "response_format": {"type": "json_schema"}},
        400,
        "must be an object with a schema",
    ),
    "a tool": (
        CHAT,
        {"messages": [{"role": "user", "content": "a"}], "tools": [{"type": "function", "function": {"name": "a b"}}]},
        400,
        r"tools\[0\].function.name must be",
    ),
    "a field of half a character": (TEXT, b'{"prompt": "a", "\\ud800": 1}', 400, r"\\ud800 is no field"),
    "a schema that refers to itself": (CHAT, _of_schema({"$ref": "#"}), 400, "the schema cannot be met"),
    "a schema that nothing has": (CHAT, _of_schema(False), 400, "the schema cannot be met: nothing has it"),
    "a pattern of too many parts": (
        CHAT,
        _of_schema({"type": "string", "pattern": "(a|b|ab)*" * 200 + "c{1000,2000}"}),
        400,
        "lexer error: too many expressions constructed$",
    ),
    "a field beside a schema": (
        CHAT,
        {"messages": [_USER], "response_format": {"type": "text", "json_schema": {"x": 1}}},
        400,
        "response_format.json_schema.x is no field",
    ),
    "two forms": (
        CHAT,
        {"messages": [_USER], "tools": [_TOOL], "tool_choice": "required", "response_format": {"type": "json_object"}},
        400,
        "response_format does not go with tools",
    ),
    "a choice of a tool with more": (
        CHAT,
        {"messages": [_USER], "tools": [_TOOL], "tool_choice": {"function": {"name": "f", "x": 1}}},
        400,
        "x is no field",
    ),
    "a call with more": (CHAT, _of_call({"function": {"name": "f", "x": 1}}), 400, "function.x is no field"),
    "a call of another type": (CHAT, _of_call({"type": "odd", "function": {"name": "f"}}), 400, "type must be one of"),
    "arguments that are a list": (
        CHAT,
        _of_call({"function": {"name": "f", "arguments": "[]"}}),
        400,
        "arguments must be an object",
    ),
    "arguments with NaN": (
        CHAT,
        _of_call({"function": {"name": "f", "arguments": '{"a": NaN}'}}),
        400,
        "arguments is no JSON: NaN is no number",
    ),
    "no such address": ("/v1/nothing", {}, 404, "there is no /v1/nothing"),
    "a method": ("/v1/models", {}, 405, "takes no POST"),
}


VANISHED = (
    b"",
    b"\x16\x03\x01 no HTTP\r\n\r\n",
    b'POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{"prompt"',
    b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nffffffffff\r\n",
    b"GET /v1/models HTTP/1.1\r\nHost: " + b"a" * 70_000,
)
"""What clients say that go before they have asked."""


class Traffic:
    """Clients of a server, and what they found.

    Attributes:

    Args:
        distinct: requests whose answers are asked for alone first.
        clients: that ask at once.
    """

    def __init__(self, server: RunningServer, seed: int, distinct: int, clients: int = 3 * SEQUENCES) -> None:
        choose = random.Random(seed)
        self._server, self._seed, self._clients = server, seed, clients
        self._known = [(request, server.ask(*request)) for request in (random_request(choose) for _ in range(distinct))]
        self.faults = [f"{request}: {answer}" for request, answer in self._known if answer[0] != 200]
        self.counts: collections.Counter[str] = collections.Counter()
        self._lock = threading.Lock()

    @property
    def hashes(self) -> list[str]:
        return [hashlib.sha256(answer).hexdigest()[:16] for _, (_, answer) in self._known]

    def ask(self, first: int, count: int) -> None:
        """Sends requests from several clients at once, of kinds that follow from their numbers."""
        with concurrent.futures.ThreadPoolExecutor(self._clients) as clients:
            list(clients.map(self._one, range(first, first + count)))

    def _one(self, number: int) -> None:
        choose = random.Random(self._seed * 2**32 + number)
        kinds: list[tuple[Callable[[random.Random], str], int]] = [
            (self._answered, 10),
            (self._cut_off, 4),
            (self._refused, 4),
            (self._vanished, 2),
        ]
        kind = choose.choices([each for each, _ in kinds], [weight for _, weight in kinds])[0]
        try:
            fault = kind(choose)
        except (OSError, http.client.HTTPException, AssertionError) as error:
            fault = f"{type(error).__name__}: {error}"
        with self._lock:
            self.counts[kind.__name__.strip("_").replace("_", " ")] += 1
            if fault:
                self.faults.append(f"{number}, {kind.__name__}: {fault}")

    def _answered(self, choose: random.Random) -> str:
        request, answer = choose.choice(self._known)
        found = self._server.ask(*request)
        return "" if found == answer else f"{request}: {found} instead of {answer}"

    def _cut_off(self, choose: random.Random) -> str:
        """A client that goes in the middle; what it has read until then is the beginning of the whole answer."""
        (path, body), (_, whole) = choose.choice(self._known)
        connection = http.client.HTTPConnection("127.0.0.1", self._server.port, timeout=300)
        with contextlib.closing(connection):
            connection.request("POST", path, json.dumps(body))
            if not body.get("stream"):
                time.sleep(choose.random() / 10)
                return ""
            found = connection.getresponse().read(choose.randrange(1, len(whole)))
        return "" if whole.startswith(found) else f"{path} {body}: {found!r}, no part of {whole!r}"

    def _refused(self, choose: random.Random) -> str:
        name = choose.choice(list(HOSTILE))
        path, body, status, message = HOSTILE[name]
        found = self._server.error(path, body)
        return "" if found[0] == status and re.search(message, found[1]) else f"{name}: {found}"

    def _vanished(self, choose: random.Random) -> str:
        """A client that goes before it has asked, or says what is no HTTP."""
        with socket.create_connection(("127.0.0.1", self._server.port), 60) as client:
            client.sendall(choose.choice(VANISHED))
        return ""

    def wait_until_idle(self) -> None:
        """Waits until no text has a place, and looks whether anything of one is left."""
        wait_until_idle(self._server)
        end = time.monotonic() + 60
        while (left := _texts_in_memory()) > 2 and time.monotonic() < end:
            time.sleep(0.1)  # what has ended is still being told to clients that have gone
        if left > 2:
            self.faults.append(f"{left} texts are left in memory")


def _texts_in_memory() -> int:
    gc.collect()
    return sum(isinstance(each, Generation) for each in gc.get_objects())


def wait_until_idle(server: RunningServer) -> None:
    end = time.monotonic() + 60
    while any(server.server.engine.counts):
        assert time.monotonic() < end, server.server.engine.counts
        time.sleep(0.01)


class _Heap(ctypes.Structure):
    """What glibc's mallinfo2 gives."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "used", "free", "keepcost")
    ]


def _parts_of_memory(model: LanguageModel) -> str:
    """What memory consists of: so that one run tells what grew."""
    pool, parts = model.device.arrays.pool, []
    if sys.platform == "linux":
        library = ctypes.CDLL(None)
        if hasattr(library, "mallinfo2"):
            library.mallinfo2.restype = _Heap
            heap = library.mallinfo2()
            parts += [f"heap {(heap.used + heap.hblkhd) / 2**20:.1f} and {heap.free / 2**20:.1f} free"]
    parts += [f"{sys.getallocatedblocks()} blocks of Python's", f"{threading.active_count()} threads"]
    return ", ".join([*parts, f"arrays {(pool.taken_in_bytes + pool.size_in_bytes) / 2**20:.1f}"])


def _compared(file: Path | None, hashes: Sequence[str]) -> list[str]:
    """Writes hashes of answers to a file; where it is there, what differs from those in it."""
    if file is None:
        return []
    if not file.exists():
        file.write_text(json.dumps(hashes))
        return []
    expected = json.loads(file.read_text())
    differ = sum(one != other for one, other in zip(hashes, expected, strict=True))
    print(f"{len(hashes)} answers compared with those in {file}: {differ} differ")
    return [f"{differ} answers differ from those in {file}"] if differ else []


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--distinct", type=int, default=200, help="requests with known answers")
    parser.add_argument("--sequences", type=int, default=SEQUENCES, help="texts that are continued together")
    parser.add_argument("--device")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--answers", type=Path)
    given = parser.parse_args()
    share_heaps()
    with tempfile.TemporaryDirectory() as folder:
        model = LanguageModel(write_model(Path(folder)), given.device, max_length=ROOM, sequences=given.sequences)
        with model, running(model, BOUNDS) as server:
            start, part = time.monotonic(), max(1, given.requests // 10)
            traffic = Traffic(server, given.seed, given.distinct, 2 * given.sequences + 6)
            whole = hashlib.sha256("".join(traffic.hashes).encode()).hexdigest()[:16]
            print(f"{given.distinct} answers alone by {model.device.info.name}: {whole}", flush=True)
            traffic.faults += _compared(given.answers, traffic.hashes)
            memory, made = [], []
            for first in range(0, given.requests, part):
                with native_objects() as objects:
                    traffic.ask(first, min(part, given.requests - first))
                    traffic.wait_until_idle()
                memory.append((resident_in_bytes() or 0) / 2**20)
                made.append(objects.total())
                print(
                    f"{sum(traffic.counts.values()):6d} requests  {time.monotonic() - start:6.0f} s  "
                    f"{memory[-1]:6.1f} MiB ({_parts_of_memory(model)})  made on the device: {dict(objects)}  "
                    f"{len(traffic.faults)} faults",
                    flush=True,
                )
    growth = min(memory[-3:]) - min(memory[4:6]) if len(memory) > 6 else 0.0
    if growth > _MOST_GROWTH_MIB:
        traffic.faults.append(f"memory grew by {growth:.1f} MiB")
    if given.requests >= _ENOUGH_REQUESTS and sum(made[-3:]) > _MOST_MADE:
        traffic.faults.append(f"the last requests made {sum(made[-3:])} objects on the device")
    print(f"{model.device.info.name}: {dict(traffic.counts)}, memory {growth:+.1f} MiB, {len(traffic.faults)} faults")
    for fault in traffic.faults[:20]:
        print(fault[:2000])
    return 1 if traffic.faults else 0


if __name__ == "__main__":
    sys.exit(main())
