n=$(cat n.txt); [ "$n" = 1 ] || { echo "$n is not 1"; exit 1; }
