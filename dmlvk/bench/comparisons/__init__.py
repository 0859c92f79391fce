"""What stands beside another program, or is no operator, each by a command of its own: ``dmlvk bench fusion``.

A module of this folder is a command of its name (``small_work.py``: ``dmlvk bench small-work``): the first line of its
docstring is what ``dmlvk bench --help`` says of it, and ``command`` is run. Modules are imported when they run, for
they may need packages that are not installed.
"""

from __future__ import annotations

import ast
import importlib
import pkgutil
from pathlib import Path

import click

NAMES = tuple(sorted(module.name.replace("_", "-") for module in pkgutil.iter_modules(__path__)))  # Of the commands


def comparison_named(name: str) -> click.Command:
    """The command of a name, which imports its module when it is run."""
    module = name.replace("-", "_")
    source = Path(__file__).with_name(f"{module}.py").read_text(encoding="utf-8")
    summary = (ast.get_docstring(ast.parse(source)) or "").splitlines()[0]

    @click.command(
        name,
        short_help=summary.removesuffix("."),
        context_settings={"ignore_unknown_options": True, "help_option_names": []},
    )
    @click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
    @click.pass_context
    def run(context: click.Context, arguments: tuple[str, ...]) -> None:
        try:
            command = importlib.import_module(f"{__name__}.{module}").command
        except ModuleNotFoundError as error:
            raise click.UsageError(f"{name}: needs the package {error.name}, which is not installed") from None
        with command.make_context(name, list(arguments), parent=context.parent) as inner:
            command.invoke(inner)

    return run
