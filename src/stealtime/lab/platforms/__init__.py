"""How a machine comes to be and goes away: one protocol (``model``), one file for each way."""
