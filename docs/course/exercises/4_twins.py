"""Exercise 4: train twins, and say which optimisers follow a rotation.

Part one trains a model and its permuted twin on the same batches. `element` is one element of the model's symmetry
group (an eg.permute.SymmetryElement). element.move("x", x) moves an input; element.move_state(state) moves a state dict.
The twin begins with the moved weights and gets moved inputs. Then it stays the moved model at every step.

Part two: replace the permutation by a rotation R of the inputs, x' = x R and W_0' = W_0 R. With some rules
W_t' = W_t R still holds after every step, with others it does not.
"""

import equigrad as eg


def train_twins(
    model: eg.nn.Module,
    twin: eg.nn.Module,
    element: eg.permute.SymmetryElement,
    batches: list[tuple[eg.Tensor, eg.Tensor]],
    rule: str,
    rate: float,
) -> list[tuple[float, float]]:
    """Trains both in place, one step a batch (x, labels), and gives both losses of each step.

    The model comes with its weights; the twin's are arbitrary and have to be set. The loss is
    eg.ops.cross_entropy(model(x), labels); eg.optim.make_optimizer(rule, parameters) makes an optimiser, and
    optimizer.step(gradients, rate) takes a step.
    """
    raise NotImplementedError


def rules_that_follow_rotations() -> set[str]:
    """Which of sgd, momentum, muon, adam, adamw, rmsprop, lion and adafactor do?"""
    raise NotImplementedError
