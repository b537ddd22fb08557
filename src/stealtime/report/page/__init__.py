"""The page of every run: its frame, what it was measured on, and the section of each study."""
