"""Train a ViT on permuted tokens and features beside its plain twin, and look at how far they drift apart."""
import equigrad as eg

run = eg.train("vit", "shapes", size=16, steps=30, batch=32, dim=32, heads=4, layers=2, mlp=64, train_limit=512,
               permute="both", twin=True, dtype="f64", drift_every=5, out=None)
drift = run.metrics.train["both.drift"]                      # nan in steps where it was not measured
print("largest drift is rounding:", bool(max(drift[drift == drift]) < 1e-10))
losses = [run.metrics.test[f"{mode}.loss"][-1] for mode in ("none", "both")]
print("the same losses:", bool(abs(losses[0] - losses[1]) < 1e-10))
permuted, plain = (run.models[mode].state_dict()["blocks.0.attention.qkv.weight"] for mode in ("both", "none"))
print(f"weights as the cloud sees them: {eg.relative_error(permuted, plain):.1f} away from the plain ones")
print("moved back:", eg.relative_error(run.model.state_dict()["blocks.0.attention.qkv.weight"], plain) < 1e-10)
