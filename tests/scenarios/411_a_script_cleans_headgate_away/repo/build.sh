git clean -fdxq
echo built > out.log
