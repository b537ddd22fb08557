"""How machines are started and stopped: one protocol (``model``), one file for each platform."""
