"""Where the runs of a study execute: local processes or a Ray cluster."""
