"""The command line. `main` imports the module of a command when the command is used."""
