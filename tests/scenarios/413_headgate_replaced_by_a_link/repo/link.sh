rm -rf .headgate
ln -s /nowhere .headgate
