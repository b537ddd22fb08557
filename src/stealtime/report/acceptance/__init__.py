"""Named bars that a run is held against: passed, failed, or watched too short."""
