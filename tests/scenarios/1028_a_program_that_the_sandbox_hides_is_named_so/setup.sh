mkdir -p ../hidden/bin ../hidden/lib
printf '#!/bin/sh\ntrue\n' > ../hidden/bin/tool
chmod +x ../hidden/bin/tool
ln -s ../hidden/bin link
