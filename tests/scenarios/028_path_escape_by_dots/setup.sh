printf 'OUTSIDE TEXT\n' > ../outside.txt
