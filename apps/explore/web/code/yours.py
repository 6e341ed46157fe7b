"""The symmetries of a model folder, a certificate for them, and a permuted copy that computes the same."""

import sys
import tempfile

import equigrad as eg

if len(sys.argv) > 1:
    folder = sys.argv[1]
else:  # a small model of our own
    folder = tempfile.mkdtemp()
    config = {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 60, "n_embd": 24, "n_layer": 2, "n_head": 3}
    eg.hub.make_model(config, key=2).save(folder)

model = eg.hub.load(folder, dtype="f64")
symmetries = eg.permute.symmetries(model)
print(symmetries)
print(symmetries.certify())
ids = [[3, 1, 4, 1, 5]]
before = model(input_ids=ids)["logits"]
eg.permute.permute_model(model, key=1, groups="inner")  # in place
after = model(input_ids=ids)["logits"]
print("the permuted model's logits are off by", eg.relative_error(after, before))
assert eg.relative_error(after, before) < 1e-11
