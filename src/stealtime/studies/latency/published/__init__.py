"""Figures that others have published: carried with their source, to stand beside ours."""
