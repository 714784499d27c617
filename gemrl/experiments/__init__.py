"""Runs on disk: run folders, logs, checkpoints, training and resuming a run, studies and executors."""
