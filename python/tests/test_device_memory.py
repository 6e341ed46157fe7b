"""Device memory that tensors and other frameworks share through DLPack. The emulated device passes for CUDA here:
EQUIGRAD_EMULATOR_NAME=cuda, as CTest sets it."""

import ctypes
import gc
import os
import subprocess
import sys
import weakref

import numpy as np
import pytest

import equigrad as eg

CPU, CUDA = 1, 2

here = np.arange(12, dtype="float32").reshape(3, 4)

# Where a module is named it must open: then nothing is skipped.
needs_device = pytest.mark.skipif(
    not eg.cuda.is_available() and "EQUIGRAD_CUDA_MODULE" not in os.environ, reason=f"no device: {eg.cuda.why_unavailable()}"
)


class Producer:
    """An array that is known by its DLPack methods alone, as one of another framework."""

    def __init__(self, x, device=None):
        self.x = x
        self.device = device
        self.asked = []

    def __dlpack__(self, **options):
        self.asked.append(options)
        return self.x.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.device or self.x.__dlpack_device__()


class DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Versioned(ctypes.Structure):
    """DLManagedTensorVersioned."""

    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", Deleter),
        ("flags", ctypes.c_uint64),
        ("tensor", DLTensor),
    ]


FLOAT32, FLOAT16, INT32 = (2, 32), (2, 16), (0, 32)


class Made:
    """A capsule of a producer's own making on the memory of a tensor; counts its releases."""

    kept = []  # a capsule points to its structure until it is released

    def __init__(self, x, shape, strides=None, type=FLOAT32, device=(CUDA, 0), offset=0, read_only=False):
        Made.kept.append(self)
        self.x = x
        self.device = device
        self.released = 0
        self.extents = (ctypes.c_int64 * len(shape))(*shape)
        self.steps = None if strides is None else (ctypes.c_int64 * len(strides))(*strides)
        self.managed = Versioned(1, 1, None, Deleter(self.release), 1 if read_only else 0)
        self.managed.tensor = DLTensor(
            x.data_ptr, device[0], device[1], len(shape), type[0], type[1], 1, self.extents, self.steps, offset
        )

    def release(self, _):
        self.released += 1

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, *, stream=None, max_version=None):
        make = ctypes.pythonapi.PyCapsule_New
        make.restype = ctypes.py_object
        make.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return make(ctypes.addressof(self.managed), b"dltensor_versioned", None)


def live():
    gc.collect()
    return eg.cuda.memory()["live"]


@needs_device
def test_the_device_says_that_it_is_cuda():
    x = eg.tensor(here, device="cuda")
    assert x.__dlpack_device__() == (CUDA, 0)
    assert x.cpu().__dlpack_device__() == (CPU, 0)


@needs_device
@pytest.mark.parametrize("dtype", ["f32", "f64", "i64", "u8", "bool", "bf16"])
def test_there_and_back_without_a_copy(dtype):
    x = eg.tensor(here).to(dtype).cuda()
    for view in (x, x.T, x[1:, ::2], x[2], x[:0], x[1, 1:2]):
        before = live()
        producer = Producer(view)
        y = eg.from_dlpack(producer)
        assert live() == before
        assert y.device == "cuda:0" and y.dtype == dtype
        assert y.data_ptr == view.data_ptr and y.shape == view.shape
        assert eg.same_bits(y, view)
        assert producer.asked == [{"stream": 1, "max_version": (1, 1)}]
    assert eg.from_dlpack(Producer(x.T)).strides == x.T.strides == (1, 4)


@needs_device
def test_writes_are_seen_on_both_sides():
    x = eg.tensor(here, device="cuda")
    y = eg.from_dlpack(Producer(x))
    y[1] = 7.0
    assert x.tolist()[1] == [7.0] * 4
    x[2] = 8.0
    assert y.tolist()[2] == [8.0] * 4
    z = eg.tensor(Producer(x), copy=True)
    assert z.device == "cuda:0" and z.data_ptr != x.data_ptr and eg.same_bits(z, x)
    z[0] = 9.0
    assert x.tolist()[0] == here[0].tolist()


