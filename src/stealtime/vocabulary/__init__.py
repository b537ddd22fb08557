"""What every room may use: errors, quantities, readings, findings, clocks."""
