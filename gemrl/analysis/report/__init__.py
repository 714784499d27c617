"""The HTML report, comparisons with published results, and exports to other formats."""