@needs_device
def test_operations_take_it_where_it_is():
    x = eg.tensor(here, device="cuda")
    y = eg.ops.tanh(Producer(x))
    assert y.device == "cuda:0" and eg.same_bits(y, eg.ops.tanh(x))
    with pytest.raises(eg.DeviceError, match="add: input 0 is on cpu, input 1 on cuda:0"):
        eg.ops.add(eg.tensor(here), Producer(x))


@needs_device
def test_memory_lives_as_long_as_somebody_has_it():
    before = live()
    x = eg.tensor(np.ones(1000, "float32"), device="cuda")
    with_x = live()
    assert with_x >= before + 4000
    producer = Producer(x)
    gone = weakref.ref(producer)
    y = eg.from_dlpack(producer)
    del x, producer
    assert live() == with_x and gone() is None  # the capsule holds the tensor, not the one who gave it
    z = y[10:20]
    del y
    assert live() == with_x and z.tolist() == [1.0] * 10
    del z
    assert live() == before
    capsule = eg.tensor(np.ones(1000, "float32"), device="cuda").__dlpack__()
    assert live() == with_x
    del capsule  # never consumed
    assert live() == before


@needs_device
def test_the_producer_is_told_once_when_the_last_tensor_goes():
    x = eg.tensor(here, device="cuda")
    made = Made(x, (3, 4))
    y = eg.from_dlpack(made)
    part = y[1] * 2.0 + y[2]
    view = y.T
    assert y.data_ptr == x.data_ptr and eg.same_bits(y, x)
    del y
    gc.collect()
    assert made.released == 0
    del view
    gc.collect()
    assert made.released == 1
    assert part.tolist() == (here[1] * 2 + here[2]).tolist()


@needs_device
def test_capsules_are_used_once():
    x = eg.tensor(here, device="cuda")
    capsule = x.__dlpack__(stream=1)

    class Again(Producer):
        def __dlpack__(self, **options):
            return capsule

    y = eg.from_dlpack(Again(x))
    assert y.data_ptr == x.data_ptr
    with pytest.raises(TypeError, match="a capsule that was used already"):
        eg.from_dlpack(Again(x))


@needs_device
def test_what_another_framework_may_give():
    x = eg.tensor(here, device="cuda")
    shifted = eg.from_dlpack(Made(x, (2, 4), offset=16))  # no strides: packed
    assert shifted.tolist() == here[1:].tolist()
    assert eg.from_dlpack(Made(x, (4, 3), strides=(1, 4))).tolist() == here.T.tolist()
    assert eg.from_dlpack(Made(x, (2, 4), strides=(0, 1))).tolist() == [here[0].tolist()] * 2
    assert eg.from_dlpack(Made(x, (0, 4))).shape == (0, 4)
    assert eg.from_dlpack(Made(x, ())).item() == 0.0
    fixed = Made(x, (3, 4), read_only=True)  # tensors can be written to
    y = eg.from_dlpack(fixed)
    assert y.device == "cuda:0" and y.data_ptr != x.data_ptr and eg.same_bits(y, x)
    gc.collect()
    assert fixed.released == 1


