"""Agents: networks and memories that act and learn. The only layer that computes with JAX."""
