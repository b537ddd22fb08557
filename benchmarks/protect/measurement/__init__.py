"""What the benchmarks of protection share: hosts with protected guests, a bare QEMU, and what the figures mean."""
