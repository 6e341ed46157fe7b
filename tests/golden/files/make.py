#!/usr/bin/env python3
"""Writes the fixtures of this folder: what NumPy, safetensors, huggingface_hub, Pillow and transformers make.

    make.py                writes them
    make.py pillow         the resized pictures alone; to be run with Pillow 12 as well (pip install --target DIR
                           pillow==12.0.0; PYTHONPATH=DIR make.py pillow)
    make.py check FOLDER   reads with those libraries what equigrad wrote (tests/unit/data_formats_test.cpp, run with
                           EQUIGRAD_WRITE_FILES=FOLDER) and compares

Made with Python 3.11, numpy 2.4.6, torch 2.5.1, safetensors 0.8.0, huggingface_hub 0.36.2, Pillow 13.0.0 and 12.0.0, transformers 4.57.6.
"""

import json
import os
import sys
import zlib

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))


def place(name):
    return os.path.join(HERE, name)


def numbers(count, seed):
    """The same in data_formats_test.cpp: multiples of 1/8 between -16 and 16."""
    i = np.arange(count, dtype=np.uint64)
    return (((i * np.uint64(2654435761) + np.uint64(seed)) >> np.uint64(13)) % np.uint64(257)).astype(np.float64) / 8 - 16


def arrays():
    x = numbers(24, 1)
    return {
        "f4": x.reshape(4, 6).astype("<f4"),
        "f8_fortran": np.asfortranarray(x.reshape(2, 3, 4)),
        "f2": np.array([1, -2.5, 6e-8, 65504, np.inf], dtype="<f2"),
        "big_f4": x[:5].astype(">f4"),
        "big_f8": x[:6].reshape(3, 2).astype(">f8"),
        "big_f2": x[:3].astype(">f2"),
        "big_i8": np.array([-1, 2**62], dtype=">i8"),
        "i1": np.array([-128, 127], dtype="i1"),
        "i2": np.array([-32768, 32767], dtype="<i2"),
        "i4": np.array([[-(2**31)], [2**31 - 1]], dtype="<i4"),
        "i8": np.array([-(2**63), 2**63 - 1], dtype="<i8"),
        "u1": np.arange(6, dtype="u1").reshape(3, 2),
        "u2": np.array([65535], dtype="<u2"),
        "big_u2": np.array([1, 65535], dtype=">u2"),
        "u4": np.array([2**32 - 1], dtype="<u4"),
        "u8": np.array([2**63 - 1], dtype="<u8"),
        "b1": np.array([[True, False, True]]),
        "scalar": np.float64(2.5),
        "empty": np.zeros((0, 3), dtype="<f4"),
        "caf\u00e9": x[:3].astype("<f4"),
    }


def listed(array):
    """Values in row-major order; numbers that JSON lacks, and whole numbers beyond 2^53, as text."""
    flat = np.ascontiguousarray(array).reshape(-1)
    out = []
    for value in flat.tolist():
        plain = isinstance(value, (bool, int)) or np.isfinite(value)
        out.append(value if plain else str(value))
    return {"shape": list(np.shape(array)), "values": out}


def make_numpy(values):
    data = arrays()
    np.savez(place("stored.npz"), **data)
    np.savez_compressed(place("deflated.npz"), **data)
    for version in (2, 3):
        with open(place(f"version{version}.npy"), "wb") as file:
            np.lib.format.write_array(file, data["f4"], version=(version, 0))
    values["numpy"] = {name: listed(array) for name, array in data.items()}


def make_safetensors(values):
    import torch
    from huggingface_hub import save_torch_state_dict
    from safetensors.torch import save_file

    x = torch.from_numpy(numbers(40, 2))
    data = {
        "f64": x[:6].reshape(2, 3).clone(),
        "f32": x[:10].float().clone(),
        "f16": torch.tensor([1.0, -2.5, 6e-8, 65504.0]).half(),
        "bf16": torch.tensor([1.0, -2.5, 3e38, 1e-40]).bfloat16(),
        "i64": torch.tensor([-(2**63), 2**63 - 1]),
        "i32": torch.tensor([[-(2**31), 2**31 - 1]], dtype=torch.int32),
        "i16": torch.tensor([-32768, 32767], dtype=torch.int16),
        "i8": torch.tensor([-128, 127], dtype=torch.int8),
        "u8": torch.tensor([0, 255], dtype=torch.uint8),
        "u16": torch.tensor([65535], dtype=torch.uint16),
        "u32": torch.tensor([2**32 - 1], dtype=torch.uint32),
        "u64": torch.tensor([2**63 - 1], dtype=torch.uint64),
        "bool": torch.tensor([True, False]),
        "scalar": torch.tensor(2.5),
        "empty": torch.zeros(0, 4),
    }
    save_file(data, place("torch.safetensors"), metadata={"format": "pt", "note": "caf\u00e9"})
    values["torch"] = {
        name: listed((t.float() if t.dtype in (torch.bfloat16, torch.float16) else t).numpy()) for name, t in data.items()
    }
    folder = place("sharded")
    os.makedirs(folder, exist_ok=True)
    state = {f"layer.{i}.weight": x[: 8 + i].float().clone() for i in range(5)}
    save_torch_state_dict(state, folder, max_shard_size=100, metadata={"format": "pt"})
    values["sharded"] = {name: listed(t.numpy()) for name, t in state.items()}


