"""Memory that arrays and tensors share: both ways, with NumPy and through DLPack, and who keeps whom alive."""

import array
import ctypes
import gc
import mmap
import sys
import weakref

import equigrad as eg
import numpy as np
import pytest

NAMES = {"float32": "f32", "float64": "f64", "int64": "i64", "uint8": "u8", "bool": "bool"}


def owner(size):
    """An array whose memory can be watched: it goes when nobody needs it."""

    class Watched(np.ndarray):
        pass

    return np.arange(float(size)).view(Watched)


@pytest.mark.parametrize("dtype", NAMES)
def test_in_without_a_copy(dtype):
    a = np.ones((3, 4), dtype)
    x = eg.tensor(a)
    assert x.dtype == NAMES[dtype] and x.shape == (3, 4)
    assert x.data_ptr == a.__array_interface__["data"][0]
    a[1, 2] = 0
    assert x[1, 2].item() == 0


@pytest.mark.parametrize("dtype", NAMES)
def test_out_without_a_copy(dtype):
    x = eg.ones((3, 4), NAMES[dtype])
    a = x.numpy()
    assert a.dtype == dtype and a.shape == (3, 4) and a.__array_interface__["data"][0] == x.data_ptr
    assert np.shares_memory(a, np.asarray(x))
    assert not a.flags.writeable
    with pytest.raises(ValueError):
        a[0, 0] = 0
    b = x.numpy(writable=True)
    b[1, 2] = 0
    assert x[1, 2].item() == 0 and a[1, 2] == 0


def test_strided_views_both_ways():
    a = np.arange(120.0).reshape(4, 5, 6)
    for view in [a.T, a[1:, ::2, 1], a[:, 0], a[..., None], a[2:2], np.asfortranarray(a), a.reshape(-1)[::7]]:
        x = eg.from_numpy(view)
        assert x.shape == view.shape and np.array_equal(x.numpy(), view)
        assert view.size == 0 or x.data_ptr == view.__array_interface__["data"][0]
    x = eg.arange(60, dtype="f32").reshape(3, 4, 5)
    for view in [x.T, x[1:, ::2, 1], x[0, 0], x.expand(2, 3, 4, 5), x[1:1], x.sum()]:
        out = view.numpy()
        assert out.tolist() == view.tolist() and out.shape == view.shape
        assert out.size == 0 or out.__array_interface__["data"][0] == view.data_ptr


def readonly(a):
    a.flags.writeable = False
    return a


NEEDS_COPY = {
    "read-only": lambda: readonly(np.arange(6.0)),
    "runs backwards": lambda: np.arange(6.0)[::-1],
    "not aligned": lambda: np.frombuffer(bytearray(49), "float64", 6, 1),
    "int32": lambda: np.arange(6, dtype="int32"),
    "float16": lambda: np.arange(6, dtype="float16"),
    ">f8": lambda: np.arange(6, dtype=">f8"),
    "whole elements": lambda: np.zeros(4, np.dtype([("a", "u1"), ("b", "f4"), ("c", "u1")], align=False))["b"][:2],
    "broadcast": lambda: np.broadcast_to(np.arange(3.0), (2, 3)),
}


@pytest.mark.parametrize("why", NEEDS_COPY)
def test_what_cannot_be_shared_is_copied(why):
    a = NEEDS_COPY[why]()
    x = eg.tensor(a)
    assert np.array_equal(x.numpy(), a)
    assert x.dtype == {"int32": "i64", "float16": "f32", "whole elements": "f32"}.get(why, "f64")
    assert x.data_ptr != a.__array_interface__["data"][0]
    x[0] = 17.0  # its own, writable
    with pytest.raises(ValueError, match="copy is False"):
        eg.from_numpy(a)


def test_a_copy_on_request():
    a = np.ones(3)
    x = eg.tensor(a, copy=True)
    a[0] = 5
    assert x.tolist() == [1, 1, 1]
    assert eg.tensor(a, dtype="f32").dtype == "f32"
    with pytest.raises(ValueError, match="copy is False: its elements are f64"):
        eg.tensor(a, dtype="f32", copy=False)


@pytest.mark.parametrize("dtype", ["complex64", "uint64", "longdouble", "datetime64[s]", "object", "U3"])
def test_elements_without_counterpart(dtype):
    with pytest.raises(TypeError):
        eg.tensor(np.zeros(3, dtype))


