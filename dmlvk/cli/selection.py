"""What ``--device``, ``--json`` and ``--arithmetic`` mean."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import click

from dmlvk.support.arithmetic import ARITHMETICS
from dmlvk.support.files import check_writable

_INDEX_DIGITS = 9

arithmetic_option = click.option(
    "--arithmetic",
    type=click.Choice(ARITHMETICS),
    help="portable: the same bits on every device. device: sums of products are rounded as the device likes. "
    "Without it the environment variable DMLVK_ARITHMETIC decides, else portable.",
)
"""As ``dmlvk.Device`` takes it; ``None`` when it is not given."""


class NumberRange(click.FloatRange):
    """As click's, which takes NaN for a number of any range."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number.

        Raises:
            click.UsageError: when it is none of the range.
        """
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not in the range {self.min:g} to {self.max:g}.", param, ctx)
        return number


class WrittenFile(click.Path):
    """A file that is written in the end; what cannot be written is refused before anything is measured.

    Args:
        allow_dash: whether «-» is standard output.
    """

    def __init__(self, *, allow_dash: bool = False) -> None:
        super().__init__(dir_okay=False, allow_dash=allow_dash, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path.

        Raises:
            click.UsageError: when it cannot be written to.
        """
        path: Any = super().convert(value, param, ctx)
        if not (self.allow_dash and str(path) == "-"):
            try:
                check_writable(path)
            except (OSError, ValueError) as error:
                self.fail(str(error), param, ctx)
        return path


device_option = click.option("--device", "-d", metavar="N|NAME", help="Index, UUID, PCI address or part of the name.")
json_option = click.option(
    "--json", "json_file", type=WrittenFile(), metavar="FILE", help="Write everything that was measured."
)


def chosen_device(text: str | None) -> int | str | None:
    """What ``dmlvk.Device`` takes for the text of ``--device``; ``None`` when it is not given."""
    return None if text is None else device_selector(text)


def device_selector(text: str) -> int | str:
    """An index; or a UUID, a PCI address or a part of a name."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _INDEX_DIGITS else text
