mkdir data
truncate -s 600M data/large.bin # larger than all copies together may be
echo kept > data/small.txt
