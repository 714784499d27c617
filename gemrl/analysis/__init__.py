"""What is made of runs: statistics, reports, figures, theory experiments, memory views and videos."""
