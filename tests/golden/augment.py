#!/usr/bin/env python3
"""Writes augment.json: CRC-32 of what Pillow's functions make of two pictures. data_augment_test.cpp compares.

    python3 tests/golden/augment.py      # needs Pillow; the file was written by 13.0.0"""

import json
import pathlib
import zlib

import PIL
from PIL import Image, ImageEnhance, ImageOps

WIDTH, HEIGHT = 23, 17


def picture(channels):
    """Interleaved byte i is bits 13 to 20 of a multiple of i, pressed into [40, 200] so that there is room to stretch."""
    raw = [((i * 2654435761 + 12345) & 0xFFFFFFFF) >> 13 & 255 for i in range(WIDTH * HEIGHT * channels)]
    return Image.frombytes("RGB" if channels == 3 else "L", (WIDTH, HEIGHT), bytes(40 + b * 160 // 255 for b in raw))


def affine(image, matrix):
    return image.transform(image.size, Image.Transform.AFFINE, matrix, Image.Resampling.NEAREST)


def planes(image):
    return b"".join(band.tobytes() for band in image.split())


def enhanced(kind):
    return lambda image, factor: kind(image).enhance(factor)


CALLS = {
    "shear_x": (lambda i, v: affine(i, (1, v, 0, 0, 1, 0)), [0.3, -0.3, 0.11]),
    "shear_y": (lambda i, v: affine(i, (1, 0, 0, v, 1, 0)), [0.3, -0.25]),
    "translate_x": (lambda i, v: affine(i, (1, 0, v, 0, 1, 0)), [5, -3, 0]),
    "translate_y": (lambda i, v: affine(i, (1, 0, 0, 0, 1, v)), [4, -30]),
    "rotate": (lambda i, v: i.rotate(v), [30.0, -30.0, 7.5, 91.0]),
    "brightness": (enhanced(ImageEnhance.Brightness), [0.1, 0.55, 1.0, 1.9]),
    "contrast": (enhanced(ImageEnhance.Contrast), [0.1, 0.55, 1.9]),
    "color": (enhanced(ImageEnhance.Color), [0.0, 0.55, 1.9]),
    "sharpness": (enhanced(ImageEnhance.Sharpness), [0.1, 0.55, 1.9]),
    "posterize": (lambda i, v: ImageOps.posterize(i, v), [1, 4, 8]),
    "solarize": (lambda i, v: ImageOps.solarize(i, v), [0, 110, 255]),
    "auto_contrast": (lambda i, v: ImageOps.autocontrast(i), [0]),
    "equalize": (lambda i, v: ImageOps.equalize(i), [0]),
}


def main():
    rows = []
    for op, (call, values) in CALLS.items():
        for channels in (1, 3):
            for value in values:
                crc = zlib.crc32(planes(call(picture(channels), value)))
                rows.append({"op": op, "channels": channels, "value": value, "crc32": crc})
    path = pathlib.Path(__file__).resolve().parent / "augment.json"
    lines = ",\n".join(json.dumps(row) for row in rows)
    path.write_text(f'{{"pillow": "{PIL.__version__}",\n"calls": [\n{lines}]}}\n')


if __name__ == "__main__":
    main()
