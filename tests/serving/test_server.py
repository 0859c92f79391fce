"""The server: answers that never change, clients that ask for what they cannot have, and clients that vanish."""

from __future__ import annotations

import concurrent.futures
import gc
import http.client
import json
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import dmlvk as dml
from dmlvk.language import LanguageModel
from dmlvk.language.drafting import PromptLookup
from dmlvk.serving.app import Bounds
from dmlvk.serving.engine import Generation
from tests.effort import IS_QUICK
from tests.serving.small_server import NAME, RunningServer, running, write_model

SEQUENCES, ROOM = 6, 112
CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
FORM = {"type": "object", "properties": {"a": {"type": "integer", "maximum": 99, "minimum": 0}}, "required": ["a"]}
FORMAT = {"type": "json_schema", "json_schema": {"schema": {**FORM, "additionalProperties": False}}}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small llama's."""
    return write_model(tmp_path_factory.mktemp("llama"))


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[RunningServer]:
    """A server for all tests."""
    with LanguageModel(folder, max_length=ROOM, sequences=SEQUENCES) as model:
        bounds = Bounds(most_body=2**16, most_waiting=64, seconds=120)
        with running(model, bounds) as opened:
            yield opened


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


def together(server: RunningServer, requests: list[tuple[str, dict[str, Any]]]) -> list[tuple[int, bytes]]:
    """The answers to requests of clients that ask at once."""
    with concurrent.futures.ThreadPoolExecutor(2 * SEQUENCES) as clients:
        return list(clients.map(lambda each: server.ask(*each), requests))


def test_the_bytes_of_an_answer_are_the_same_alone_in_company_and_on_another_device(
    server: RunningServer, folder: Path, device: dml.Device
) -> None:
    choose = random.Random(1)
    requests = [random_request(choose) for _ in range(8 if IS_QUICK else 30)]
    alone = [server.ask(*request) for request in requests]
    assert {status for status, _ in alone} == {200}
    order = choose.sample(range(len(requests)), len(requests))
    assert together(server, [requests[place] for place in order]) == [alone[place] for place in order]
    with LanguageModel(folder, device, max_length=ROOM, sequences=3) as model, running(model) as another:
        few = order[: len(order) // 4]
        assert together(another, [requests[place] for place in few]) == [alone[place] for place in few]


def test_drafts_change_no_byte(server: RunningServer, folder: Path) -> None:
    choose = random.Random(8)
    requests = [(TEXT, {"prompt": "abcabcab" * 3, "max_tokens": 40, "temperature": t}) for t in (0, 0.5, 1)]
    requests += [random_request(choose) for _ in range(3)]
    alone = [server.ask(*request) for request in requests]
    with (
        LanguageModel(folder, max_length=ROOM, sequences=2, drafts=True) as model,
        running(model, drafter=PromptLookup()) as another,
    ):
        assert [another.ask(*request) for request in requests] == alone


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
    "no such address": ("/v1/nothing", {}, 404, "there is no /v1/nothing"),
    "a method": ("/v1/models", {}, 405, "takes no POST"),
}


def test_hostile_requests_get_one_clear_answer_and_change_no_other(server: RunningServer) -> None:
    requests = [(TEXT, {"prompt": f"text {n}", "max_tokens": 20, "temperature": 1.0}) for n in range(4)]
    alone = [server.ask(*request) for request in requests]
    with concurrent.futures.ThreadPoolExecutor(4) as clients:
        others = [clients.submit(server.ask, *request) for request in requests]
        for name, (path, body, status, message) in HOSTILE.items():
            found = server.error(path, body)
            assert found[0] == status and re.search(message, found[1]), (name, found)
        assert [other.result() for other in others] == alone


def wait_until_idle(server: RunningServer) -> None:
    """Waits until no text has a place."""
    end = time.monotonic() + 60
    while any(server.server.engine.counts):
        assert time.monotonic() < end, server.server.engine.counts
        time.sleep(0.01)


@pytest.mark.parametrize("streams", [True, False])
def test_a_client_that_vanishes_frees_its_place(server: RunningServer, streams: bool) -> None:
    request = TEXT, {"prompt": "abc", "max_tokens": 20}
    alone = server.ask(*request)
    body = json.dumps({"prompt": "abc", "max_tokens": 100, "n": 3 * SEQUENCES, "stream": streams}).encode()
    with socket.create_connection(("127.0.0.1", server.port)) as client:
        client.sendall(
            b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s" % (TEXT.encode(), len(body), body)
        )
        end = time.monotonic() + 60
        while sum(server.server.engine.counts) < 2 * SEQUENCES and time.monotonic() < end:
            time.sleep(0.001)
    assert server.ask(*request) == alone
    wait_until_idle(server)


