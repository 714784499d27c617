"""The command line: one file a command. The only layer that knows argparse and rich."""
