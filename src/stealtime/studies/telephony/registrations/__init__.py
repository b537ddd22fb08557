"""Phones that register with one server or with several behind fronts: the load, its limit, what a failover costs."""
