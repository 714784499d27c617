"""Hyperparameter search: trials of a recipe with different settings, chosen by Optuna and run by the executors of studies."""
