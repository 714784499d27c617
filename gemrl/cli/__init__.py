"""The command line, one module per command. The only layer that uses argparse and rich."""
