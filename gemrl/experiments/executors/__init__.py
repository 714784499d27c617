"""Executors, which run the processes of a study: on this machine or on a Ray cluster."""
