"""Pictures: what is written can be read back, and rounding is to nearest."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import dmlvk as dml
from dmlvk.models.images import PictureShape, picture_shape, read_picture, write_picture


@pytest.mark.parametrize("data_type", [dml.FLOAT32, dml.FLOAT16, dml.UINT8])
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_every_8_bit_value_survives(tmp_path: Path, data_type: dml.DataType, channels: int) -> None:
    shape = PictureShape(channels, 16, 16)
    values = (
        np.random.default_rng(0).permuted(np.tile(np.arange(256, dtype=np.uint8), (channels, 1)), axis=1).reshape(-1)
    )
    write_picture(tmp_path / "a.png", values, shape)
    assert picture_shape(tmp_path / "a.png") == shape
    read = read_picture(tmp_path / "a.png", shape, data_type)
    assert read.dtype == data_type.numpy_dtype
    write_picture(tmp_path / "b.png", read, shape)
    np.testing.assert_array_equal(read_picture(tmp_path / "b.png", shape, dml.UINT8), values)


def test_floats_are_clamped_and_rounded_to_nearest(tmp_path: Path) -> None:
    values = np.array([np.nan, np.inf, -np.inf, -0.5, 1.5, 0.5, 1.4 / 255, 1.6 / 255], np.float32)
    write_picture(tmp_path / "a.png", values, PictureShape(1, 2, 4))
    written = read_picture(tmp_path / "a.png", PictureShape(1, 2, 4), dml.UINT8)
    assert written.tolist() == [0, 255, 0, 0, 255, 128, 1, 2]


def test_channel_order_is_red_green_blue(tmp_path: Path) -> None:
    write_picture(tmp_path / "a.png", np.array([255, 0, 0, 10, 0, 20], np.uint8), PictureShape(3, 1, 2))
    with Image.open(tmp_path / "a.png") as picture:
        assert [picture.getpixel((x, 0)) for x in range(2)] == [(255, 0, 0), (0, 10, 20)]


def test_jpeg(tmp_path: Path) -> None:
    shape = PictureShape(3, 8, 8)
    write_picture(tmp_path / "a.JPG", np.full(192, 0.5, np.float16), shape)
    assert read_picture(tmp_path / "a.JPG", shape, dml.UINT8).tolist() == [128] * 192
    with pytest.raises(dml.InvalidArgumentError, match="a JPEG picture has no alpha channel"):
        write_picture(tmp_path / "a.jpg", np.zeros(256, np.uint8), PictureShape(4, 8, 8))


def test_broken_pictures_end_in_one_error(tmp_path: Path) -> None:
    """Every cut and a few hundred flipped bytes: a picture, or the one error."""
    path = tmp_path / "a.png"
    rng = np.random.default_rng(3)
    for suffix in ("png", "jpg"):
        Image.fromarray(rng.integers(0, 256, (9, 7, 3), np.uint8)).save(tmp_path / f"whole.{suffix}")
        whole = (tmp_path / f"whole.{suffix}").read_bytes()
        broken = [whole[:length] for length in range(0, len(whole), 7)]
        for _ in range(200):
            flipped = bytearray(whole)
            flipped[rng.integers(len(whole))] ^= int(rng.integers(1, 256))
            broken.append(bytes(flipped))
        for data in broken:
            path.write_bytes(data)
            try:
                shape = picture_shape(path)
                if shape.element_count < 10**6:
                    assert read_picture(path, shape, dml.UINT8).size == shape.element_count
            except dml.InvalidArgumentError as error:
                assert str(path) in str(error) or "a picture" in str(error)
