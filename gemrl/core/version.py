"""The version of gemrl."""

__version__ = "0.1.0"
