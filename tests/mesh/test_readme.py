#!/usr/bin/python3
"""README's module in ten minutes, word for word: its files, its commands, in the order of the text."""
import argparse
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class Failure(Exception):
    pass


def section(text, title):
    match = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## )", text, re.M | re.S)
    if not match:
        raise Failure(f"README has no section '{title}'")
    return match[1]


def blocks(text):
    """(the last file that was named, content) for each fenced block, ("$", commands) for each indented one, in order."""
    named, fenced, commands = None, None, []
    for line in text.splitlines(keepends=True):
        if fenced is not None:
            if line.startswith("```"):
                yield named, "".join(fenced)
                named, fenced = None, None
            else:
                fenced.append(line)
            continue
        if line.startswith("    "):
            commands.append(line[4:])
            continue
        if commands and line.strip():
            yield "$", "".join(commands)
            commands = []
        if line.startswith("```"):
            fenced = []
            continue
        for name in re.findall(r"`([\w/]+\.(?:proto|options|c|txt|yaml))`", line):
            named = name
    if commands:
        yield "$", "".join(commands)


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def run(folder, commands, port):
    commands = commands.replace("7700", str(port))
    result = subprocess.run(["bash", "-ec", commands], cwd=folder, capture_output=True, text=True, timeout=120)
    if result.returncode:
        raise Failure(f"{commands}\nended with {result.returncode}: {result.stdout[-2000:]} {result.stderr[-2000:]}")
    return result.stdout


def test_the_module_in_ten_minutes(build, folder):
    with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as file:
        text = section(file.read(), "A module in ten minutes")
    port = free_port()
    steps = []
    for name, content in blocks(text):
        if name == "$":
            steps.append(content)
        elif name and name.startswith("hello/"):
            os.makedirs(os.path.join(folder, "hello"), exist_ok=True)
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(content)
        elif name == "a.yaml":
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(content.replace("7700", str(port)))
    commands = "\n".join(steps)
    for expected in ("./dev build", "cmake --install build/release", "zlink-node --config a.yaml &", "kill -TERM %1"):
        if expected not in commands:
            raise Failure(f"README does not say '{expected}' any more: mend this test")
    # What is built already is not built again; the rest is one shell session, as a reader would have it.
    commands = commands.replace("./dev build\n", "").replace("cmake --install build/release", f"cmake --install {build}")
    commands = commands.replace("zlink-node --config a.yaml &",
                                "zlink-node --config a.yaml & until zlinkctl status a.sock >/dev/null 2>&1; do sleep 0.05; done")
    commands = commands.replace("kill -TERM %1", "kill -TERM %1; wait %1")
    said = run(folder, "set -m\n" + commands, port)
    for expected in ('text: "Hello Ada, this is kitchen"', "visits: 1", "calls=10000 ok=10000", "serving"):
        if expected not in said:
            raise Failure(f"'{expected}' is not in what the commands said:\n{said}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    build = os.path.abspath(parser.parse_args().build)
    folder = tempfile.mkdtemp(prefix="zlr-")
    try:
        test_the_module_in_ten_minutes(build, folder)
    except (Failure, subprocess.TimeoutExpired) as why:
        print(f"FAILED test_the_module_in_ten_minutes\n{why}")
        print("0 passed, 1 failed")
        return 1
    finally:
        subprocess.run(["pkill", "-TERM", "-f", os.path.join(folder, "zlink/bin/zlink-node")], check=False)
        shutil.rmtree(folder, ignore_errors=True)
    print("ok test_the_module_in_ten_minutes")
    print("1 passed, 0 failed")
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    sys.exit(main())
