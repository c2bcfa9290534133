grep -q twentieth a.txt
