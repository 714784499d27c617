"""The HTML report, comparisons with other people's results, and exports."""
