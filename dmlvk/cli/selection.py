"""What ``--device`` and ``--arithmetic`` mean."""

from __future__ import annotations

import math
from typing import Any

import click

from dmlvk.support.arithmetic import ARITHMETICS

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


def device_selector(text: str) -> int | str:
    """An index; or a UUID, a PCI address or a part of a name."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _INDEX_DIGITS else text
