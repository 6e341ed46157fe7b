"""Files of tensors, pictures, and paths of every kind."""

import json
import os
import struct
import zlib

import equigrad as eg
import numpy as np
import pytest


def test_safetensors(tmp_path):
    path = tmp_path / "x.safetensors"
    tensors = {"a": eg.arange(6).reshape(2, 3), "b": np.ones(3, "float32"), "c": eg.ones((2, 2), "bf16").T}
    eg.data.save_safetensors(path, tensors, {"made": "here"})
    back = eg.data.load_safetensors(path)
    assert set(back) == {"a", "b", "c"} and back["a"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert back["b"].tolist() == [1, 1, 1] and back["c"].dtype == "bf16"
    assert eg.data.safetensors_metadata(path) == {"made": "here"}
    with pytest.raises(TypeError, match="save_safetensors: 'd' must be a Tensor or an array, not str"):
        eg.data.save_safetensors(path, {"d": "text"})
    with pytest.raises(TypeError, match="save_safetensors: a name must be str, not int"):
        eg.data.save_safetensors(path, {1: eg.ones(2)})
    others = pytest.importorskip("safetensors.numpy")
    eg.data.save_safetensors(path, {"a": back["a"]})
    assert np.array_equal(others.load_file(path)["a"], [[0, 1, 2], [3, 4, 5]])


def write_safetensors(path, dtype, array):
    """A file with one tensor "x" of an element type that tensors may lack."""
    header = json.dumps({"x": {"dtype": dtype, "shape": list(array.shape), "data_offsets": [0, array.nbytes]}}).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + array.tobytes())


@pytest.mark.parametrize("dtype, numpy, wide", [("F16", "float16", "f32"), ("I32", "int32", "i64"), ("U16", "uint16", "i64")])
def test_other_element_types_are_widened_on_request(tmp_path, dtype, numpy, wide):
    path = tmp_path / "x.safetensors"
    write_safetensors(path, dtype, np.arange(6, dtype=numpy).reshape(2, 3))
    with pytest.raises(eg.FileError, match=dtype):
        eg.data.load_safetensors(path)
    x = eg.data.load_safetensors(path, widen=True)["x"]
    assert x.dtype == wide and x.tolist() == [[0, 1, 2], [3, 4, 5]]
    reader = eg.data.open_tensors(path)
    info = reader.tensors[0]
    assert len(reader) == 1 and "x" in reader and "y" not in reader and reader.format == "safetensors"
    assert (info.name, info.dtype, info.shape) == ("x", dtype, (2, 3)) and info.nbytes == 6 * np.dtype(numpy).itemsize
    assert eg.same_bits(reader.read("x", widen=True), x)
    with pytest.raises(eg.FileError):
        reader.read("x")
    with pytest.raises(eg.ValueError):
        reader.read("y")


def test_mapped_tensors_change_no_file(tmp_path):
    path = tmp_path / "x.safetensors"
    eg.data.save_safetensors(path, {"x": eg.zeros(100_000)})
    x = eg.data.open_tensors(path).read("x")
    x.fill(3.0)
    assert eg.data.load_safetensors(path)["x"][0].item() == 0 and x[-1].item() == 3


def test_numpys_files(tmp_path):
    np.savez(tmp_path / "x.npz", a=np.arange(3), b=np.ones((2, 2), "float16"))
    reader = eg.data.open_tensors(tmp_path / "x.npz")
    assert [info.name for info in reader.tensors] == ["a", "b"]
    assert reader.read("a").tolist() == [0, 1, 2] and reader.read("b", widen=True).dtype == "f32"


def write_png(path, pixels):
    """u8 [H, W, 1 or 3] as a file."""
    height, width, channels = pixels.shape

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    header = struct.pack(">IIBBBBB", width, height, 8, 2 if channels == 3 else 0, 0, 0, 0)
    path.write_bytes(
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    )


def test_preprocessing(tmp_path):
    pixels = np.arange(4 * 4 * 3, dtype="uint8").reshape(4, 4, 3)
    write_png(tmp_path / "image.png", pixels)
    config = {"image_processor_type": "ViTImageProcessor", "do_resize": False, "do_rescale": True, "rescale_factor": 1 / 255,
              "do_normalize": True, "image_mean": [0.5] * 3, "image_std": [0.25] * 3}
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(config))
    found = eg.data.preprocess(tmp_path / "image.png", tmp_path)
    assert found.shape == (1, 3, 4, 4) and found.dtype == "f32"
    np.testing.assert_allclose(found.numpy()[0], (pixels.transpose(2, 0, 1) / 255 - 0.5) / 0.25, atol=1e-6)
    assert eg.same_bits(eg.data.preprocess(tmp_path / "image.png", tmp_path / "preprocessor_config.json"), found)
    write_png(tmp_path / "grey.png", pixels[..., :1])
    with pytest.raises(eg.ValueError, match="grey.png: "):
        eg.data.preprocess(tmp_path / "grey.png", tmp_path)


def takers(tmp_path):
    """Everything that takes a path, as functions of it."""
    model = eg.hub.make_model({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 5, "n_embd": 4,
                               "n_layer": 1, "n_head": 1, "n_positions": 4}, key=1)
    return {
        "load_safetensors": eg.data.load_safetensors,
        "safetensors_metadata": eg.data.safetensors_metadata,
        "save_safetensors": lambda path: eg.data.save_safetensors(path, {}),
        "open_tensors": eg.data.open_tensors,
        "open_dataset": lambda path: eg.data.open_dataset("cifar10", data_dir=path),
        "preprocess": lambda path: eg.data.preprocess(path, tmp_path),
        "preprocess config": lambda path: eg.data.preprocess(tmp_path / "none.png", path),
        "Tokenizer.open": eg.data.Tokenizer.open,
        "load": eg.hub.load,
        "load_with_report": eg.hub.load_with_report,
        "load_llama2c": eg.hub.load_llama2c,
        "examine": eg.hub.examine,
        "end_ids": eg.hub.end_ids,
        "save": model.save,
        "save_permutations": lambda path: eg.permute.save_permutations(path, {}),
        "load_permutations": eg.permute.load_permutations,
        "SecretKey.load": eg.permute.SecretKey.load,
        "SecretKey.save": eg.permute.SecretKey.generate().save,
    }


def test_paths_of_every_kind(tmp_path):
    for name, take in takers(tmp_path).items():
        for kind in (str, os.fsencode, lambda path: path):
            path = tmp_path / f"there {len(list(tmp_path.iterdir()))}"
            try:
                take(kind(path))
            except eg.FileError:
                pass  # nothing is there to be read
        for wrong, error in ((3, TypeError), (None, TypeError), ("a\0b", ValueError)):
            with pytest.raises(error):
                take(wrong)
                pytest.fail(f"{name} took {wrong!r}")


def test_errors_name_files_whose_names_are_no_text():
    with pytest.raises(eg.FileError, match=r"nowhere-\\xff"):
        eg.data.load_safetensors(b"/nowhere-\xff")


def test_a_damaged_file_says_what_to_do(tmp_path):
    path = tmp_path / "x.safetensors"
    eg.save({"x": eg.ones(300)}, path)
    good = path.read_bytes()
    for bad in (good[: len(good) // 2], good[:8] + b"garbage" + good[15:], b"", b"plain text, not tensors, and long enough"):
        path.write_bytes(bad)
        with pytest.raises(eg.FileError, match="x.safetensors: the file is damaged or of another format; write it with eg.save"):
            eg.load(path)
    with pytest.raises(eg.FileError, match="nowhere.*no such file$"):
        eg.load(tmp_path / "nowhere")
