"""Studies: recipes x environments x seeds."""
