"""Runs a program of ONNX Runtime's on a Vulkan device, unchanged: ``python -m dmlvk.onnxruntime program.py …``."""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click
import onnxruntime

from dmlvk.onnxruntime import PROVIDER


def first(providers: Sequence[Any] | None, options: Mapping[str, str]) -> list[Any]:
    """A program's list of providers with dmlvk's before all others, and the CPU provider at the end."""
    given = list(providers or [])
    names = [provider if isinstance(provider, str) else provider[0] for provider in given]
    if PROVIDER in names:
        return given
    own = (PROVIDER, dict(options)) if options else PROVIDER
    return [own, *given, *([] if "CPUExecutionProvider" in names else ["CPUExecutionProvider"])]


def take_sessions(options: Mapping[str, str]) -> None:
    """Lets every session that is made from now on have dmlvk's provider first.

    Sessions whose options name devices themselves, or a policy, stay as they are.

    Args:
        options: the provider's.
    """
    session: Any = onnxruntime.InferenceSession
    made: Callable[..., None] = session.__init__

    def make(
        self: Any, path_or_bytes: Any, sess_options: Any = None, providers: Any = None, *rest: Any, **more: Any
    ) -> None:
        if sess_options is None or not getattr(sess_options, "has_providers", lambda: False)():
            given = rest[0] if rest else more.pop("provider_options", None)
            if given is not None:
                names = [provider if isinstance(provider, str) else provider[0] for provider in providers or []]
                providers = list(zip(names, given, strict=False))
            providers, rest = first(providers, options), (None, *rest[1:]) if rest else ()
        made(self, path_or_bytes, sess_options, providers, *rest, **more)

    session.__init__ = make


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("--device", "-d", metavar="N|NAME", help="Index of a device, or a part of its name.")
@click.option("--module", "-m", metavar="MODULE", help="Runs a module instead of a file, as python -m does.")
@click.argument("program", nargs=-1, type=click.UNPROCESSED)
def main(device: str | None, module: str | None, program: tuple[str, ...]) -> None:
    """Run a program whose ONNX Runtime sessions compute with dmlvk.

    PROGRAM is a file with its arguments; with -m the arguments alone.
    """
    if module is None and not program:
        raise click.UsageError("there is no program: python -m dmlvk.onnxruntime program.py, or -m module")
    take_sessions({} if device is None else {"device": device})
    if module is not None:
        sys.argv = [module, *program]
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    else:
        sys.argv = list(program)
        sys.path[0] = os.path.dirname(os.path.abspath(program[0]))  # as Python has it
        runpy.run_path(program[0], run_name="__main__")


if __name__ == "__main__":
    main()
