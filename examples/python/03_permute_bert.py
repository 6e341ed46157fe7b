"""Permute a BERT's weights with a key: another model in every number, the same function."""
import equigrad as eg

config = {"model_type": "bert", "architectures": ["BertModel"], "vocab_size": 40, "hidden_size": 24,
          "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 32, "max_position_embeddings": 16}
bert = eg.hub.make_model(config, key=1)
bert.module.eval().to("f64")
ids = eg.random.integers((2, 7), 3, 0, 40)
before, weights = bert(input_ids=ids)["last_hidden_state"], bert.state()
print(eg.permute.symmetries(bert))                           # groups, read off one forward pass
eg.permute.permute_model(bert, key=5, groups="inner")        # in place; certified first, forward and gradients
after, moved = bert(input_ids=ids)["last_hidden_state"], bert.state()
print("weights that moved:", sum(not eg.same_bits(weights[name], moved[name]) for name in weights), "of", len(weights))
print("the same function:", eg.relative_error(after, before) < 1e-13)
