"""The paper's theorems as experiments on small MDPs."""
