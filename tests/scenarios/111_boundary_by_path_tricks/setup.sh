mkdir sub
ln -s ../vendor sub/lib
ln -s deps.lock alias
