"""What ``--device`` and ``--arithmetic`` mean."""

from __future__ import annotations

import click

from dmlvk.arithmetic import ARITHMETICS

_INDEX_DIGITS = 9

arithmetic_option = click.option(
    "--arithmetic",
    type=click.Choice(ARITHMETICS),
    help="portable: the same bits on every device. device: sums of products are rounded as the device likes. "
    "Without it the environment variable DMLVK_ARITHMETIC decides, else portable.",
)
"""As ``dmlvk.Device`` takes it; ``None`` when it is not given."""


def device_selector(text: str) -> int | str:
    """An index; or a UUID, a PCI address or a part of a name."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _INDEX_DIGITS else text
