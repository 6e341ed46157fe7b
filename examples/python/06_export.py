"""Take weights elsewhere: NumPy, safetensors, a model folder that transformers and the program read."""
import numpy as np

import equigrad as eg

block = eg.nn.BlockConfig(dim=24, heads=3, mlp=48)
vit = eg.nn.ViT(eg.nn.VitConfig(image=16, patch=4, classes=3, layers=1, encoder=block))
np.savez("vit.npz", *(np.asarray(tensor) for tensor in vit.parameters()))
eg.save(vit, "vit.safetensors")
eg.hub.save(vit, "vit", class_names=["cat", "dog", "owl"])
model = eg.hub.load("vit")
print(model.architecture, list(model.config["id2label"].values()))
images = eg.random.uniform((2, 3, 16, 16))
print("the same logits:", eg.same_bits(model(pixel_values=images)["logits"], vit.eval()(images)))
first = next(iter(vit.state_dict()))
print("files agree:", bool((eg.load("vit.safetensors")[first].numpy() == np.load("vit.npz")["arr_0"]).all()))
