for folder in envs/py be/.venv; do
  mkdir -p $folder/bin
  printf "home = /usr/bin\n" > $folder/pyvenv.cfg
  printf '#!/bin/sh\npython3 -B -c "import calc; assert calc.add(1, 2) == 3"\n' > $folder/bin/check
  chmod +x $folder/bin/check
done
ln -s envs/py .venv
