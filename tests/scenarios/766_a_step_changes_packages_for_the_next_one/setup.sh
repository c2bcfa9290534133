mkdir -p node_modules/jest node_modules/.bin
echo 'PYTHONPATH=. python3 -B tests/test_calc.py' > node_modules/jest/run.sh
echo 'exports.expect = 1' > node_modules/jest/index.js
