"""What people see while a task runs, and at its end."""
