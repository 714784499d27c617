"""Gymnasium environments: creating them, checking what they return, and stepping one or many."""
