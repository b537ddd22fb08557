"""Is a task set schedulable, with what margin, and which overhead costs most: files, models, documents.

The analysis is ``crates/schedulability``, its definitions ``docs/schedulability.md``.
"""
