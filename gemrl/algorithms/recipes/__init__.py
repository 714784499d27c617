"""One recipe class per family of algorithms."""
