"""How much longer work takes in a virtual machine, where the time goes, and what one more machine would cost."""
