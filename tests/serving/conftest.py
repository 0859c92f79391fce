"""Tests of the server need what the extra ``serve`` installs; ``.ci/run`` has it."""

import importlib.util

_NEEDED = ("starlette", "uvicorn", "llguidance")

collect_ignore_glob = [] if all(importlib.util.find_spec(name) for name in _NEEDED) else ["test_*.py"]
