"""The server: answers that never change, clients that ask for what they cannot have, and clients that vanish."""

from __future__ import annotations

import concurrent.futures
import http.client
import json
import random
import re
import shutil
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
from tokenizers.processors import TemplateProcessing

import dmlvk as dml
from dmlvk.language import LanguageModel
from dmlvk.language.drafting import PromptLookup
from dmlvk.serving.app import Bounds
from tests.effort import IS_QUICK
from tests.serving.many_requests import BOUNDS, HOSTILE, ROOM, SEQUENCES, TEXT, Traffic, random_request, wait_until_idle
from tests.serving.small_server import NAME, RunningServer, running

CHUNKED = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n"


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[RunningServer]:
    with LanguageModel(folder, max_length=ROOM, sequences=SEQUENCES) as model, running(model, BOUNDS) as opened:
        yield opened


def together(server: RunningServer, requests: list[tuple[str, dict[str, Any]]]) -> list[tuple[int, bytes]]:
    """The answers to requests of clients that ask at once."""
    with concurrent.futures.ThreadPoolExecutor(2 * SEQUENCES) as clients:
        return list(clients.map(lambda each: server.ask(*each), requests))


def test_a_text_as_prompt_has_what_the_tokenizer_has_before_whole_texts(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    content = json.loads((tmp_path / "tokenizer.json").read_text())
    before = TemplateProcessing(single="<|start|> $A", special_tokens=[("<|start|>", 0)])
    content["post_processor"] = json.loads(before.__getstate__())
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    with LanguageModel(tmp_path, max_length=ROOM) as model, running(model) as opened:
        text = model.encode("xyz")
        asked = [("xyz", [0, *text]), ([0, *text], [0, *text]), (text, text)]
        for prompt, tokens in asked:
            body = json.loads(opened.ask(TEXT, {"prompt": prompt, "max_tokens": 3, "receipt": True})[1])
            assert body["choices"][0]["receipt"]["prompt"] == tokens
            assert body["usage"]["prompt_tokens"] == len(tokens)
        chat = {"messages": [{"role": "user", "content": "x"}], "max_tokens": 1, "receipt": True}
        prompt = json.loads(opened.ask("/v1/chat/completions", chat)[1])["choices"][0]["receipt"]["prompt"]
        assert prompt[:2] == model.encode("<|start|>user")[:2], "as the template says"


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


def test_requests_of_all_kinds_change_no_answer_lose_none_and_leave_nothing_behind(server: RunningServer) -> None:
    traffic = Traffic(server, 4, 6 if IS_QUICK else 10)
    traffic.ask(0, 60 if IS_QUICK else 120)
    traffic.wait_until_idle()
    assert not traffic.faults


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_requests_get_one_status_and_one_message(server: RunningServer, name: str) -> None:
    path, body, status, message = HOSTILE[name]
    found = server.error(path, body)
    assert found[0] == status and re.search(message, found[1]), found


def test_errors_tell_no_paths(server: RunningServer, folder: Path) -> None:
    assert str(folder) not in server.error(TEXT, {"prompt": "\ud800"})[1]


@pytest.mark.parametrize("said", [b"", b"GET /health HTTP/1.1\r\nHost: local"])
def test_a_connection_without_a_whole_head_is_ended(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch, said: bytes
) -> None:
    monkeypatch.setattr("dmlvk.serving.running._HEAD_SECONDS", 0.2)
    assert _refusal(server, said) == "The request's head did not come within 0 s."


@pytest.mark.parametrize("said", [b"\x16\x03\x01 no HTTP\r\n\r\n", CHUNKED])
def test_what_is_no_http_is_refused_in_the_form_of_all_errors(server: RunningServer, said: bytes) -> None:
    assert _refusal(server, said) == "Invalid HTTP request received."


def _refusal(server: RunningServer, said: bytes) -> str:
    """The message of an answer of 400 behind which the connection is closed."""
    with socket.create_connection(("127.0.0.1", server.port), 60) as client:
        client.sendall(said)
        answer = http.client.HTTPResponse(client)
        answer.begin()
        assert answer.status == 400 and answer.headers["Content-Type"] == "application/json"
        message: str = json.loads(answer.read())["error"]["message"]
        assert client.recv(1) == b""
    return message


def test_a_connection_whose_body_does_not_end_behind_the_answer_is_ended(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dmlvk.serving.running._HEAD_SECONDS", 0.2)
    with socket.create_connection(("127.0.0.1", server.port), 20) as client:
        client.sendall(b"POST /nowhere HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n")
        answer = http.client.HTTPResponse(client)
        answer.begin()
        assert answer.status == 404 and answer.read()
        client.sendall(b"a")
        assert client.recv(1) == b""


def test_requests_behind_one_another_on_a_connection_are_answered_in_turn(server: RunningServer) -> None:
    bodies = [json.dumps({"prompt": "abc", "max_tokens": 3, "seed": n, "temperature": 1}).encode() for n in range(3)]
    bodies.insert(1, b"{")
    alone = [server.ask(TEXT, body) for body in bodies]
    head = b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s"
    address = "127.0.0.1", server.port
    with socket.create_connection(address, 60) as client, client.makefile("rb") as answers:
        client.sendall(b"".join(head % (TEXT.encode(), len(body), body) for body in bodies))
        for status, contents in alone:
            assert answers.readline().startswith(b"HTTP/1.1 %d " % status)
            headers = http.client.parse_headers(answers)
            assert answers.read(int(headers["Content-Length"])) == contents


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


def test_pages_of_other_origins_are_let_in_by_name(folder: Path) -> None:
    bounds, address = Bounds(origins=("https://page.example",)), "/v1/chat/completions"
    with LanguageModel(folder, max_length=ROOM) as model, running(model, bounds) as server:
        for origin, is_let_in in (
            ("https://page.example", True),
            ("http://localhost:3000", True),
            ("https://other.example", False),
            ("https://localhost.example", False),
        ):
            own = {"Origin": origin}
            asked = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}
            for headers in (server.headers("OPTIONS", address, own | asked), server.headers("GET", "/health", own)):
                assert (headers.get("access-control-allow-origin") == origin) == is_let_in, (origin, headers)


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


@pytest.mark.parametrize("stop", [[], ["\n\n", "odd"]])
def test_an_answer_says_all_of_its_tokens(server: RunningServer, folder: Path, stop: list[str]) -> None:
    body = {"prompt": "Hello", "temperature": 1, "receipt": True, "stop": stop, "logprobs": 1}
    for most in (1, 2, 3, 14):
        for streams in (False, True):
            status, found = server.ask(TEXT, body | {"max_tokens": most, "seed": most, "stream": streams})
            parts = (
                [found] if not streams else [line[6:] for line in found.split(b"\n\n") if line.startswith(b"data: {")]
            )
            choices = [json.loads(part)["choices"][0] for part in parts]
            tokens = choices[-1]["receipt"]["tokens"]
            said = b"".join(bytes([token - 3]) if token < 259 else b"ab" for token in tokens)
            assert status == 200 and "".join(each["text"] for each in choices) == said.decode(errors="replace"), said
            offsets = [offset for each in choices for offset in each["logprobs"]["text_offset"]]
            assert offsets[0] == 0 and offsets == sorted(offsets) and len(offsets) == len(tokens)


def test_tokens_of_half_a_character_have_their_bytes(server: RunningServer) -> None:
    body = {"prompt": [198, 191], "max_tokens": 0, "echo": True, "logprobs": 20}  # the bytes of a small u with dots
    found = json.loads(server.ask(TEXT, body)[1])["choices"][0]
    assert (found["text"], found["logprobs"]["tokens"]) == ("\u00fc", ["bytes:\\xc3", "bytes:\\xbc"])
    assert found["logprobs"]["text_offset"] == [0, 1] and len(found["logprobs"]["top_logprobs"][1]) == 20
    chat = {"messages": [{"role": "user", "content": "a"}], "max_tokens": 8, "logprobs": True, "top_logprobs": 20}
    for token in json.loads(server.ask("/v1/chat/completions", chat)[1])["choices"][0]["logprobs"]["content"]:
        assert {len(each["bytes"]) for each in token["top_logprobs"]} <= {1, 2, 7, 9} and len(
            token["top_logprobs"]
        ) == 20
        assert len({tuple(each["bytes"]) for each in token["top_logprobs"]}) == 20


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
