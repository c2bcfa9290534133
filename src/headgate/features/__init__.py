"""What Headgate can do besides its loop: a folder for each feature. Below `engine`, nobody knows one."""
