"""Check the gradients of an operation of your own, to second order; a wrong rule is caught."""
import equigrad as eg


def cube(x: eg.Tensor) -> eg.Tensor:
    return x * x * x


right = eg.CustomOp("cube", cube, lambda inputs, outputs, cotangents: 3.0 * inputs[0] * inputs[0] * cotangents[0])
wrong = eg.CustomOp("wrong", cube, lambda inputs, outputs, cotangents: 2.0 * inputs[0] * cotangents[0])
x = eg.random.normal((4, 3), dtype="f64")
print("first and second order:", bool(eg.gradcheck(right, [x])), bool(eg.gradcheck(right, [x], second=True)))
rows = eg.Symmetry("rows", [("in", 0, 0), ("out", 0, 0)])    # axis 0 of input 0 and of output 0
print("commutes with permuted rows:", bool(eg.symmetry_check(right, [x], rows)))
try:
    eg.gradcheck(wrong, [x])
except eg.AutogradError as error:
    print(str(error).split(":")[1].strip())
