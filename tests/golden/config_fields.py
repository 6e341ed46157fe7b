#!/usr/bin/env python3
"""Writes tests/golden/config_fields.json: the fields of config.json that transformers itself looks at, by family.

    pip install torch transformers safetensors
    tests/golden/config_fields.py            # adds this version of transformers to the file, or replaces it

A field counts when the family's config class declares it, when its modelling file spells it (config.NAME, getattr and hasattr of a
config), or when any code of transformers asks the config for it while one of the supported classes is read and run. Names are those of
the file; what is spelt only under another name (attribute_map) is listed under both.
nn_hub_fields_test.cpp holds the tables of hub/ against it: each of these is read, or known to change nothing, or refused.
"""
import dataclasses
import inspect
import json
import pathlib
import re
import sys
import tempfile

import torch
import transformers as tf

SMALL = dict(vocab_size=20, hidden_size=12, num_hidden_layers=1, num_attention_heads=3, intermediate_size=8)
SIGHT = dict(hidden_size=12, num_hidden_layers=1, num_attention_heads=3, intermediate_size=8, image_size=8, patch_size=4)
GPT2 = dict(vocab_size=20, n_embd=12, n_layer=1, n_head=3, n_positions=8, bos_token_id=0, eos_token_id=0, pad_token_id=1)
FAMILIES = {
    "bert": (tf.BertConfig, SMALL, ["Model", "ForMaskedLM", "ForPreTraining", "ForNextSentencePrediction", "ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering"], "Bert"),
    "gpt2": (tf.GPT2Config, GPT2, ["Model", "LMHeadModel", "ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering"], "GPT2"),
    "llama": (tf.LlamaConfig, {**SMALL, "pad_token_id": 1}, ["Model", "ForCausalLM", "ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering"], "Llama"),
    "vit": (tf.ViTConfig, SIGHT, ["Model", "ForImageClassification"], "ViT"),
    "deit": (tf.DeiTConfig, SIGHT, ["Model", "ForImageClassification", "ForImageClassificationWithTeacher"], "DeiT"),
}
SPELT = re.compile(r"""config\.([A-Za-z]\w*)|(?:get|has)attr\((?:self\.)?config, ["']([A-Za-z]\w*)["']""")


def spelt(module):
    return {a or b for a, b in SPELT.findall(inspect.getsource(module))}


def fields(kind):
    return {f.name for f in dataclasses.fields(kind)} if dataclasses.is_dataclass(kind) else set()


def declared(kind):
    """Arguments of the config's class, those that it takes out of the other keywords by name, and other names for them."""
    names = set(inspect.signature(kind.__init__).parameters) | fields(kind) | set(kind.attribute_map)
    for base in kind.__mro__:
        for method in ("__init__", "__post_init__", "convert_rope_params_to_dict"):
            code = getattr(inspect.unwrap(vars(base).get(method, int)), "__code__", None)
            if base.__module__.startswith("transformers") and code is not None and not code.co_filename.startswith("<"):
                names |= set(re.findall(r"""kwargs\.(?:pop|get)\(\s*["'](\w+)["']""", inspect.getsource(code)))
    return names - {"self", "args", "kwargs"}


def constants(kind):
    """What belongs to the class and not to a config, methods too."""
    kept = {"num_labels", "output_attentions", "torch_dtype", "rope_scaling", "name_or_path", "per_layer_config", "is_causal"}
    return {n for n in dir(kind) if n not in fields(kind) | kept} | {"name"}


def asked(kind, small, classes, prefix):
    """Names that code outside the config's own class asks a config for, whether they are there or not."""
    names = set()
    plain = kind.__getattribute__

    def watched(self, name):
        if not name.startswith("_") and not name.endswith("_"):
            names.add(name)
        return plain(self, name)

    for end in classes:
        model_kind = getattr(tf, prefix + end)
        with tempfile.TemporaryDirectory() as folder:
            model_kind(kind(**small)).save_pretrained(folder)
            kind.__getattribute__ = watched
            try:
                model = model_kind.from_pretrained(folder)
                for mode in (model.eval(), model.train()):
                    if "image_size" in small:
                        mode(pixel_values=torch.zeros(1, 3, 8, 8))
                    else:
                        mode(input_ids=torch.tensor([[2, 3, 4]]), attention_mask=torch.ones(1, 3, dtype=torch.long))
                        mode(input_ids=torch.tensor([[2, 3, 4]]), position_ids=torch.tensor([[0, 1, 0]]))
            finally:
                kind.__getattribute__ = plain
    return names


def main():
    path = pathlib.Path(__file__).parent / "config_fields.json"
    everything = json.loads(path.read_text()) if path.exists() else {}
    tf.logging.set_verbosity_error()
    tf.utils.logging.disable_progress_bar()
    found = {}
    for family, (kind, small, classes, prefix) in FAMILIES.items():
        names = asked(kind, small, classes, prefix) | spelt(sys.modules[getattr(tf, prefix + "Model").__module__])
        names = declared(kind) | (names - constants(kind))
        with tempfile.TemporaryDirectory() as folder:  # and what it writes
            for end in classes:
                getattr(tf, prefix + end)(kind(**small)).save_pretrained(folder)
                names |= set(json.loads((pathlib.Path(folder) / "config.json").read_text()))
        found[family] = sorted(names)
    everything[tf.__version__] = found
    lines = ",\n".join(f'  "{version}": {{\n' + ",\n".join(f'    "{family}": {json.dumps(names)}' for family, names in all.items()) + "\n  }" for version, all in sorted(everything.items()))
    path.write_text("{\n" + lines + "\n}\n")


if __name__ == "__main__":
    main()
