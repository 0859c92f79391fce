"""Runs a program with dmlvk's provider before all of ONNX Runtime's, and notes what the device has of its models.

    python inside.py REPORT PROGRAM

The report, JSON, has for each model how many sessions there were, and how many of their nodes the device has. Of models
of onnxruntime-genai, which has an ONNX Runtime of its own, only the bytes that went to the device are noted.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
from pathlib import Path
from typing import Any

import onnxruntime

import dmlvk.onnxruntime
from dmlvk.onnxruntime.unchanged import pass_on

_NOTING = "session.record_ep_graph_assignment_info"


def main() -> None:
    """Runs the program, and writes the report even where it fails."""
    report, program = sys.argv[1:3]
    found: dict[str, dict[str, Any]] = {}
    pass_on(None)
    _note_sessions(found)
    sys.argv = [program]
    try:
        runpy.run_path(program, run_name="__main__")
    finally:
        to_device = dmlvk.onnxruntime.traffic().to_device
        if to_device:
            found.setdefault("all", {})["bytes"] = to_device
        Path(report).write_text(json.dumps(found), encoding="utf-8")


def _note_sessions(found: dict[str, dict[str, Any]]) -> None:
    session: Any = onnxruntime.InferenceSession
    begin = session.__init__

    def begin_noted(self: Any, path_or_bytes: Any, sess_options: Any = None, *arguments: Any, **named: Any) -> None:
        options = onnxruntime.SessionOptions() if sess_options is None else sess_options
        options.add_session_config_entry(_NOTING, "1")
        begin(self, path_or_bytes, options, *arguments, **named)
        name = "bytes" if isinstance(path_or_bytes, bytes) else os.path.basename(os.fspath(path_or_bytes))
        entry = found.setdefault(name, {"sessions": 0, "device": 0, "nodes": 0})
        entry["sessions"] += 1
        for part in self.get_provider_graph_assignment_info():
            count = len(part.get_nodes())
            entry["nodes"] += count
            entry["device"] += count if part.ep_name == dmlvk.onnxruntime.PROVIDER else 0

    session.__init__ = begin_noted


if __name__ == "__main__":
    main()
