"""Pictures as tensors: reading and writing .png and .jpg files in the order N, C, H, W.

Channels are 1 (grey, by the weights of ITU-R BT.601), 3 (red, green, blue) or 4 (and alpha). FLOAT32 and FLOAT16 values
go from 0 to 1 (the 8-bit value divided by 255), as in DxDispatch; UINT8 values are the 8-bit values themselves.
"""

from __future__ import annotations

import contextlib
import dataclasses
import struct
import warnings
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image, UnidentifiedImageError

from dmlvk.datatypes import DataType
from dmlvk.errors import InvalidArgumentError
from dmlvk.support.files import open_regular, written_whole

SUFFIXES = (".png", ".jpg", ".jpeg")  # File name endings, in lower case, that mean a picture

DATA_TYPES = (DataType.FLOAT32, DataType.FLOAT16, DataType.UINT8)
"""Element types that a picture can be read into or written from."""

_MODES = {1: "L", 3: "RGB", 4: "RGBA"}
_BROKEN_FILE_ERRORS = (OSError, SyntaxError, ValueError, EOFError, IndexError, TypeError, struct.error, zlib.error)
"""What Pillow raises, one place or another, for files that are cut off or otherwise broken."""

_JPEG_QUALITY = 95
_MAXIMUM_SIDE = 65_535


@dataclasses.dataclass(frozen=True)
class PictureShape:
    """The sizes [1, C, H, W] of a picture's tensor."""

    channels: int
    height: int
    width: int

    @classmethod
    def from_sizes(cls, sizes: tuple[int, ...]) -> PictureShape:
        """Checks the sizes N, C, H, W: N is 1, C is 1, 3 or 4.

        Raises:
            InvalidArgumentError: when they are something else.
        """
        if len(sizes) != 4 or sizes[0] != 1 or sizes[1] not in _MODES or not min(sizes[2:]) >= 1:
            raise InvalidArgumentError(
                f"a picture has the sizes [1, C, H, W] with C 1 (grey), 3 (RGB) or 4 (RGBA); got {list(sizes)}"
            )
        if max(sizes[2:]) > _MAXIMUM_SIDE:
            raise InvalidArgumentError(f"a picture is at most {_MAXIMUM_SIDE} pixels high and wide; got {list(sizes)}")
        return cls(*sizes[1:])

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """The sizes N, C, H, W."""
        return (1, self.channels, self.height, self.width)

    @property
    def element_count(self) -> int:
        return self.channels * self.height * self.width


def is_picture(path: Path) -> bool:
    return path.suffix.lower() in SUFFIXES


def picture_shape(path: Path) -> PictureShape:
    """The sizes of a picture file as it is, read from its header.

    Raises:
        InvalidArgumentError: when the file is no picture that can be read.
    """
    with _opened(path) as picture:
        channels = {"1": 1, "L": 1, "RGBA": 4, "LA": 4}.get(picture.mode, 3)
        return PictureShape.from_sizes((1, channels, picture.height, picture.width))


def read_picture(path: Path, shape: PictureShape, data_type: DataType) -> npt.NDArray[Any]:
    """Reads a picture, resampled (bicubic) where its size differs from ``shape``.

    Args:
        shape: channels, height and width of the result.

    Returns:
        Values in the order C, H, W, flat.

    Raises:
        InvalidArgumentError: when the file cannot be read as a picture.
    """
    with _opened(path) as opened:
        picture: Image.Image = opened.convert(_MODES[shape.channels])
        if picture.size != (shape.width, shape.height):
            picture = picture.resize((shape.width, shape.height), Image.Resampling.BICUBIC)
        pixels = np.asarray(picture, np.uint8).reshape(shape.height, shape.width, shape.channels)
    planes = np.ascontiguousarray(pixels.transpose(2, 0, 1)).reshape(-1)
    if data_type is DataType.UINT8:
        return planes
    return (planes.astype(np.float32) / np.float32(255)).astype(data_type.numpy_dtype)


def check_channels(path: Path, shape: PictureShape) -> None:
    """Checks that the format that a file's ending chooses can hold the channels.

    Raises:
        InvalidArgumentError: for a JPEG picture with four.
    """
    if path.suffix.lower() != ".png" and shape.channels == 4:
        raise InvalidArgumentError("a JPEG picture has no alpha channel: write 1 or 3 channels, or a .png")


def write_picture(path: Path, values: npt.NDArray[Any], shape: PictureShape) -> None:
    """Writes values as a picture; the reverse of :func:`read_picture`.

    Floats are clamped to [0, 1], scaled by 255 and rounded to nearest; NaN becomes 0.

    Args:
        path: the file; its ending chooses PNG or JPEG.
        values: ``shape.element_count`` values in the order C, H, W.
        shape: channels, height and width.

    Raises:
        InvalidArgumentError: when the format cannot hold the picture (JPEG has no alpha).
        OSError: when the file cannot be written.
    """
    check_channels(path, shape)
    if values.dtype != np.uint8:
        unit = np.clip(np.nan_to_num(values.astype(np.float64), nan=0.0, posinf=1.0, neginf=0.0), 0.0, 1.0)
        values = np.rint(unit * 255.0).astype(np.uint8)
    pixels = values.reshape(shape.channels, shape.height, shape.width).transpose(1, 2, 0)
    if shape.channels == 1:
        pixels = pixels[:, :, 0]
    picture = Image.fromarray(np.ascontiguousarray(pixels))
    with written_whole(path) as file:
        if path.suffix.lower() == ".png":
            picture.save(file, format="PNG")
        else:
            picture.save(file, format="JPEG", quality=_JPEG_QUALITY)


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[Image.Image]:
    """Opens a picture and turns everything that can be wrong with it into one error."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            with open_regular(path) as file, Image.open(file, formats=("PNG", "JPEG")) as picture:
                if picture.mode.startswith(("I", "F")):
                    raise InvalidArgumentError(
                        f"the picture {str(path)!r} has more than 8 bits for each channel, which is not read"
                    )
                yield picture
    except UnidentifiedImageError as error:
        raise InvalidArgumentError(f"{str(path)!r} is not a PNG or JPEG picture") from error
    except Image.DecompressionBombError as error:
        raise InvalidArgumentError(f"the picture {str(path)!r} is too large: {error}") from error
    except _BROKEN_FILE_ERRORS as error:
        if isinstance(error, InvalidArgumentError):
            raise
        words = getattr(error, "strerror", None) or error  # without the file's name
        raise InvalidArgumentError(f"the picture {str(path)!r} cannot be read: {words}") from error
