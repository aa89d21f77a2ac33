"""From labelled results to statistics and tables."""
