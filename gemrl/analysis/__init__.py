"""Analysis of finished runs: statistics, reports, figures, theory experiments, memory views and videos."""
