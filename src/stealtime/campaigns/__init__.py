"""Campaigns: what is to be measured, in which order, and the measuring of it."""
