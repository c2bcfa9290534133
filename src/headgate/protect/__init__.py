"""What may not be touched: guards for tools, and files that are restored after a command."""