def picture(height, width, channels, harsh):
    """The pictures of data_pillow_test.cpp."""
    i = np.arange(height * width * channels, dtype=np.uint64)
    bits = ((i * np.uint64(2654435761) + np.uint64(12345)) & np.uint64(0xFFFFFFFF)) >> np.uint64(13)
    pixels = np.where(bits >> np.uint64(5) & np.uint64(1), 255, 0) if harsh else bits & np.uint64(255)
    return pixels.astype(np.uint8).reshape(height, width, channels)


PICTURES = [
    (7, 5, 1, False), (7, 5, 3, False), (32, 32, 3, False), (48, 64, 3, True), (5, 9, 1, True), (33, 17, 3, False),
    (16, 16, 4, False), (16, 12, 2, True), (1, 1, 3, False), (96, 80, 3, True), (256, 200, 3, False), (2, 3, 1, False),
    (500, 37, 3, False),
]  # fmt: skip
SIZES = [(3, 4), (13, 11), (24, 24), (16, 16), (5, 20), (7, 17), (9, 25), (7, 5), (4, 3), (224, 224), (31, 57), (1, 1), (331, 1000)]


def make_pillow():
    """Both orders of the passes (data/image.h, PillowOrder); the installed Pillow makes one of them."""
    import PIL
    from PIL import Image

    order = "by_size" if int(PIL.__version__.split(".")[0]) >= 13 else "rows_first"
    cases = [{"picture": shape, "size": size} for shape, size in zip(PICTURES, SIZES)]
    if os.path.exists(place("pillow.json")):
        with open(place("pillow.json"), encoding="utf-8") as file:
            cases = json.load(file)
    for case in cases:
        pixels = picture(*case["picture"])
        height, width = case["size"]
        image = Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels)
        case[order] = [zlib.crc32(image.resize((width, height), resample=code).tobytes()) for code in range(6)]
    write_json("pillow.json", cases)


