"""Clients that nobody wrote for this server run unchanged, where they are installed: lm-eval, and a browser."""

from __future__ import annotations

import http.server
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from dmlvk.language import LanguageModel
from dmlvk.serving.app import Bounds
from tests.serving.small_server import NAME, RunningServer, running, write_model

ORIGIN = "page.example"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small llama's."""
    return write_model(tmp_path_factory.mktemp("llama"))


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[RunningServer]:
    """A server that lets pages of one origin in."""
    bounds = Bounds(origins=(f"http://{ORIGIN}:8765",))
    with LanguageModel(folder, max_length=112, sequences=4) as model, running(model, bounds) as opened:
        yield opened


TASK = """task: sums
dataset_path: json
dataset_kwargs: {data_files: {test: FILE}}
test_split: test
output_type: KIND
doc_to_text: "{{q}}"
doc_to_target: TARGET
"""


@pytest.mark.skipif(importlib.util.find_spec("lm_eval") is None, reason="needs lm-eval")
@pytest.mark.parametrize("kind", ["multiple_choice", "generate_until", "loglikelihood_rolling"])
def test_lm_eval_runs_unchanged(server: RunningServer, folder: Path, tmp_path: Path, kind: str) -> None:
    lines = [{"q": f"What is {n} plus {n}? ", "choices": [str(2 * n), "no"], "gold": 0} for n in range(1, 6)]
    (tmp_path / "data.json").write_text("\n".join(map(json.dumps, lines)))
    text = TASK.replace("FILE", str(tmp_path / "data.json")).replace("KIND", kind)
    more = {"multiple_choice": "doc_to_choice: choices", "generate_until": "generation_kwargs: {max_gen_toks: 9}"}
    text = text.replace("TARGET", "gold" if kind == "multiple_choice" else '"{{choices[0]}}"') + more.get(kind, "")
    (tmp_path / "sums.yaml").write_text(text)
    address = f"base_url=http://127.0.0.1:{server.port}/v1/completions,num_concurrent=4,max_length=100"
    own = ["--model", "local-completions", "--model_args", f"model={NAME},tokenizer={folder},{address}"]
    command = [sys.executable, "-m", "lm_eval", *own, "--include_path", str(tmp_path), "--tasks", "sums"]
    offline = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "HF_HOME": str(tmp_path)}
    found = subprocess.run(command, env=os.environ | offline, capture_output=True, text=True, check=True, timeout=500)
    assert re.search(r"\|sums *\|", found.stdout), found.stderr[-2000:]


PAGE = """<script>
(async () => {
  let said = '';
  try {
    const answer = await fetch('http://127.0.0.1:PORT/v1/completions', {method: 'POST', headers: {
      'Content-Type': 'application/json', Authorization: 'Bearer none'}, body: '{"prompt": "a", "stream": true}'});
    const reader = answer.body.getReader(), text = new TextDecoder();
    for (let part; !(part = await reader.read()).done;) said += text.decode(part.value, {stream: true});
  } catch (error) { said = 'refused: ' + error; }
  fetch('/said', {method: 'POST', body: said});
})();
</script>"""


@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs Chromium")
@pytest.mark.parametrize("name", [ORIGIN, "localhost", "other.example"])
def test_a_page_of_a_browser_streams_answers_where_its_origin_is_let_in(
    server: RunningServer, tmp_path: Path, name: str
) -> None:
    said, is_there = bytearray(), threading.Event()

    class Site(http.server.BaseHTTPRequestHandler):
        def _answered(self, body: bytes = b"") -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self) -> None:
            self._answered(PAGE.replace("PORT", str(server.port)).encode())

        def do_POST(self) -> None:
            said.extend(self.rfile.read(int(self.headers["Content-Length"])))
            self._answered()
            is_there.set()

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 8765), Site) as site:
        threading.Thread(target=site.serve_forever, daemon=True).start()
        names = f"--host-resolver-rules=MAP {name} 127.0.0.1"
        options = ["--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}", names]
        browser = subprocess.Popen(
            ["chromium", *options, "--remote-debugging-port=0", f"http://{name}:8765/"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            assert is_there.wait(200)
        finally:
            browser.kill()
            browser.wait()
            site.shutdown()
    assert said.startswith(b"refused") if name == "other.example" else said.endswith(b"data: [DONE]\n\n"), said