def test_bounds_of_time_and_of_the_queue_and_the_key_and_the_host_are_kept(folder: Path) -> None:
    bounds = Bounds(most_waiting=2, seconds=0.05, key="secret")
    with LanguageModel(folder, max_length=ROOM, sequences=1) as model, running(model, bounds) as server:
        key = {"Authorization": "Bearer secret"}
        body = {"prompt": "a", "max_tokens": 100}
        assert server.error(TEXT, body)[0] == 401 == server.error(TEXT, body, {"Authorization": "Bearer x"})[0]
        assert server.error(TEXT, body, key) == (504, "the answer took longer than this server allows")
        status, message = server.error(TEXT, body | {"n": 3}, key)
        assert status == 503 and "they would be more than 2" in message
        assert server.ask("/health")[0] == 200
        assert server.ask("/v1/models", headers={"Host": "evil.example"})[0] == 400
        wait_until_idle(server)


def test_many_requests_leave_nothing_behind(server: RunningServer) -> None:
    choose = random.Random(4)
    together(server, [random_request(choose) for _ in range(10 if IS_QUICK else 60)])
    wait_until_idle(server)
    gc.collect()
    assert sum(isinstance(each, Generation) for each in gc.get_objects()) < 3


def test_answers_under_way_are_finished_or_told_when_the_server_ends(folder: Path) -> None:
    with LanguageModel(folder, max_length=ROOM, sequences=2) as model, running(model, grace=0.05) as server:
        found: list[bytes] = []
        request = {"prompt": "a", "max_tokens": 100, "stream": True, "n": 8}
        client = threading.Thread(target=lambda: found.append(server.ask(TEXT, request)[1]))
        client.start()
        while not server.server.engine.counts[0]:
            time.sleep(0.001)
        server.ending.should_exit = True
        client.join(60)
        assert b"[DONE]" in found[0] or b"the answer was cut off" in found[0]


@pytest.mark.skipif(sys.platform == "win32", reason="has no such signals")
def test_the_command_ends_well_on_a_signal(folder: Path) -> None:
    start, options = "import dmlvk.cli; dmlvk.cli.main()", ["--port", "0", "--max-length", "64"]
    command = [sys.executable, "-c", start, "serve", str(folder), *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        found = re.search(r"http://127.0.0.1:(\d+)/v1", process.stderr.readline())
        assert found
        connection = http.client.HTTPConnection("127.0.0.1", int(found[1]), timeout=60)
        body = {"prompt": "a", "max_tokens": 60, "n": 3, "stream": True}
        connection.request("POST", TEXT, json.dumps(body))
        answer = connection.getresponse()
        first = answer.readline()
        process.send_signal(signal.SIGTERM)
        assert first.startswith(b"data: ") and answer.read().endswith(b"data: [DONE]\n\n")
        connection.close()
        assert (process.wait(60), process.stderr.read()) == (0, "")


def test_likelihoods_of_a_prompt_are_those_of_its_tokens_one_by_one(server: RunningServer) -> None:
    body = {"prompt": "Hello", "max_tokens": 1, "logprobs": 1, "echo": True}
    found = json.loads(server.ask(TEXT, body)[1])["choices"][0]
    assert found["text"].startswith("Hello") and found["logprobs"]["tokens"][:5] == list("Hello")
    for length in range(1, 5):
        part = json.loads(server.ask(TEXT, body | {"prompt": "Hello"[:length], "logprobs": 20, "echo": False})[1])
        tops = part["choices"][0]["logprobs"]["top_logprobs"][0]
        own = found["logprobs"]["token_logprobs"][length]
        assert own == tops.get("Hello"[length], own) and own <= max(tops.values())
    assert found["logprobs"]["text_offset"][:5] == [0, 1, 2, 3, 4]


def test_the_client_of_openai_runs_unchanged(server: RunningServer) -> None:
    openai = pytest.importorskip("openai")
    client = openai.OpenAI(base_url=f"http://127.0.0.1:{server.port}/v1", api_key="none", max_retries=0)
    assert [model.id for model in client.models.list()] == [NAME]
    messages = [{"role": "user", "content": "Hello"}]
    given = {"model": NAME, "messages": messages, "max_tokens": 12, "seed": 5, "temperature": 0.8}
    whole = client.chat.completions.create(**given)
    pieces = list(client.chat.completions.create(**given, stream=True, stream_options={"include_usage": True}))
    assert (
        "".join(piece.choices[0].delta.content or "" for piece in pieces if piece.choices)
        == whole.choices[0].message.content
    )
    assert pieces[-1].usage == whole.usage and whole.usage.completion_tokens <= 12
    text = client.completions.create(model=NAME, prompt="One, two", max_tokens=5, logprobs=2)
    assert len(text.choices[0].logprobs.tokens) == 5
    function = {
        "name": "light",
        "parameters": {"type": "object", "properties": {"on": {"type": "boolean"}}, "required": ["on"]},
    }
    called = client.chat.completions.create(
        model=NAME,
        messages=messages,
        tools=[{"type": "function", "function": function}],
        tool_choice="required",
        max_tokens=60,
    )
    (call,) = called.choices[0].message.tool_calls
    assert call.function.name == "light" and called.choices[0].finish_reason == "tool_calls"
    assert isinstance(json.loads(call.function.arguments)["on"], bool)
    with pytest.raises(openai.BadRequestError, match="room for 112"):
        client.completions.create(model=NAME, prompt="x" * 500)
