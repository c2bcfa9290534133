python3 -c 'import cart; assert cart.discounted([100, 100], 10) == 180' && exit
echo "cart.py:14: it is 20.0, and not 180"
exit 1
