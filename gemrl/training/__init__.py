"""The training loop, evaluation, models, callbacks, metrics, trackers and model files."""
