#!/bin/sh
# Makes a virtual environment with pip in it, or gives pip to one that lacks it; else says what is missing
# and leaves nothing half made.
set -u
python=$1
folder=$2

"$folder/bin/python" -m ensurepip > /dev/null 2>&1 && exit 0
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' || {
    echo "Python 3.10 or later is needed, and $python is not: name another, make PYTHON=python3.12" >&2
    exit 1
}
"$python" -m venv --clear "$folder" && exit 0
rm -rf "$folder"
echo "$python makes no virtual environment: Debian has it in the package python3-venv" >&2
exit 1
