"""Voice that the server puts into another codec: tones take the place of marks, which do not survive it."""