def test_too_many_axes():
    with pytest.raises(eg.ShapeError, match="at most 8"):
        eg.tensor(np.zeros((1,) * 9))


def test_other_buffers():
    assert eg.tensor(array.array("d", [1.0, 2.0])).tolist() == [1, 2]
    raw = bytearray(b"abc")
    x = eg.tensor(raw)
    raw[0] = 0
    assert x.dtype == "u8" and x.tolist() == [0, 98, 99]
    with pytest.raises(BufferError):
        raw.append(1)  # it is lent out
    del x
    raw.append(1)
    assert eg.tensor(b"ab").tolist() == [97, 98]
    assert eg.tensor(memoryview(np.arange(4.0))[::2]).tolist() == [0, 2]


def test_a_tensor_keeps_its_array():
    a = owner(100)
    gone = weakref.ref(a)
    x = eg.tensor(a)
    y = x[10:20] * 1.0
    view = x[10:20]
    del a, x
    gc.collect()
    assert gone() is not None, "a view needs the memory"
    assert view.tolist() == y.tolist() == list(range(10, 20))
    del view
    gc.collect()
    assert gone() is None


def test_references_are_counted_right():
    a = np.ones(5)
    before = sys.getrefcount(a)
    for _ in range(100):
        eg.tensor(a).numpy()
    gc.collect()
    assert sys.getrefcount(a) == before
    x = eg.ones(5)
    before = sys.getrefcount(x)
    views = [x.numpy() for _ in range(10)]
    assert sys.getrefcount(x) == before + 10
    del views
    gc.collect()
    assert sys.getrefcount(x) == before


def test_an_array_keeps_its_tensor():
    live = eg.memory()["live"]
    a = eg.ones(1_000_000).numpy()
    b = a[5:10]
    del a
    gc.collect()
    assert b.tolist() == [1] * 5 and eg.memory()["live"] >= live + 4_000_000
    del b
    gc.collect()
    assert eg.memory()["live"] == live


def test_a_tape_keeps_an_array():
    a = owner(4)
    gone = weakref.ref(a)
    with eg.Tape() as tape:
        x = eg.tensor(a)
        y = (x * x).sum()
    del a
    gc.collect()
    assert gone() is not None
    g = tape.gradient(y, x)
    assert g.tolist() == [0, 2, 4, 6]
    del x, y, tape
    gc.collect()
    assert gone() is None


def test_memory_goes_on_other_threads():
    import threading

    a = owner(10)
    gone = weakref.ref(a)
    box = [eg.tensor(a)]
    del a
    thread = threading.Thread(target=box.clear)
    thread.start()
    thread.join()
    gc.collect()
    assert gone() is None


def test_writing_through_numpy_counts_as_a_write():
    x = eg.tensor([2.0, 3.0])
    with eg.Tape() as tape:
        y = (x * x).sum()
        x.numpy()  # looking is no write
        assert tape.gradient(y, x, retain=True).tolist() == [4, 6]
        x.numpy(writable=True)
        with pytest.raises(eg.AutogradError, match="changed it in place"):
            tape.gradient(y, x)


def test_no_bf16_in_numpy():
    with pytest.raises(TypeError, match="to\\('f32'\\)"):
        eg.ones(2, "bf16").numpy()


# --- DLPack ---


def test_dlpack_with_numpy():
    a = np.arange(12.0).reshape(3, 4).T
    x = eg.from_dlpack(a)
    assert x.data_ptr == a.__array_interface__["data"][0] and np.array_equal(x.numpy(), a)
    b = np.from_dlpack(x)
    assert np.shares_memory(a, b) and np.array_equal(a, b)
    assert x.__dlpack_device__() == (1, 0)


class Exporter:
    """Only DLPack, no buffer; counts who is alive."""

    def __init__(self, a):
        self.a = a

    def __dlpack__(self, **options):
        return self.a.__dlpack__()

    def __dlpack_device__(self):
        return self.a.__dlpack_device__()


