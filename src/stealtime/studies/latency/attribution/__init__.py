"""Whose fault each spike is: from the traces of a trial to causes that add up to its lost time."""
