"""Foundations without algorithms: exceptions, validation, array and step types, seeding, snapshots and files."""
