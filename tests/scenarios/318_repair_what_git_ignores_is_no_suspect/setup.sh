mkdir libs
printf "def call():\n    return 1\n" > libs/caller.py