@needs_device
def test_what_cannot_be_taken_is_refused_in_words():
    x = eg.tensor(here, device="cuda")
    for made, error, words in [
        (Made(x, (3, 4), type=INT32), TypeError, "elements of type int32 have no counterpart"),
        (Made(x, (3, 4), type=FLOAT16), TypeError, "elements of type float16 have no counterpart"),
        (Made(x, (4,), strides=(-1,), offset=12), eg.ValueError, "an axis runs backwards, and it is on cuda:0; copy"),
        (Made(x, (4,), offset=2), eg.ValueError, "its elements are not aligned, and it is on cuda:0"),
        (Made(x, (1,) * 9), eg.ShapeError, "it has 9 axes"),
    ]:
        with pytest.raises(error, match=words):
            eg.from_dlpack(made)
        gc.collect()
        assert made.released == 1, words
    fixed = Made(x, (3, 4), read_only=True)
    with pytest.raises(eg.ValueError, match="copy is False: the array is read-only"):
        eg.tensor(fixed, copy=False)
    assert eg.tensor(Made(x, (3, 4)), copy=False).data_ptr == x.data_ptr


@needs_device
def test_other_devices_are_refused_before_anything_is_taken():
    x = eg.tensor(here, device="cuda")
    for device, error, words in [
        ((CUDA, 5), eg.DeviceError, "cuda:5: there is no such device"),
        ((CUDA, 64), eg.ValueError, "64"),
        ((CUDA, -1), eg.ValueError, "-1"),
    ]:
        producer = Producer(x, device)
        with pytest.raises(error, match=words):
            eg.from_dlpack(producer)
        assert producer.asked == []
    for number in (3, 8, 10, 13):  # pinned host memory, Metal, ROCm, managed memory
        with pytest.raises(eg.ValueError, match=rf"on another device \(DLPack type {number}\); copy it to the CPU first"):
            eg.from_dlpack(Made(x, (3, 4), device=(number, 0)))
    # What __dlpack_device__ says and what the capsule says must agree.
    with pytest.raises(eg.ValueError, match=r"on another device \(DLPack type 2\)"):
        eg.from_dlpack(Producer(x, (CPU, 0)))
    with pytest.raises(eg.ValueError, match="said to be on cuda:0, and its capsule says DLPack type 1, number 0"):
        lying = Made(x.cpu(), (3, 4), device=(CPU, 0))
        lying.device = (CUDA, 0)
        eg.from_dlpack(lying)


@needs_device
def test_streams_are_those_of_the_protocol():
    x = eg.tensor(here, device="cuda")
    for stream in (None, -1, 1, 2, 12345678, 2**63 + 8):
        assert "dltensor" in repr(x.__dlpack__(stream=stream))
    for stream, error, words in [
        (0, eg.ValueError, "stream 0 is ambiguous"),
        (-2, eg.ValueError, "stream must be -1, 1, 2 or the address"),
        (-(2**70), eg.ValueError, "stream must be -1, 1, 2 or the address"),
        (1.0, TypeError, "stream must be None or an int, not float"),
        (True, TypeError, "stream must be None or an int, not bool"),
        ("1", TypeError, "stream must be None or an int, not str"),
    ]:
        with pytest.raises(error, match=words):
            x.__dlpack__(stream=stream)
    assert "dltensor_versioned" in repr(x.__dlpack__(stream=1, max_version=(1, 0), dl_device=(CUDA, 0), copy=False))
    for options in ({"copy": True}, {"dl_device": (CPU, 0)}):
        with pytest.raises(BufferError):
            x.__dlpack__(**options)


def test_a_tensor_on_the_cpu_has_no_streams():
    x = eg.tensor(here)
    assert "dltensor" in repr(x.__dlpack__(stream=None))
    for stream in (-1, 1):
        with pytest.raises(eg.ValueError, match="stream must be None for a tensor on the CPU"):
            x.__dlpack__(stream=stream)


def run(program, **environment):
    result = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, **environment}, capture_output=True, text=True
    )
    assert result.stdout == "done\n", result.stdout + result.stderr


emulated = pytest.mark.skipif(
    "EQUIGRAD_EMULATOR_NAME" not in os.environ, reason="the host cannot look into the memory of a real device"
)


