"""Guest kernels and initramfs images: found, unpacked, packed, cached by content."""
