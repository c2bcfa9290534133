echo "using $(cut -d= -f2 ./.e*)"
