"""The content of the latency report as plain data, which the terminal and the page show."""
