"""A real SIP server and its media relay, natively and in protected guests: what they carry, what a failover costs."""
