echo 'cart.py:14: wrong'
exit 1
