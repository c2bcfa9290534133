! grep -Hn print *.py
