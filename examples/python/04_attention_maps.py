"""Attention maps of models of every kind, with the logits before softmax."""
import equigrad as eg

block = eg.nn.BlockConfig(dim=24, heads=3, mlp=48)
vit = eg.nn.ViT(eg.nn.VitConfig(image=16, patch=4, layers=2, encoder=block))
bert = eg.nn.Bert(eg.nn.BertConfig(vocabulary=40, layers=2, encoder=block)).eval()
gpt2 = eg.nn.Decoder(eg.nn.gpt2_config(dim=24, heads=3, layers=2)).eval()
ids = eg.random.integers((1, 5), low=0, high=40)
maps = eg.attention_maps(vit, eg.random.uniform((1, 3, 16, 16)))         # a notebook draws them
maps.picture(logits=True).save("attention.svg")
for name, layers in {"vit": maps, "bert": eg.attention_maps(bert, ids), "gpt2": eg.attention_maps(gpt2, ids)}.items():
    print(name, [layer.shape for layer in layers], f"row 0 of a head sums to {layers[0][0, 0, 0].sum():.3f}")
print("the same from trace():", eg.same_bits(bert.trace(ids)[1]["attention"], eg.attention_maps(bert, ids)[1]))
