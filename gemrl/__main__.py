"""`python -m gemrl` is the command `gemrl`."""

from gemrl.cli.entry import script

if __name__ == "__main__":
    script()
