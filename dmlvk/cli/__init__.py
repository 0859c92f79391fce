"""The command line: ``dmlvk devices``, ``operators``, ``run``, ``chat``, ``serve``, ``bench`` and others.

Exit status: 0 for success; 1 when something measured is outside what is promised or expected; 2 for wrong usage, bad
input or a device that cannot do the work, with one line on standard error; 130 after Ctrl-C; 141 when the reader of
standard output has gone, as with any other program in a pipe.

Commands import what they need when they run, so that ``dmlvk --help`` is there at once.
"""

from __future__ import annotations

import io
import os
import sys
from typing import NoReturn

import click

from dmlvk import __version__
from dmlvk.cli.bench import bench
from dmlvk.cli.chat import chat, convert
from dmlvk.cli.commands import devices, operators, run
from dmlvk.cli.conformance import conformance
from dmlvk.cli.serve import serve, verify
from dmlvk.errors import DmlError, ModelFileError
from dmlvk.support import command_start

EXIT_BAD_INPUT = 2
_EXIT_INTERRUPTED = 130
_EXIT_BROKEN_PIPE = 141


@click.group(
    invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120}
)
@click.version_option(__version__, prog_name="dmlvk")
@click.pass_context
def cli(context: click.Context) -> None:
    """Runs DirectML operators on any Vulkan device."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help(), err=True)
        context.exit(EXIT_BAD_INPUT)


cli.add_command(devices)
cli.add_command(operators)
cli.add_command(run)
cli.add_command(chat)
cli.add_command(convert)
cli.add_command(serve)
cli.add_command(verify)
cli.add_command(conformance)
cli.add_command(bench)


def main(arguments: list[str] | None = None) -> NoReturn:
    """Runs the command line and exits.

    Args:
        arguments: what stands behind the program's name; ``None`` takes them from the process.
    """
    sys.exit(_exit_status(arguments))


def _replace_closed_streams() -> None:
    """Gives a program that was started without some of its three streams (``>&-``) empty ones.

    Their numbers would else be those of the next files that are opened.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - for as long as the process


def _exit_status(arguments: list[str] | None) -> int:
    _replace_closed_streams()
    command_start.is_imported()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # names in model files may have any character
    try:
        # Not cli.main(): that one has opinions of its own about broken pipes, Ctrl-C and exit statuses.
        with cli.make_context("dmlvk", sys.argv[1:] if arguments is None else list(arguments)) as context:
            cli.invoke(context)
        sys.stdout.flush()
        return 0
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.ClickException as error:
        hint = f" (see `{error.ctx.command_path} --help`)" if isinstance(error, click.UsageError) and error.ctx else ""
        return _fail(f"{error.format_message()}{hint}")
    except ModelFileError as error:
        return _fail(str(error), prefix="")
    except DmlError as error:
        return _fail(str(error))
    except (click.Abort, KeyboardInterrupt):
        return _EXIT_INTERRUPTED
    except BrokenPipeError:
        # What Python still holds back would fail again while it shuts down.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _EXIT_BROKEN_PIPE
    except MemoryError:
        return _fail("there is not enough main memory")
    except OSError as error:
        return _fail(str(error))


def _fail(message: str, prefix: str = "dmlvk: ") -> int:
    """One line on standard error. Errors in model files begin with ``file:line:column:``, where editors look for it."""
    click.echo(prefix + " ".join(message.split()), err=True)
    return EXIT_BAD_INPUT
