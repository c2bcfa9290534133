rm -rf .headgate/runs
mkdir outside
ln -s ../outside .headgate/runs
