"""Tensors and modules on a device; what is said where there is none."""

import os
import pickle
import subprocess
import sys

import numpy as np
import pytest

import equigrad as eg

here = np.arange(12, dtype="float32").reshape(3, 4)

# Where a module is named it must open: then nothing is skipped.
needs_device = pytest.mark.skipif(
    not eg.cuda.is_available() and "EQUIGRAD_CUDA_MODULE" not in os.environ, reason=f"no device: {eg.cuda.why_unavailable()}"
)


def test_without_a_module_everything_says_why():
    program = """
import equigrad as eg
assert not eg.cuda.is_available()
assert "/nonexistent/module.so: no such file" in eg.cuda.why_unavailable()
for call in (lambda: eg.tensor([1.0]).cuda(), lambda: eg.tensor([1.0]).to("cuda:1"), lambda: eg.tensor([1.0], device="cuda"),
             eg.cuda.devices, eg.cuda.memory, lambda: eg.nn.Linear(2, 3, key=1).to("cuda")):
    try:
        call()
    except eg.DeviceError as error:
        assert "no module for CUDA was found" in str(error), error
    else:
        raise AssertionError("it was taken")
assert eg.tensor([1.0]).cpu().device == "cpu"
print("done")
"""
    environment = dict(os.environ, EQUIGRAD_CUDA_MODULE="/nonexistent/module.so")
    result = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert result.stdout == "done\n", result.stderr


def test_names_of_devices():
    x = eg.tensor(here)
    assert x.device == "cpu"
    assert x.to("cpu").data_ptr == x.data_ptr
    assert x.to("f64").dtype == "f64"
    with pytest.raises(eg.ValueError, match="neither cpu nor cuda"):
        x.to("cuda:x")
    with pytest.raises(TypeError, match="two devices"):
        x.to("cpu", device="cpu")
    with pytest.raises(TypeError, match="give a dtype"):
        x.to()
    with pytest.raises(TypeError, match="device is 'cpu', 'cuda' or 'cuda:N', not 3"):
        eg.tensor(here, device=3)
    with pytest.raises(TypeError, match="device is .*, not 'f64'"):
        x.to("cpu", "f64")
    with pytest.raises(ValueError, match="'gpu' is none of f32.*, and it is no device: cpu, cuda, cuda:N"):
        x.to("gpu")


@needs_device
def test_a_tensor_goes_there_and_back():
    x = eg.tensor(here, device="cuda")
    assert x.device == "cuda:0"
    assert repr(x).endswith("on cuda:0")
    assert (x.cpu().numpy() == here).all()
    assert x.tolist() == here.tolist()
    assert x[1, 2].item() == 6.0
    y = eg.tensor(here).cuda() * 2.0
    assert y.device == "cuda:0" and eg.same_bits(y.cpu(), eg.tensor(here) * 2.0)
    assert x.to(dtype="f64", device="cpu").dtype == "f64"
    copy = pickle.loads(pickle.dumps(x))
    assert copy.device == "cpu" and eg.same_bits(copy, x)


@needs_device
def test_host_access_is_refused():
    x = eg.tensor(here, device="cuda")
    for read in (lambda: x.numpy(), lambda: np.asarray(x)):
        with pytest.raises(eg.DeviceError, match=r"on cuda:0; copy it with cpu\(\)"):
            read()
    with pytest.raises(eg.DeviceError, match="add: input 0 is on cuda:0, input 1 on cpu"):
        x + eg.tensor(here)
    if eg.cuda.devices()[0]["name"] == "emulated device":
        with pytest.raises(eg.DeviceError, match="no other framework knows its memory"):
            np.from_dlpack(x)


@needs_device
def test_gradients_and_modules_there():
    x = eg.tensor(here, device="cuda")
    with eg.Tape() as tape:
        y = x * x
    slope = tape.gradient(y, x, eg.tensor(np.ones_like(here), device="cuda"))
    assert slope.device == "cuda:0" and (slope.cpu().numpy() == 2 * here).all()
    layer = eg.nn.Linear(4, 2, key=1)
    weight = layer.weight.numpy().copy()
    layer.to("cuda")
    assert layer.device == "cuda:0" and layer.weight.device == "cuda:0"
    assert (layer.weight.cpu().numpy() == weight).all()
    layer.to("cpu")
    assert layer.device == "cpu"


@needs_device
def test_memory():
    before = eg.cuda.memory()["live"]
    x = eg.tensor(np.zeros(1000, dtype="float32"), device="cuda")
    assert eg.cuda.memory()["live"] >= before + x.nbytes
    eg.cuda.synchronize()
    eg.cuda.release_memory()
    assert eg.cuda.devices()[0]["device"] == "cuda:0"


@needs_device
def test_numbers_and_positions_go_where_the_tensor_is():
    x, there = eg.tensor(here) + 1.0, eg.tensor(here, device="cuda") + 1.0
    for f in (
        lambda a: 1 / a,
        lambda a: a % 2,
        lambda a: eg.ops.add(a, 1),
        lambda a: eg.ops.pow(a, 2.0),
        lambda a: eg.ops.maximum(a, 3.0),
        lambda a: eg.ops.where(a > 2, a, 0.0),
        lambda a: a[[0, -1]],
        lambda a: a[1, [1, 2]],
        lambda a: a[eg.tensor([2, 0])],
    ):
        wanted, found = f(x), f(there)
        assert found.device == "cuda:0"
        np.testing.assert_array_equal(found.cpu().numpy(), wanted.numpy())
    np.testing.assert_array_equal(there[eg.tensor([2, 0], device="cuda")].cpu().numpy(), x[[2, 0]].numpy())


