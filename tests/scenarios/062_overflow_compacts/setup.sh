for name in one two three four; do
  { echo "begin-$name"; seq 1 900; echo "end-$name"; } > $name.txt
done
echo kept > kept.txt
