echo old > notes.txt
echo other > other.txt