def test_dlpack_owner_lives_as_long_as_the_tensor():
    a = owner(10)
    gone = weakref.ref(a)
    x = eg.tensor(Exporter(a))
    assert x.data_ptr == a.__array_interface__["data"][0]
    del a
    gc.collect()
    assert gone() is not None and x.tolist() == list(range(10))
    del x
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "uint16", "uint32", "float16"])
def test_dlpack_widens_elements(dtype):
    a = np.arange(6, dtype=dtype).reshape(2, 3).T
    x = eg.tensor(Exporter(a))
    assert x.dtype == ("f32" if dtype == "float16" else "i64") and x.tolist() == a.tolist()
    with pytest.raises(eg.ValueError, match=f"copy is False: its elements are {dtype}"):
        eg.tensor(Exporter(a), copy=False)


@pytest.mark.parametrize("dtype", ["complex64", "uint64"])
def test_dlpack_refuses_other_elements(dtype):
    with pytest.raises(TypeError, match=f"{dtype} have no counterpart"):
        eg.tensor(Exporter(np.zeros(3, dtype)))


@pytest.mark.parametrize("why", ["runs backwards", "not aligned"])
def test_dlpack_copies_what_buffers_copy(why):
    a = NEEDS_COPY[why]()
    x = eg.tensor(Exporter(a))
    assert x.tolist() == a.tolist() and x.data_ptr % 8 == 0 and x.is_contiguous()
    with pytest.raises(eg.ValueError, match=f"copy is False.*{why[-7:]}"):
        eg.tensor(Exporter(a), copy=False)


def test_dlpack_capsules_are_used_once():
    """An object that gives the same capsule every time: the second import is refused, the memory goes once."""
    a = owner(10)
    gone = weakref.ref(a)
    capsule = a.__dlpack__()

    class Again(Exporter):
        def __dlpack__(self, **options):
            return capsule

    again = Again(np.zeros(1))
    x = eg.from_dlpack(again)
    assert "used_dltensor" in repr(capsule) and x.tolist() == list(range(10))
    for take in (eg.from_dlpack, eg.ops.tanh, eg.nn.Linear(10, 2, key=1)):
        with pytest.raises(TypeError):
            take(again)
    del a, x, capsule
    gc.collect()
    del Again, again
    gc.collect()
    assert gone() is None


def test_modules_ask_dlpack_once():
    asked = []

    class Counting(Exporter):
        def __dlpack__(self, **options):
            if not options:
                asked.append(1)
            return self.a.__dlpack__()

    assert eg.nn.Linear(3, 2, key=1)(Counting(np.ones((4, 3), "float32"))).shape == (4, 2)
    assert len(asked) <= 1


def test_dlpack_wants_a_capsule():
    class No(Exporter):
        def __dlpack__(self, **options):
            return self.a

    with pytest.raises(TypeError, match="gives no capsule"):
        eg.tensor(No(np.zeros(1)))

    class Fails(Exporter):
        def __dlpack__(self, **options):
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        eg.tensor(Fails(np.zeros(1)))


