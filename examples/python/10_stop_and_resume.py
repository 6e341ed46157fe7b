"""Stop a run and resume it: the same bits as one that was never stopped."""
import equigrad as eg

options = {"size": 16, "epochs": 1, "batch": 32, "dim": 32, "heads": 4, "layers": 2, "mlp": 64, "train_limit": 384}
whole = eg.train("vit", "shapes", config=options, out="out/whole")


def interrupt(run: eg.Run, record: eg.Record) -> None:
    if record.step == 5:
        raise KeyboardInterrupt                              # as Ctrl-C does


try:
    eg.train("vit", "shapes", config=options, out="out/part", on_step=interrupt)
except KeyboardInterrupt as stopped:
    print(stopped)
part = eg.train(resume="out/part")
print("the same bits:", all(eg.same_bits(a, b) for a, b in zip(whole.model.parameters(), part.model.parameters())))
