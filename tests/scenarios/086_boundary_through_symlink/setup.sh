ln -s vendor lib
ln -s vendor/a.txt a.txt
