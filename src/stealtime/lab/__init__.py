"""Machines to measure on: platforms, their images, scenarios, tracing."""
