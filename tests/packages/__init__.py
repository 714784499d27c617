"""Environments of other packages, each trained in for a while: `make test-environments`. It is not part of `make test`."""