@emulated
def test_streams_decide_who_waits():
    """On a late stream work is done when somebody waits for it; the host looks into the emulated memory."""
    run(
        """
import ctypes
import equigrad as eg
x = eg.zeros(4, "f32").cuda()
eg.cuda.synchronize()
look = lambda: list((ctypes.c_float * 4).from_address(x.data_ptr))
for value, stream in ((1.0, None), (2.0, 1), (3.0, 2), (4.0, 12345678)):
    x[...] = value
    x.__dlpack__(stream=-1)
    assert look() != [value] * 4, "stream -1 waits"
    x.__dlpack__(stream=stream)
    assert look() == [value] * 4, f"stream {stream} does not wait"
print("done")
""",
        EQUIGRAD_EMULATOR_STREAM="late",
    )


@emulated
def test_work_is_done_before_the_memory_goes():
    """A producer that spoils its memory once it is released, as one that uses it again does."""
    run(
        """
import ctypes, gc
import equigrad as eg
x = eg.full((4,), 3.0, "f32").cuda()
eg.cuda.synchronize()
import test_device_memory as t
made = t.Made(x, (4,))
def spoil(_):
    (ctypes.c_float * 4).from_address(x.data_ptr)[:] = [9.0] * 4
made.managed.deleter = keep = t.Deleter(spoil)
y = eg.from_dlpack(made)
z = y + 1.0
del y
gc.collect()
assert list((ctypes.c_float * 4).from_address(x.data_ptr)) == [9.0] * 4, "it was not released"
assert z.tolist() == [4.0] * 4, z.tolist()
print("done")
""",
        EQUIGRAD_EMULATOR_STREAM="late",
        PYTHONPATH=os.pathsep.join([os.path.dirname(os.path.abspath(__file__)), os.environ["PYTHONPATH"]]),
    )


@emulated
def test_under_its_own_name_the_emulated_device_shares_nothing():
    run(
        """
import equigrad as eg
import test_device_memory as t
x = eg.tensor(t.here, device="cuda")
for share in (x.__dlpack_device__, x.__dlpack__):
    try:
        share()
    except eg.DeviceError as error:
        assert "cuda:0 is emulated's; no other framework knows its memory" in str(error), error
    else:
        raise AssertionError("it was given away")
made = t.Made(x, (3, 4))
try:
    eg.from_dlpack(made)
except eg.DeviceError as error:
    assert "the array is on a CUDA device, and cuda:0 here is emulated's; copy it to the CPU first" in str(error), error
else:
    raise AssertionError("it was taken")
print("done")
""",
        EQUIGRAD_EMULATOR_NAME="",
        PYTHONPATH=os.pathsep.join([os.path.dirname(os.path.abspath(__file__)), os.environ["PYTHONPATH"]]),
    )


@needs_device
@pytest.mark.parametrize("major", [0, 2])
def test_another_major_version_is_refused(major):
    for x, device in ((eg.tensor(here, device="cuda"), (CUDA, 0)), (eg.tensor(here), (CPU, 0))):
        made = Made(x, (3, 4), device=device)
        made.managed.major = major
        with pytest.raises(TypeError, match=f"version {major} of DLPack; version 1 is read"):
            eg.from_dlpack(made)
        made.managed.major = 1
        assert eg.from_dlpack(made).tolist() == here.tolist()


def test_without_a_module_an_array_on_a_device_is_refused():
    run(
        """
import equigrad as eg
class Elsewhere:
    def __dlpack_device__(self): return (2, 0)
    def __dlpack__(self, **options): raise AssertionError("it was asked")
try:
    eg.from_dlpack(Elsewhere())
except eg.DeviceError as error:
    assert "no module for CUDA was found" in str(error), error
else:
    raise AssertionError("it was taken")
print("done")
""",
        EQUIGRAD_CUDA_MODULE="/nonexistent/module.so",
    )


@needs_device
def test_numpy_refuses_device_memory():
    with pytest.raises((BufferError, RuntimeError, ValueError, TypeError)):
        np.from_dlpack(eg.tensor(here, device="cuda"))
