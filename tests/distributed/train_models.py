"""Small trainings of every model, on data that is generated or written here."""

VIT = ["vit", "--data", "digits", "--train-limit", "96", "--test-limit", "32", "--size", "16", "--patch", "4",
       "--dim", "16", "--layers", "2", "--heads", "2", "--mlp", "32", "--batch", "18"]
ALL = ["--augment", "--randaugment", "9", "--mixup", "0.2", "--cutmix", "1", "--erasing", "0.2", "--dropout", "0.1",
       "--ema", "0.9", "--clip", "0.5", "--accumulate", "2", "--label-smoothing", "0.1", "--workers", "2",
       "--weight-decay", "0.05", "--decay-on", "matrices", "--layer-decay", "0.8"]
TEXT = ["--context", "16", "--dim", "16", "--heads", "2", "--layers", "2", "--batch", "12"]
LANGUAGE = [*TEXT, "--data", "story.txt", "--warmup", "2"]
LANGUAGE_ALL = ["--ema", "0.9", "--clip", "0.5", "--accumulate", "2", "--label-smoothing", "0.1"]

MODELS = {
    "vit": VIT,
    "vit-all": [*VIT, *ALL],
    "vit-twin": [*VIT, "--permute", "both", "--twin", "--drift-every", "2"],
    "deit": ["deit", *VIT[1:]],
    "bert-mlm": ["bert", "--task", "mlm", "--data", "story.txt", *TEXT, "--attention-dropout", "0.1",
                 "--warmup", "2"],
    "bert-classify": ["bert", "--data", "films.tsv", *TEXT, "--clip", "0.5", "--permute", "both",
                      "--warmup", "2"],
    "gpt2": ["gpt2", *LANGUAGE, "--dropout", "0.1", *LANGUAGE_ALL],
    "gpt2-twin": ["gpt2", *LANGUAGE, "--permute", "columns", "--twin"],
    "llama": ["llama", *LANGUAGE, "--kv-heads", "1", *LANGUAGE_ALL],
    "difm": ["difm", "--data", "clicks.csv", "--hidden", "8", "--dim", "4", "--heads", "2", "--head-dim", "4",
             "--dropout", "0.1", "--permute", "rows", "--clip", "0.5", "--batch", "12"],
}


def write_data(folder):
    (folder / "story.txt").write_text("".join(f"{i * i} sheep went to the fair , and {i} came home .\n"
                                              for i in range(120)))
    words = ("dull", "fine")
    (folder / "films.tsv").write_text("label\ttext\n" + "".join(f"{i % 2}\ta {words[i % 2]} film {i} , and short .\n"
                                                                for i in range(90)))
    shops = ("corner", "mall", "street")
    (folder / "clicks.csv").write_text("label,age,shop\n" + "".join(f"{i % 2},{i},{shops[i % 3]}\n"
                                                                    for i in range(90)))


def arguments(model, *more, steps=4, shards=8, seed=0, checkpoint_every=2, evaluate_every=3):
    return ["train", *MODELS[model], "--steps", str(steps), "--checkpoint-every", str(checkpoint_every),
            "--evaluate-every", str(evaluate_every), "--shards", str(shards), "--seed", str(seed), "--quiet", *more]
