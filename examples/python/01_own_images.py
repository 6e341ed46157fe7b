"""Train a ViT on a folder of class folders (FOLDER/train/CLASS/*.png, FOLDER/test/...), test it, keep it."""
import sys

import equigrad as eg

folder = sys.argv[1]
run = eg.train("vit", folder, size=16, epochs=15, batch=16, dim=32, heads=4, layers=2, mlp=64, lr=3e-3, out="out/mine")
print(f"accuracy on the test images: {run.metrics.test['accuracy'][-1]:.0%}")
run.plot("loss", "accuracy").save("curves.svg")              # in a notebook: run.plot("loss", "accuracy")
model = eg.hub.load("out/mine/model")                        # transformers and `equigrad infer` read it as well
print("classes:", list(model.config["id2label"].values()))
found = eg.evaluate(model, folder, size=16)
print(f"the saved model: {found.accuracy:.0%} of {found.count}")
