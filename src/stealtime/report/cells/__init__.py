"""The cell of a run as figures: what every study has of it, and the one rule of what may be used."""
