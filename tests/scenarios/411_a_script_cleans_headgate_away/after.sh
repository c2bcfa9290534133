echo mine >> n.txt
