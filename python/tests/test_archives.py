"""xz files and tar archives, by libarchive or, in wheels, by Python's modules: the same images and the same refusals."""

import gzip
import io
import lzma
import random
import struct
import tarfile
import zlib

import equigrad as eg
import numpy as np
import pytest


def png(pixels):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    header = struct.pack(">IIBBBBB", pixels.shape[1], pixels.shape[0], 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


IMAGES = np.random.default_rng(7).integers(0, 256, (3, 32, 32, 3), dtype=np.uint8)


def tar_of(*others, format=tarfile.USTAR_FORMAT, prefix=""):
    """A tar with the images, a folder and what else is asked for: pairs of a TarInfo and its content."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=format) as archive:
        folder = tarfile.TarInfo(prefix + "test")
        folder.type = tarfile.DIRTYPE
        archive.addfile(folder)
        for i, pixels in enumerate(IMAGES):
            content = png(pixels)
            info = tarfile.TarInfo(f"{prefix}test/{i}.png")
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
        for info, content in others:
            archive.addfile(info, io.BytesIO(content))
    return out.getvalue()


def cifar(folder, packed):
    place = folder / "cifar10"
    place.mkdir(exist_ok=True)
    (place / "cifar10_jpeg_60000.tar.xz").write_bytes(packed)
    lines = "".join(f"{i}\ttest/{i}.png\n" for i in range(len(IMAGES)))
    (place / "cifar10_jpeg_test_order.tsv.gz").write_bytes(gzip.compress(lines.encode()))
    return eg.data.open_dataset("cifar10", "test", data_dir=folder)


def assert_right(dataset):
    assert len(dataset) == len(IMAGES)
    for i, pixels in enumerate(IMAGES):
        assert dataset.label(i) == i and np.array_equal(dataset.pixels(i).numpy(), pixels.transpose(2, 0, 1))


@pytest.mark.parametrize("format", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_a_tar_of_images(tmp_path, format):
    assert_right(cifar(tmp_path, lzma.compress(tar_of(format=format))))
    assert_right(cifar(tmp_path, lzma.compress(tar_of(format=format, prefix="./"))))
    assert_right(cifar(tmp_path, gzip.compress(tar_of(format=format))))
    assert_right(cifar(tmp_path, tar_of(format=format)))
    long = tarfile.TarInfo("a" * 60 + "/" + "b" * 60 + ("/" + "c" * 120 if format != tarfile.USTAR_FORMAT else ""))
    assert_right(cifar(tmp_path, lzma.compress(tar_of((long, b""), format=format))))


def test_an_xz_file_of_several_streams(tmp_path):
    tar = tar_of()
    streams = [lzma.compress(tar[at : at + 1000]) for at in range(0, len(tar), 1000)]
    assert_right(cifar(tmp_path, b"".join(streams)))
    assert_right(cifar(tmp_path, (b"\0" * 8).join(streams) + b"\0" * 4))
    with pytest.raises(eg.FileError, match=r"cifar10_jpeg_60000.tar.xz: truncated or corrupt"):
        cifar(tmp_path, b"".join(streams) + b"more")


def link(kind, target):
    info = tarfile.TarInfo("test/link")
    info.type, info.linkname = kind, target
    return info, b""


def device():
    info = tarfile.TarInfo("test/link")
    info.type, info.devmajor, info.devminor = tarfile.CHRTYPE, 1, 3
    return info, b""


def test_names_that_are_not_utf_8(tmp_path):
    odd = tarfile.TarInfo(b"test/\xff\xfe".decode("utf-8", "surrogateescape"))
    assert_right(cifar(tmp_path, tar_of((odd, b""))))
    odd.type, odd.linkname = tarfile.SYMTYPE, "x"
    with pytest.raises(eg.FileError, match=r"not a regular file$"):
        cifar(tmp_path, tar_of((odd, b"")))


@pytest.mark.parametrize("other", [link(tarfile.SYMTYPE, "/etc/passwd"), link(tarfile.LNKTYPE, "test/0.png"), device()],
                         ids=["symbolic", "hard", "device"])
def test_links_and_devices_are_refused(tmp_path, other):
    with pytest.raises(eg.FileError, match=r"cifar10_jpeg_60000.tar.xz: member 'test/link': not a regular file$"):
        cifar(tmp_path, lzma.compress(tar_of(other)))


def test_a_tar_without_its_end_is_refused(tmp_path):
    tar = tar_of()
    end = len(tar.rstrip(b"\0"))
    for cut in (tar[:end], tar[: end // 512 * 512], tar[:700], b""):
        with pytest.raises(eg.FileError, match=r"cifar10_jpeg_60000.tar.xz: truncated, or not a tar archive: its end marker"):
            cifar(tmp_path, lzma.compress(cut))


def test_every_truncation_of_an_xz_file_is_refused(tmp_path):
    packed = lzma.compress(tar_of())
    assert_right(cifar(tmp_path, packed))
    for size in [*range(6, 40), *range(40, len(packed) - 40, 61), *range(len(packed) - 40, len(packed))]:
        with pytest.raises(eg.FileError, match=r"cifar10_jpeg_60000.tar.xz: truncated or corrupt"):
            cifar(tmp_path, packed[:size])


def test_damaged_bytes_give_an_error_or_the_same_images(tmp_path):
    """A thousand files with one byte changed, packed and plain: one error class, and never other images."""
    draw = random.Random(3)
    packed, tar = lzma.compress(tar_of()), tar_of()
    outcomes = {True: 0, False: 0}
    for i in range(1000):
        whole = bytearray(packed if i % 2 else tar)
        at = draw.randrange(6 if i % 2 else 0, len(whole))
        whole[at] ^= 1 << draw.randrange(8)
        try:
            dataset = cifar(tmp_path, bytes(whole))
        except eg.FileError as error:
            assert "cifar10" in str(error)
            outcomes[False] += 1
            continue
        outcomes[True] += 1
        assert len(dataset) == len(IMAGES)
        if i % 2:
            assert_right(dataset)
    assert outcomes[False] > 500, outcomes
