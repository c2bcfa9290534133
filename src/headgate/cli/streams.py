"""Standard streams that outlive the terminal they lead to."""
