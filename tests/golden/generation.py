"""Prints what transformers' generate makes of a small Llama whose weights follow from a formula: the values in
tests/unit/nn_hub_generation_test.cpp.

    python tests/golden/generation.py        (transformers 4.57 or 5)
"""
import math

import torch
import transformers as tf

tf.logging.set_verbosity_error()
PROMPT = [3, 1, 4, 1, 5, 9, 2, 6]


def model(**more):
    config = tf.LlamaConfig(vocab_size=23, hidden_size=16, intermediate_size=20, num_hidden_layers=2, num_attention_heads=2,
                            num_key_value_heads=1, max_position_embeddings=12, bos_token_id=None, eos_token_id=None, **more)
    m = tf.LlamaForCausalLM(config).double().eval()
    with torch.no_grad():
        for t, name in enumerate(sorted(dict(m.named_parameters()))):
            p = m.get_parameter(name)
            j = torch.arange(p.numel(), dtype=torch.float64)
            p.copy_((torch.sin(1.7 * j + 0.3 * j * j + t) * 0.9 + (1.0 if name.endswith("norm.weight") else 0.0)).view(p.shape))
    return m


def show(name, m, **settings):
    out = m.generate(torch.tensor([PROMPT]), attention_mask=torch.ones(1, len(PROMPT), dtype=torch.long), pad_token_id=0,
                     **settings)
    print(f"{name}: {{{', '.join(map(str, out[0, len(PROMPT):].tolist()))}}}")


plain = model()
show("greedy", plain, max_new_tokens=16)
show("repetition_penalty 1.3", plain, max_new_tokens=16, repetition_penalty=1.3)
show("no_repeat_ngram_size 2", plain, max_new_tokens=16, no_repeat_ngram_size=2)
first = plain.generate(torch.tensor([PROMPT]), attention_mask=torch.ones(1, len(PROMPT), dtype=torch.long), pad_token_id=0,
                       max_new_tokens=16)[0, len(PROMPT):].tolist()
show("suppress_tokens, begin_suppress_tokens", plain, max_new_tokens=16, suppress_tokens=[first[1]],
     begin_suppress_tokens=[first[0]])
show(f"eos {first[0]}, min_new_tokens 5", plain, max_new_tokens=16, eos_token_id=first[0], min_new_tokens=5)
show(f"eos {first[0]}, min_length 11", plain, max_new_tokens=16, eos_token_id=first[0], min_length=11)
for factor in (2.0, 4.0):
    rope = dict(rope_type="dynamic", factor=factor)
    m = model(rope_parameters=dict(rope, rope_theta=10000.0)) if tf.__version__ > "5" else model(rope_scaling=rope)
    show(f"dynamic rope, factor {factor}", m, max_new_tokens=30)
    ids = torch.tensor([PROMPT + PROMPT])
    with torch.no_grad():  # the logits behind a cached step beyond the trained length
        past = m(ids[:, :14], use_cache=True)
        step = m(ids[:, 14:15], past_key_values=past.past_key_values, use_cache=True)
    print(f"  logits of a step at 14: {', '.join(f'{x:.9f}' for x in step.logits[0, -1, :4].tolist())}")
