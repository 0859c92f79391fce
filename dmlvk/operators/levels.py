"""DirectML's feature levels (DML_FEATURE_LEVEL)."""

from __future__ import annotations

import enum
import re

from dmlvk.errors import InvalidArgumentError


class FeatureLevel(enum.IntEnum):
    """What a device supports; each level is a strict superset of the lower ones. The values are DirectML's."""

    LEVEL_1_0 = 0x1000
    LEVEL_2_0 = 0x2000
    LEVEL_2_1 = 0x2100
    LEVEL_3_0 = 0x3000
    LEVEL_3_1 = 0x3100
    LEVEL_4_0 = 0x4000
    LEVEL_4_1 = 0x4100
    LEVEL_5_0 = 0x5000
    LEVEL_5_1 = 0x5100
    LEVEL_5_2 = 0x5200
    LEVEL_6_0 = 0x6000
    LEVEL_6_1 = 0x6100
    LEVEL_6_2 = 0x6200
    LEVEL_6_3 = 0x6300
    LEVEL_6_4 = 0x6400

    @property
    def label(self) -> str:
        """The level as people write it: ``"4_1"``."""
        return self.name.removeprefix("LEVEL_")

    @classmethod
    def from_name(cls, name: str) -> FeatureLevel:
        """The level written ``4_1``, ``4.1``, ``LEVEL_4_1`` or ``DML_FEATURE_LEVEL_4_1``.

        Raises:
            InvalidArgumentError: when there is no such level.
        """
        match = re.fullmatch(r"(?:DML_FEATURE_|)(?:LEVEL_|)(\d)[._](\d)", name)
        member = cls.__members__.get(f"LEVEL_{match[1]}_{match[2]}") if match else None
        if member is None:
            raise InvalidArgumentError(
                f"unknown feature level {name!r}; known are {', '.join(level.label for level in cls)}"
            )
        return member
