echo "Hello $1"
