"""Task sets as other programs write them, as tasks of ours: what a format says beyond them is said in a sentence."""
