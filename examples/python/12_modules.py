"""A module of your own: parts by assignment, a tied weight, frozen parts, a copy."""
import copy

import equigrad as eg


class Net(eg.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = [eg.nn.Linear(4, 4), eg.nn.Linear(4, 4)]
        self.layers[1].weight = self.layers[0].weight        # tied: one parameter, under the first name
        self.scale = eg.nn.Parameter(eg.ones(4))

    def forward(self, x: eg.Tensor) -> eg.Tensor:
        return self.layers[1](self.layers[0](x).relu()) * self.scale


net = Net().eval().to("f64")
print(net, [name for name, _ in net.named_parameters()], sep="\n")
twin = copy.deepcopy(net)
first, second = (layer.weight.data_ptr for layer in twin.layers)
print("a copy of its own, still tied:", first == second != net.layers[0].weight.data_ptr)
