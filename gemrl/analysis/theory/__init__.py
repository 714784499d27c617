"""Experiments on small MDPs that check the theorems of the paper."""
