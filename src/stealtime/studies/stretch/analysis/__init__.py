"""The figures of a cell and what follows from several: stretch, lost seconds, predictions. Pure."""
