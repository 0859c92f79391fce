"""Runs a program of ONNX Runtime's on a Vulkan device, unchanged: ``python -m dmlvk.onnxruntime program.py …``.

So do the processes that it starts. The environment variable ``DMLVK_ONNXRUNTIME=1`` does the same for all programs.
"""

from __future__ import annotations

import os
import runpy
import sys

import click

from dmlvk.onnxruntime.unchanged import pass_on


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("--device", "-d", metavar="N|NAME", help="Index of a device, or a part of its name.")
@click.option("--module", "-m", metavar="MODULE", help="Runs a module instead of a file, as python -m does.")
@click.argument("program", nargs=-1, type=click.UNPROCESSED)
def main(device: str | None, module: str | None, program: tuple[str, ...]) -> None:
    """Run a program whose ONNX Runtime sessions compute with dmlvk, and those of the processes that it starts.

    PROGRAM is a file with its arguments; with -m the arguments alone.
    """
    if module is None and not program:
        raise click.UsageError("there is no program: python -m dmlvk.onnxruntime program.py, or -m module")
    pass_on(device)
    if module is not None:
        sys.argv = [module, *program]
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    else:
        sys.argv = list(program)
        sys.path[0] = os.path.dirname(os.path.abspath(program[0]))  # as Python has it
        runpy.run_path(program[0], run_name="__main__")


if __name__ == "__main__":
    main()
