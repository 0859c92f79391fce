"""Runs a program with dmlvk in the place of ``onnxruntime``::

python -m dmlvk.onnx PROGRAM [ARGUMENT ...]
python -m dmlvk.onnx -m MODULE [ARGUMENT ...]
"""

from __future__ import annotations

import runpy
import sys
from collections.abc import Sequence
from pathlib import Path

from dmlvk.onnx.api.installation import install

_USAGE = "usage: python -m dmlvk.onnx PROGRAM [ARGUMENT ...] | -m MODULE [ARGUMENT ...]"


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the program that the arguments name as ``__main__``, as Python itself would."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    is_module = given[:1] == ["-m"]
    given = given[1:] if is_module else given
    if not given or (given[0].startswith("-") and not is_module):
        print(_USAGE, file=sys.stderr)
        raise SystemExit(2)
    install()
    sys.argv = given
    if is_module:
        runpy.run_module(given[0], run_name="__main__", alter_sys=True)
        return
    path = Path(given[0])
    if not path.exists():
        print(f"python -m dmlvk.onnx: there is no program {given[0]!r}", file=sys.stderr)
        raise SystemExit(2)
    sys.path[0] = str(path.resolve().parent)
    runpy.run_path(given[0], run_name="__main__")


if __name__ == "__main__":
    main()
