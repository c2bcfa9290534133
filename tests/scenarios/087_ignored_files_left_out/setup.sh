mkdir build
echo 'needle in the build' > build/b.txt