@pytest.mark.parametrize("versioned", [False, True])
def test_dlpack_without_extents_is_refused(versioned):
    class DLTensor(ctypes.Structure):
        _fields_ = [
            ("data", ctypes.c_void_p),
            ("device_type", ctypes.c_int32),
            ("device_id", ctypes.c_int32),
            ("ndim", ctypes.c_int32),
            ("code", ctypes.c_uint8),
            ("bits", ctypes.c_uint8),
            ("lanes", ctypes.c_uint16),
            ("shape", ctypes.c_void_p),
            ("strides", ctypes.c_void_p),
            ("byte_offset", ctypes.c_uint64),
        ]

    class Plain(ctypes.Structure):
        _fields_ = [("array", DLTensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]

    class Versioned(ctypes.Structure):
        _fields_ = [
            ("major", ctypes.c_uint32),
            ("minor", ctypes.c_uint32),
            ("context", ctypes.c_void_p),
            ("deleter", ctypes.c_void_p),
            ("flags", ctypes.c_uint64),
            ("array", DLTensor),
        ]

    numbers, extents = (ctypes.c_float * 6)(*range(6)), (ctypes.c_int64 * 2)(2, 3)
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    kept = []

    def exporter(ndim, shape):
        array = DLTensor(ctypes.addressof(numbers), 1, 0, ndim, 2, 32, 1, shape, None, 0)
        kept.append(Versioned(1, 0, None, None, 0, array) if versioned else Plain(array, None, None))
        name = b"dltensor_versioned" if versioned else b"dltensor"
        kept.append(name)

        class Made(Exporter):
            def __dlpack__(self, managed=kept[-2], **options):
                return new(ctypes.addressof(managed), name, None)

        return Made(np.zeros(1))

    assert eg.tensor(exporter(2, ctypes.addressof(extents)), copy=True).tolist() == [[0, 1, 2], [3, 4, 5]]
    assert eg.tensor(exporter(0, None), copy=True).tolist() == 0
    with pytest.raises(eg.ValueError, match="gives 2 axes and no shape"):
        eg.tensor(exporter(2, None))
    with pytest.raises(eg.ValueError, match="gives -1 axes"):
        eg.tensor(exporter(-1, ctypes.addressof(extents)))


def test_dlpack_with_torch():
    torch = pytest.importorskip("torch")
    for dtype, name in [("float32", "f32"), ("float64", "f64"), ("int64", "i64"), ("uint8", "u8"), ("bfloat16", "bf16")]:
        t = torch.arange(6).to(getattr(torch, dtype)).reshape(2, 3).t()
        x = eg.tensor(t)
        assert x.dtype == name and x.shape == (3, 2) and x.strides == (1, 3) and x.data_ptr == t.data_ptr()
        assert x.tolist() == t.tolist()
        back = torch.from_dlpack(x)
        assert back.data_ptr() == t.data_ptr() and torch.equal(back, t)
    unaligned = torch.frombuffer(bytearray(9), dtype=torch.float32, offset=1, count=2)
    assert eg.tensor(unaligned).data_ptr % 4 == 0
    with pytest.raises(eg.ValueError, match="not aligned"):
        eg.tensor(unaligned, copy=False)
    assert eg.tensor(torch.tensor([1, 2], dtype=torch.int32)).dtype == "i64"
    assert eg.tensor(torch.tensor([[1.5], [2.0]], dtype=torch.bfloat16).expand(2, 3), copy=True).to("f32").tolist()[1] == [2] * 3
    with pytest.raises(TypeError, match="complex64 have no counterpart"):
        eg.tensor(torch.zeros(2, dtype=torch.complex64))
    with pytest.raises((TypeError, RuntimeError), match="require gradient"):
        eg.tensor(torch.zeros(2, requires_grad=True))
    assert eg.tensor(torch.zeros(0, 3)).shape == (0, 3)
    t = torch.zeros(4)
    x = eg.from_dlpack(t)
    t[1] = 3
    assert x.tolist() == [0, 3, 0, 0]


# --- nothing beyond the memory that was lent ---


def on_the_edge(a):
    """A copy of an array whose last byte lies before a page that nobody may touch."""
    page = mmap.PAGESIZE
    size = (a.nbytes + page - 1) // page * page
    region = mmap.mmap(-1, size + page)
    start = ctypes.addressof(ctypes.c_char.from_buffer(region))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mprotect(ctypes.c_void_p(start + size), ctypes.c_size_t(page), 0) != 0:
        raise OSError(ctypes.get_errno(), "mprotect")
    there = np.frombuffer(region, a.dtype, a.size, size - a.nbytes).reshape(a.shape)
    there[...] = a
    return there


def test_no_operation_reads_beyond_an_array():
    """Samples of every op with each input ending at a forbidden page: a read beyond it ends the process."""
    calls = 0
    for name in eg.ops.__all__:
        for sample in eg.testing.samples(name, "f32"):
            packed = [
                x if x is None or x.size == 0 or x.dtype == "bf16" else eg.from_numpy(on_the_edge(x.contiguous().numpy()))
                for x in sample.inputs
            ]
            eg.testing.call(name, packed, sample.attributes)
            calls += 1
    assert calls > 500


def test_floats_keep_their_digits_where_f64_is_wanted():
    for value in (0.1, [0.1, 1e300], [[0.1], [-1e-300]]):
        x = eg.tensor(value, dtype="f64")
        assert x.dtype == "f64" and np.array_equal(np.asarray(x), np.array(value))
    assert eg.tensor([0.1, 2.0]).dtype == "f32"
    assert eg.tensor([0.1, 2.0], dtype="i64").tolist() == [0, 2]