@needs_device
def test_functions_of_functions_there():
    x = eg.tensor(here)
    f = lambda a: (eg.ops.tanh(a) * a).sum()
    for of in (eg.grad(f), lambda a: eg.value_and_grad(f)(a)[1], lambda a: eg.hvp(f, a, a)[2]):
        found = of(x.cuda())
        assert found.device == "cuda:0"
        np.testing.assert_allclose(found.cpu().numpy(), of(x).numpy(), rtol=1e-5, atol=1e-6)


@needs_device
def test_a_child_of_fork_is_told_that_it_has_no_device():
    x = eg.tensor(here, device="cuda")
    child = os.fork()
    if child == 0:
        code = 1
        try:
            x.tolist()
        except eg.DeviceError as error:
            code = 0 if "in a child of fork()" in str(error) and (eg.tensor(here) + 1).sum() == 78.0 else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert x.tolist() == here.tolist()


@needs_device
def test_a_copy_that_is_not_allowed_is_refused():
    with pytest.raises(ValueError, match="a copy is needed, and copy is False: the array is on cpu"):
        eg.tensor(here, device="cuda", copy=False)
    with pytest.raises(ValueError, match="copy is False: the array is on cuda:0"):
        eg.tensor(eg.tensor(here, device="cuda"), device="cpu", copy=False)


def test_names_of_a_device_compare_as_people_write_them():
    device = eg.tensor(here).device
    assert device == "cpu" and device != "cuda" and isinstance(device, str) and device in ("cuda", "cpu")
    assert pickle.loads(pickle.dumps(device)) == "cpu"
    assert device != 3 and hash(device) == hash("cpu")


@needs_device
def test_the_first_cuda_device_has_two_names():
    x = eg.tensor(here, device="cuda")
    assert x.device == "cuda" and x.device == "cuda:0" and "cuda" == x.device and not x.device != "cuda"
    assert x.device != "cuda:1" and x.device != "cpu" and str(x.device) == "cuda:0"
    assert eg.tensor(here).to(x.device).device == "cuda"


@needs_device
def test_tensors_are_made_there_with_the_same_bits():
    for make in (
        lambda **to: eg.zeros((2, 3), **to),
        lambda **to: eg.ones(4, "f64", **to),
        lambda **to: eg.full((2, 2), 2.5, **to),
        lambda **to: eg.full((2, 2), 2**60 + 1, "i64", **to),
        lambda **to: eg.arange(5, **to),
        lambda **to: eg.arange(0.5, 4, 0.5, **to),
        lambda **to: eg.linspace(0, 1, 7, **to),
        lambda **to: eg.eye(3, 2, **to),
        lambda **to: eg.tensor([1.0, 2.0], **to),
        lambda **to: eg.random.uniform(9, key=1, **to),
        lambda **to: eg.random.normal((3, 2), 2, dtype="f64", **to),
        lambda **to: eg.random.integers(9, key=3, low=0, high=7, **to),
        lambda **to: eg.random.permutation(9, 4, **to),
        lambda **to: eg.random.nonidentity_permutation(9, 5, **to),
    ):
        there, cpu = make(device="cuda"), make()
        assert there.device == "cuda" and cpu.device == "cpu"
        assert eg.same_bits(there.cpu(), cpu)
        assert make(device="cpu").device == "cpu"
        with pytest.raises(TypeError, match="device is 'cpu', 'cuda' or 'cuda:N', not 'f64'"):
            make(device="f64")
        with pytest.raises(eg.DeviceError, match="there is no such device"):
            make(device="cuda:9")


@needs_device
def test_modules_move_by_cuda_and_cpu():
    layer = eg.nn.Linear(4, 2, key=1)
    assert layer.cuda() is layer and layer.device == "cuda" and layer.weight.device == "cuda"
    assert layer.cpu() is layer and layer.device == "cpu"
    assert layer.to(device="cuda").device == "cuda"
    layer.to("f64", device="cpu")
    assert layer.device == "cpu" and layer.weight.dtype == "f64"
    for wrong in (lambda: layer.to(), lambda: layer.to("cuda", device="cpu"), lambda: layer.to(device=3)):
        with pytest.raises(TypeError):
            wrong()
    with pytest.raises(eg.DeviceError):
        layer.to("f32", device="cuda:9")
    assert layer.device == "cpu" and layer.weight.dtype == "f64"


@needs_device
def test_verify_computes_there():
    results = eg.verify("thm4.1", device="cuda")
    assert results and all(result.device == "cuda" and result for result in results)
    assert all(result.device == "cpu" for result in eg.verify("thm4.1"))
    with pytest.raises(eg.ValueError, match="exact needs the CPU"):
        eg.verify("thm4.1", device="cuda", exact=True)
