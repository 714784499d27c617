"""Runs looked at from outside: collected, summed up, compared, exported, and written into one HTML file."""
