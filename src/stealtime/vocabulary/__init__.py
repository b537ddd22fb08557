"""What every package may use: errors, quantities, readings, findings, clocks."""
