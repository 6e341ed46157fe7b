"""Warm-up and cosine; another rate for the head, no decay for biases and norms; optimizer state."""
import equigrad as eg

vit = eg.nn.ViT(eg.nn.VitConfig(image=16, patch=4, layers=1, encoder=eg.nn.BlockConfig(dim=24, heads=3, mlp=48)))
rate = eg.optim.Schedule("cosine", base=1e-3, warmup=10, total_steps=100)
head = [tensor for name, tensor in vit.named_parameters() if name.startswith("classifier")]
decayed = [t for n, t in vit.named_parameters() if not n.startswith("classifier") and t.ndim > 1]
others = [t for n, t in vit.named_parameters() if not n.startswith("classifier") and t.ndim <= 1]
groups = [{"params": decayed}, {"params": others, "weight_decay": 0.0}, {"params": head, "lr": 1e-2}]
optimizer = eg.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.95), weight_decay=0.05)
print("rates:", [round(rate(step), 6) for step in (0, 5, 10, 55, 99)])
optimizer.step([eg.ones(t.shape) for t in optimizer.parameters], rate(0))
print("steps in the state:", int(optimizer.state_dict()["steps"].item()))
