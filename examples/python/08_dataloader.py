"""Train with PyTorch's DataLoader: its tensors are taken as they are."""
import torch
from torch.utils.data import DataLoader, TensorDataset

import equigrad as eg

data = TensorDataset(torch.rand(64, 3, 16, 16), torch.randint(0, 10, (64,)))
vit = eg.nn.ViT(eg.nn.VitConfig(image=16, patch=4, layers=1, encoder=eg.nn.BlockConfig(dim=24, heads=3, mlp=48)))
optimizer = eg.optim.SGD(vit.parameters(), lr=0.1)
for images, labels in DataLoader(data, batch_size=16, shuffle=True):
    with eg.Tape() as tape:
        loss = eg.ops.cross_entropy(vit(images), labels)
    optimizer.step(tape.gradient(loss, vit.parameters()))
print("steps:", optimizer.steps, "finite:", loss.item() < 10)
