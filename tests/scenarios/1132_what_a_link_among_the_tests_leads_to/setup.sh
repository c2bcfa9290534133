mkdir -p fixtures/sets links local lib
echo 3 > fixtures/three.json
echo 2 > fixtures/sets/two.json
echo 1 > local/own.json
echo "x = 1" > lib/part.py
echo local > .gitignore
ln -s ../fixtures/three.json links/three.json
ln -s ../links/three.json tests/want.json
ln -s ../fixtures/sets tests/sets
ln -s ../local/own.json tests/own.json
ln -s ../lib tests/lib
