"""Algorithms as maths and data: planners, targets, losses, bootstraps and recipes. No JAX, no environments."""
