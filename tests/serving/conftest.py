"""The small llama. Tests of the server need what the extra ``serve`` installs; ``.ci/run`` has it."""

import importlib.util
from pathlib import Path

import pytest

_NEEDED = ("starlette", "uvicorn", "llguidance")

collect_ignore_glob = [] if all(importlib.util.find_spec(name) for name in _NEEDED) else ["test_*.py"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.serving.small_server import write_model

    return write_model(tmp_path_factory.mktemp("llama"))
