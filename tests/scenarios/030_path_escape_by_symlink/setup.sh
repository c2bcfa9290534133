printf 'OUTSIDE TEXT\n' > ../outside.txt
ln -s ../outside.txt link.txt
ln -s .. up
ln -s "$(cd .. && pwd)/outside.txt" absolute.txt
ln -s ../new.txt dangling.txt
