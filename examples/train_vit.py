"""Trains a small vision transformer on real images, then shows that permuting the tokens changes no gradient.

    pip install . && python examples/train_vit.py          # CIFAR-10 where EQUIGRAD_DATA has it, else generated shapes

Cells (# %%) run one by one in an editor that knows them; each prints what it did.
"""

# %% Data: CIFAR-10 if it is there, generated pictures of ten shapes if not
import argparse

import equigrad as eg

options = argparse.ArgumentParser()
options.add_argument("--data", default="cifar10", help="cifar10, mnist, fashion-mnist, shapes or a folder")
options.add_argument("--steps", type=int, default=400)
args = options.parse_known_args()[0]
try:
    dataset = eg.data.open_dataset(args.data)
except eg.FileError as error:
    print(f"{error}\nTraining on generated shapes.")
    dataset = eg.data.open_dataset("shapes", count=10_000)
loader = eg.data.Loader(dataset, batch_size=64, seed=1)
print(dataset)

# %% Model: 8 x 8 patches as tokens, four blocks of attention and MLP, the mean of the tokens classified
block = eg.nn.BlockConfig(dim=64, heads=4, mlp=128)
config = eg.nn.VitConfig(
    image=dataset.height, channels=dataset.channels, patch=dataset.height // 4, layers=4, encoder=block, pooling="mean"
)
model = eg.nn.Vit(config, key=7)
print(f"{model.parameter_count():,} parameters, {config.tokens} tokens")

# %% Training: a tape hears the forward pass and gives the gradients, the optimiser writes the parameters
parameters = model.parameters()
optimizer = eg.optim.AdamW(parameters, weight_decay=0.01)
rate = eg.optim.Schedule("cosine", base=1e-3, warmup=20, total_steps=args.steps)
for step in range(args.steps):
    batch = next(loader)  # epochs follow each other; a `for` over the loader ends with one
    with eg.Tape() as tape:
        loss = eg.ops.cross_entropy(model(batch.images), batch.labels)
    gradients, _ = eg.optim.clip_gradients(tape.gradient(loss, parameters), max_norm=1.0)
    optimizer.step(gradients, rate(step))
    if step % 20 == 0 or step == args.steps - 1:
        print(f"step {step:4}  loss {loss:.3f}")

# %% Permuted tokens: another order of the rows in every sample, the same loss, the same gradients of all weights
batch = next(loader)
z = model.embed(batch.images)
rows = eg.permute.row_permutations(len(z), config.tokens, key=3)


def gradients_for(z: eg.Tensor) -> list[eg.Tensor]:
    with eg.Tape() as tape:
        loss = eg.ops.cross_entropy(model.head(model.encode(z)), batch.labels)
    return tape.gradient(loss, parameters)


plain, permuted = gradients_for(z), gradients_for(eg.ops.permute_rows(z, rows))
largest = max(abs(g.numpy()).max() for g in plain)
difference = max(abs(a.numpy() - b.numpy()).max() for a, b in zip(plain, permuted)) / largest
print(f"Gradients with permuted and with plain rows differ by {difference:.1e} of the largest entry.")
