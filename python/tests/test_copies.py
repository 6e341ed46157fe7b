"""Copies and pickles of results, configs and tensors."""

import copy
import pickle
import subprocess
import sys

import equigrad as eg
import numpy as np
import pytest

WAYS = {"pickle": lambda value: pickle.loads(pickle.dumps(value)), "deepcopy": copy.deepcopy}
each_way = pytest.mark.parametrize("again", WAYS.values(), ids=WAYS)


# --- results of operations ---


@pytest.mark.parametrize(
    "result",
    [
        lambda x: eg.ops.topk(x, 2),
        lambda x: eg.ops.sort(x),
        lambda x: eg.ops.max_with_index(x, 1),
        lambda x: eg.ops.batch_norm(x),
    ],
    ids=["topk", "sort", "max_with_index", "batch_norm"],
)
@each_way
def test_results_with_names(again, result):
    found = result(eg.random.normal((4, 3), key=1))
    copied = again(found)
    assert type(copied) is type(found) and type(found) is getattr(eg.ops, type(found).__name__)
    assert all(eg.same_bits(a, b) for a, b in zip(copied, found))


def test_results_are_read_by_a_process_that_never_made_one():
    data = pickle.dumps(eg.ops.topk(eg.tensor([3.0, 1.0, 2.0]), 2))
    code = f"import pickle\nfound = pickle.loads({data!r})\nprint(type(found).__name__, found.values.tolist())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "TopkResult [3.0, 2.0]\n", done.stderr
    with pytest.raises(AttributeError, match="there is no"):
        eg.ops.GeluResult  # it has one output


# --- configs ---


CONFIGS = {
    "RotaryConfig": {"on": True, "frequencies": [1.0, 0.1]},
    "BlockConfig": {"dim": 24, "heads": 4, "activation": "relu", "norm": "rms", "rotary": eg.nn.RotaryConfig(on=True)},
    "VitConfig": {"image": 16, "pooling": "mean", "encoder": eg.nn.BlockConfig(dim=24), "embedding_dropout": 0.25},
    "BertConfig": {"layers": 2, "head": "language_model"},
    "DecoderConfig": {"layers": 2, "padding": 3},
    "DifmConfig": {"vocabularies": [3, 4], "hidden": [5]},
    "SetBlockConfig": {"dim": 8, "norm": False},
    "SetTransformerConfig": {"inputs": 3, "block": eg.nn.SetBlockConfig(dim=8)},
    "MoeConfig": {"experts": 3, "jitter": 0.5},
}


def test_every_config_is_tried():
    assert set(CONFIGS) == {name for name in dir(eg.nn) if name.endswith("Config")}


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("again", [*WAYS.values(), copy.copy], ids=[*WAYS, "copy"])
def test_configs(again, name):
    config = getattr(eg.nn, name)(**CONFIGS[name])
    copied = again(config)
    assert type(copied) is type(config) and copied == config and not copied != config and repr(copied) == repr(config)
    assert config != getattr(eg.nn, name)() and config != 3
    with pytest.raises(TypeError, match="unhashable"):
        hash(config)


def test_a_copied_config_is_another():
    config = eg.nn.VitConfig(image=16)
    for copied in (copy.copy(config), copy.deepcopy(config)):
        copied.encoder.dim = 7
        copied.image = 8
        assert config.encoder.dim != 7 and config.image == 16 and copied != config


class Noted(eg.nn.BlockConfig):
    """A class of the user's own, whose constructor takes something else."""

    def __init__(self, note):
        super().__init__(dim=48)
        self.note = note


@each_way
def test_configs_of_a_derived_class(again):
    copied = again(Noted("mine"))
    assert type(copied) is Noted and copied.note == "mine" and copied.dim == 48
    assert copied == Noted("mine") and copied != eg.nn.BlockConfig(dim=48)


@pytest.mark.parametrize("again", [*WAYS.values(), copy.copy], ids=[*WAYS, "copy"])
def test_schedules(again):
    schedule = eg.optim.Schedule("step", base=0.5, warmup=2, total_steps=30, final_fraction=0.1, drop_every=4, drop_factor=0.3)
    copied = again(schedule)
    assert copied.kind == "step" and [copied(i) for i in range(40)] == [schedule(i) for i in range(40)]
    falling = again(eg.optim.Schedule("cosine", total_steps=10, final_fraction=0.25))
    assert falling(10) == eg.optim.Schedule("cosine", total_steps=10, final_fraction=0.25)(10)


# --- memory beside the stream ---


@pytest.mark.parametrize("dtype", ["f32", "f64", "i64", "u8", "bool", "bf16"])
def test_protocol_5_sends_memory_beside_the_stream(dtype):
    x = (eg.random.uniform((1000, 100), key=1) * 2.0).to(dtype)
    buffers = []
    data = pickle.dumps(x, protocol=5, buffer_callback=buffers.append)
    assert len(data) < 200 and len(buffers) == 1 and buffers[0].raw().nbytes == x.nbytes
    with buffers[0].raw() as memory:
        assert np.frombuffer(memory, "u1").ctypes.data == x.data_ptr  # no copy
    for received in (buffers, [bytes(b) for b in buffers], [bytearray(b) for b in buffers]):
        y = pickle.loads(data, buffers=received)
        assert y.dtype == dtype and eg.same_bits(x, y)
        y.fill(1)  # it is a copy
        assert eg.same_bits(x, pickle.loads(data, buffers=received))


def test_what_protocol_5_hands_out_cannot_be_written_to():
    x, buffers = eg.tensor(np.array([1.0, 2.0])), []
    data = pickle.dumps(x, protocol=5, buffer_callback=buffers.append)
    with eg.Tape() as tape:
        loss = (x * x).sum()
        with eg.pause():
            pickle.loads(data, buffers=buffers).fill(7)
    assert tape.gradient(loss, x).tolist() == [2, 4]
    with buffers[0].raw() as memory, pytest.raises(TypeError, match="read-only"):
        memory[0] = 1


def test_protocol_5_of_parts_and_nothing():
    x = eg.random.normal((6, 4), key=1)
    for y in (x.T, x[::2, 1:3], x[0].expand(5, 4), eg.zeros((0, 3)), eg.full((), 2.0)):
        for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
            assert eg.same_bits(pickle.loads(pickle.dumps(y, protocol=protocol)), y)
        buffers = []
        data = pickle.dumps(y, protocol=5, buffer_callback=buffers.append)
        assert eg.same_bits(pickle.loads(data, buffers=[bytearray(b) for b in buffers]), y)
    with pytest.raises(eg.ValueError, match=r"95 bytes do not fill f32 \[6, 4\]"):
        pickle.loads(pickle.dumps(x, protocol=5, buffer_callback=lambda b: False), buffers=[bytearray(95)])
