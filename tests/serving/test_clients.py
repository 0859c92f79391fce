"""Clients that nobody wrote for this server run unchanged, where they are installed: lm-eval, and a browser."""

from __future__ import annotations

import http.server
import importlib.util
import json
import queue
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from dmlvk.language import LanguageModel
from dmlvk.serving.app import Bounds
from tests.processes import python
from tests.serving.small_server import NAME, RunningServer, running

ORIGIN = "page.example"


class Site(http.server.ThreadingHTTPServer):
    """A page, and what its script says."""

    page = b""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Visited)
        self.said: queue.Queue[bytes] = queue.Queue()


class _Visited(http.server.BaseHTTPRequestHandler):
    server: Site

    def _answered(self, body: bytes = b"") -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        self._answered(self.server.page)

    def do_POST(self) -> None:
        self.server.said.put(self.rfile.read(int(self.headers["Content-Length"])))
        self._answered()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with Site() as opened:
        threading.Thread(target=opened.serve_forever, daemon=True).start()
        yield opened
        opened.shutdown()


@pytest.fixture(scope="module")
def server(folder: Path, site: Site) -> Iterator[RunningServer]:
    """A server that lets pages of one origin in."""
    bounds = Bounds(origins=(f"http://{ORIGIN}:{site.server_port}",))
    with LanguageModel(folder, max_length=112, sequences=4) as model, running(model, bounds) as opened:
        yield opened


TASK = """task: KIND
dataset_path: json
dataset_kwargs: {data_files: {test: FILE}}
test_split: test
output_type: KIND
doc_to_text: "{{q}}"
doc_to_target: "{{gold}}"
"""

MORE = {
    "multiple_choice": "doc_to_choice: choices",
    "generate_until": "generation_kwargs: {max_gen_toks: 9}",
    "loglikelihood_rolling": "",
}


@pytest.mark.skipif(
    not all(map(importlib.util.find_spec, ("lm_eval", "transformers"))), reason="needs lm-eval and transformers"
)
def test_lm_eval_runs_unchanged(server: RunningServer, folder: Path, tmp_path: Path) -> None:
    lines = [{"q": f"What is {n} plus {n}? ", "choices": [str(2 * n), "no"], "gold": 0} for n in range(1, 6)]
    (tmp_path / "data.json").write_text("\n".join(map(json.dumps, lines)))
    for kind, more in MORE.items():
        text = TASK.replace("FILE", str(tmp_path / "data.json")).replace("KIND", kind)
        (tmp_path / f"{kind}.yaml").write_text(text + more)
    address = f"base_url=http://127.0.0.1:{server.port}/v1/completions,num_concurrent=4,max_length=100"
    own = ["--model", "local-completions", "--model_args", f"model={NAME},tokenizer={folder},{address}"]
    offline = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "HF_HOME": str(tmp_path)}
    found = python("-m", "lm_eval", *own, "--include_path", tmp_path, "--tasks", ",".join(MORE), env=offline)
    for kind in MORE:
        assert re.search(rf"\|{kind} *\|", found.stdout), found.stderr[-2000:]


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
    server: RunningServer, site: Site, tmp_path: Path, name: str
) -> None:
    site.page = PAGE.replace("PORT", str(server.port)).encode()
    names = f"--host-resolver-rules=MAP {name} 127.0.0.1"
    options = ["--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}", names]
    browser = subprocess.Popen(
        ["chromium", *options, "--remote-debugging-port=0", f"http://{name}:{site.server_port}/"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        said = site.said.get(timeout=200)
    finally:
        browser.kill()
        browser.wait()
    assert said.startswith(b"refused") if name == "other.example" else said.endswith(b"data: [DONE]\n\n"), said
