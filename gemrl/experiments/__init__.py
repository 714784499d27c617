"""Runs on disk: folders, logs, checkpoints, a run from start to end, studies and executors."""
