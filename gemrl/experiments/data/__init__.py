"""Recorded trajectories: reads them from files, Minari datasets and older runs."""
