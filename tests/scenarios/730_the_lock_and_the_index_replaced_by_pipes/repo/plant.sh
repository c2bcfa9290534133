own=.git/headgate
rm -f $own/lock $own/snapshot.index
mkfifo $own/lock $own/snapshot.index
