"""Look at what a layer inside a model gives, change it, and look at the gradient that reaches it."""
import equigrad as eg

vit = eg.nn.ViT(eg.nn.VitConfig(image=16, patch=4, layers=2, encoder=eg.nn.BlockConfig(dim=24, heads=3, mlp=48)))
images = eg.random.uniform((2, 3, 16, 16))
plain = vit(images)
with vit.blocks[1].attention.register_forward_hook(lambda module, args, output: args[1]):   # args[1]: the residual
    print("without the attention of block 1:", f"{eg.relative_error(vit(images), plain):.3f}", "away")
states: list[eg.Tensor] = []
vit.blocks[0].register_forward_hook(lambda module, args, output: states.append(output))
with eg.Tape() as tape:
    loss = vit(images).square().mean()
tape.on_gradient(states[0], lambda gradient: print("gradient behind block 0:", gradient.shape))
tape.gradient(loss, vit.parameters())
print("hooked modules:", [name for name, module in vit.named_modules() if module is vit.blocks[0]])
