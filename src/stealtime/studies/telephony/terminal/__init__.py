"""What is printed of this study's cells."""