IMAGENET = {"image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]}
CONFIGS = [
    ({"image_processor_type": "ViTImageProcessor"}, (48, 64, 3, True)),
    ({"feature_extractor_type": "ViTFeatureExtractor", "size": 32, "resample": 2, "do_resize": True, "do_normalize": True,
      "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]}, (33, 17, 3, False)),
    *[({"image_processor_type": "ViTImageProcessor", "size": {"height": 19, "width": 40}, "resample": code}, (33, 17, 3, False))
      for code in range(6)],
    ({"image_processor_type": "ViTImageProcessor", "size": {"height": 8, "width": 9}, "do_normalize": False}, (20, 20, 3, False)),
    ({"image_processor_type": "ViTImageProcessor", "size": [8, 9], "rescale_factor": 0.00784313725490196, "image_mean": 0.9,
      "image_std": 0.7}, (20, 21, 3, False)),
    ({"image_processor_type": "ViTImageProcessor", "do_resize": False, "do_rescale": False, **IMAGENET}, (11, 8, 3, False)),
    ({"image_processor_type": "ViTImageProcessor", "do_resize": False, **IMAGENET}, (64, 48, 3, False)),
    ({"image_processor_type": "ViTImageProcessor", "size": 12, "image_mean": [0.1307], "image_std": [0.3081]}, (28, 28, 1, False)),
    ({"image_processor_type": "ViTImageProcessor", "size": 12, "do_convert_rgb": True}, (28, 20, 1, False)),
    ({"image_processor_type": "ViTImageProcessor", "size": 12, "do_convert_rgb": True}, (28, 20, 4, False)),
    ({"image_processor_type": "ViTImageProcessor", "size": 12, "do_convert_rgb": True}, (28, 20, 2, False)),
    ({"image_processor_type": "DeiTImageProcessor", **IMAGENET}, (40, 30, 3, False)),
    ({"feature_extractor_type": "DeiTFeatureExtractor", "size": 25, "crop_size": 22, "do_center_crop": True, "resample": 3,
      **IMAGENET}, (40, 30, 3, False)),
    ({"image_processor_type": "DeiTImageProcessor", "size": 25, "crop_size": {"height": 22, "width": 31}}, (40, 30, 3, False)),
    ({"image_processor_type": "DeiTImageProcessor", "size": 20, "crop_size": 25}, (40, 30, 3, False)),
    ({"image_processor_type": "DeiTImageProcessor", "size": 21, "crop_size": {"height": 26, "width": 28}}, (40, 30, 3, True)),
    ({"image_processor_type": "DeiTImageProcessor", "do_resize": False, "crop_size": {"height": 9, "width": 60}}, (40, 31, 3, False)),
    ({"image_processor_type": "DeiTImageProcessor", "do_resize": False, "do_center_crop": False}, (40, 31, 3, False)),
    ({"image_processor_type": "CLIPImageProcessor"}, (100, 75, 3, False)),
    ({"image_processor_type": "CLIPImageProcessor", "size": 31, "crop_size": 31}, (100, 75, 3, False)),
    ({"image_processor_type": "CLIPImageProcessor", "size": {"shortest_edge": 37}, "do_center_crop": False}, (75, 101, 3, False)),
    ({"image_processor_type": "CLIPImageProcessor", "size": {"shortest_edge": 41}, "do_center_crop": False}, (123, 77, 3, False)),
    ({"image_processor_type": "CLIPImageProcessor", "size": {"height": 30, "width": 20}, "crop_size": 24}, (50, 50, 4, False)),
    ({"image_processor_type": "BitImageProcessor", "size": {"shortest_edge": 29}, "crop_size": {"height": 24, "width": 24},
      **IMAGENET}, (61, 43, 3, False)),
]  # fmt: skip


def make_preprocess():
    import transformers
    from PIL import Image

    cases = []
    for config, shape in CONFIGS:
        name = config.get("image_processor_type") or config["feature_extractor_type"].replace("FeatureExtractor", "ImageProcessor")
        processor = getattr(transformers, name).from_dict(dict(config))
        pixels = picture(*shape)
        # Grey arrays keep their axis; others go in as PIL images, so that they can be converted.
        image = pixels if shape[2] == 1 and not config.get("do_convert_rgb") else Image.fromarray(pixels.squeeze())
        kwargs = {"input_data_format": "channels_last"}
        out = processor.preprocess(image, return_tensors="np", **kwargs)["pixel_values"][0].astype("<f4")
        out = np.ascontiguousarray(out)
        bits = out.reshape(-1)[:: max(1, out.size // 5)].view("<u4").tolist()
        cases.append({"config": config, "picture": shape, "shape": list(out.shape), "crc": zlib.crc32(out.tobytes()), "some": bits})
    return cases


def write_json(name, value):
    with open(place(name), "w", encoding="utf-8") as file:
        lines = ",\n".join(json.dumps(item, ensure_ascii=False) for item in value) if isinstance(value, list) else None
        file.write(f"[{lines}]\n" if lines else json.dumps(value, ensure_ascii=False) + "\n")


def make():
    values = {}
    make_numpy(values)
    make_safetensors(values)
    write_json("values.json", values)
    make_pillow()
    write_json("preprocess.json", make_preprocess())


def check(folder):
    import torch
    from safetensors import safe_open
    from safetensors.numpy import load_file

    def wanted():
        x = numbers(60, 3)
        return {
            "f32": x[:24].reshape(4, 6).astype(np.float32),
            "f64": x.reshape(3, 4, 5),
            "i64": x[:7].astype(np.int64),
            "u8": np.abs(x[:9]).astype(np.uint8).reshape(3, 3),
            "bool": x[:5] > 0,
            "scalar": np.float32(2.5),
            "empty": np.zeros((0, 3), np.float32),
            "transposed": np.ascontiguousarray(x[:24].reshape(4, 6).astype(np.float32).T),
        }

    def compare(what, found, extra=()):
        expected = wanted()
        assert set(found) == set(expected) | set(extra), (what, sorted(found))
        for name, array in expected.items():
            got = np.asarray(found[name])
            assert got.dtype == array.dtype and got.shape == array.shape, (what, name, got.dtype, got.shape)
            assert np.array_equal(got, array), (what, name)
        print(f"{what}: {len(expected)} tensors as expected")

    compare("npz", dict(np.load(os.path.join(folder, "all.npz"))))
    compare("npy", {name: np.load(os.path.join(folder, f"{name}.npy")) for name in wanted()})
    compare("safetensors", load_file(os.path.join(folder, "all.safetensors")))
    with safe_open(os.path.join(folder, "bf16.safetensors"), framework="pt") as file:
        assert file.metadata() == {"format": "pt", "note": "caf\u00e9"}
        assert torch.equal(file.get_tensor("bf16"), torch.tensor([1.0, -2.5, 0.0]).bfloat16())
        print("safetensors with bf16 and metadata: as expected")
    shards = {}
    with open(os.path.join(folder, "sharded", "model.safetensors.index.json"), encoding="utf-8") as file:
        index = json.load(file)
    for name, shard in index["weight_map"].items():
        shards[name] = load_file(os.path.join(folder, "sharded", shard))[name]
    compare(f"{len(set(index['weight_map'].values()))} shards", shards)
    assert index["metadata"]["total_size"] == sum(array.nbytes for array in wanted().values())
    from huggingface_hub import load_torch_model

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            for name, array in wanted().items():
                self.register_buffer(name.replace(".", "_"), torch.zeros(array.shape, dtype=torch.from_numpy(np.array(array)).dtype))

    model = Model()
    load_torch_model(model, os.path.join(folder, "sharded"), strict=False)  # strict holds for each shard alone there
    compare("the same through huggingface_hub", {name: t.numpy() for name, t in model.state_dict().items()})


if __name__ == "__main__":
    what = sys.argv[1:]
    if what[:1] == ["check"] and len(what) == 2:
        check(what[1])
    elif what == ["pillow"]:
        make_pillow()
    elif not what:
        make()
    else:
        sys.exit(__doc__)
