"""Foundations that know no algorithm: exceptions, validation, array and step types, seeding, snapshots and files."""
