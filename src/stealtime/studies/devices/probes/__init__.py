"""What is measured of devices: one file a probe."""
