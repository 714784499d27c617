"""Gymnasium environments: making them, checking what they return, and stepping one or many."""
