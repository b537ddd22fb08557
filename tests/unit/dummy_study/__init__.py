"""A study that counts echoes: it stands in for those to come, whose results are no durations."""
