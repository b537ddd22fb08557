"""What a server's work costs in CPU time: the work of each trial, a model of it, and what follows for other loads."""
