"""One folder a question, with its own probes, results, analysis and pages."""
