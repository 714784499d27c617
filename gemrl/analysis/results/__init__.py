"""Reading runs from disk into one table, with their scores and the scales that normalise them."""
