"""How does a node's folder become a machine for one process, and what do the node's own collectors say there?

Run as ``unshare --net --mount --uts python agent.py``, with an order on stdin. The process itself is the switch that
the interfaces' other ends are plugged into; a child has the machine's own network and mounts, becomes the job's
interpreter and runs the collectors of ``preflight.node``, once and, asked again, for what moved since. One JSON line
an event comes back. Standard library only, as on a node.
"""

import ctypes
import json
import os
import socket
import struct
import subprocess
import sys
import time
from fcntl import ioctl

CLONE_NEWNET = 0x40000000
SIOCGIFFLAGS, IFF_RUNNING = 0x8913, 0x40
LINK_SECONDS = 10
COLLECT = """
import json, sys
sys.path.append(sys.argv[1])
from preflight.node.agent import children
from preflight.node.calls import collect, ending, record
order = json.loads(sys.stdin.readline())
import twin_answers
twin_answers.of_machine(children, order["machine"])
class Channel:
    scratch = "/dev/shm/preflight-twin"
    def emit(self, *events):
        for event in events:
            print(json.dumps(event), flush=True)
    def receive(self, seconds):
        return json.loads(sys.stdin.readline())
arguments = {"environment": order["layers"], "sysfs": "/sys", "proc": "/proc", "sysctls": order["sysctls"]}
if order.get("key"):
    record.run({**arguments, "key": order["key"]}, Channel())
    sys.exit(0)
collect.run(arguments, Channel())
print(json.dumps({"collected": "all"}), flush=True)
for line in sys.stdin:
    print(json.dumps({"subject": "ending", "facts": ending.collect(arguments)}), flush=True)
"""


def main():
    order = json.loads(read_line())
    socket.sethostname(order["machine"]["hostname"])
    ready, told = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(told)
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.unshare(CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "unshare")
        print("{}", flush=True)
        os.read(ready, 1)
        become(order)
    os.close(ready)
    wait_for_network(child)
    with open(f"{order['folder']}/opt/twin/kernel.json") as file:
        answers = json.load(file)
    lines = []
    for number, nic in enumerate(answers["interfaces"]):
        # The kernel tells at once that a link is up whose other end has another index; else it may wait a second.
        lines.append(
            f"link add name port{number} index {1000 + number} type veth peer name {nic['name']} netns {child}"
        )
        lines.append(f"link set port{number} up")
    ip(lines)
    os.write(told, b"x")
    os.close(told)
    _, status = os.waitpid(child, 0)
    sys.exit(os.waitstatus_to_exitcode(status))


def read_line():
    """A line of stdin, not a byte more: the rest is the child's."""
    data = b""
    while not data.endswith(b"\n"):
        more = os.read(0, 1)
        if not more:
            sys.exit(1)
        data += more
    return data


def wait_for_network(child):
    """Until the child has a network of its own."""
    ours = os.stat("/proc/self/ns/net").st_ino
    while os.stat(f"/proc/{child}/ns/net").st_ino == ours:
        os.sched_yield()


def ip(lines):
    subprocess.run(["ip", "-batch", "-"], input="\n".join(lines) + "\n", text=True, check=True)


def become(order):
    """Lay the folder, bring its network up, and become its interpreter."""
    sys.path.insert(0, order["root"])
    from tests.lab.inside import MS_BIND, MS_REC, Place, mount

    folder = order["folder"]
    with open(f"{folder}/opt/twin/kernel.json") as file:
        answers = json.load(file)
    bring_up(answers)
    socket.sethostname(answers["hostname"])
    accounts = {name: read(f"/etc/{name}") for name in ("passwd", "group")}
    place = Place("preflight-twin", "/mnt/scratch")
    place.tmpfs("/mnt", "755")
    os.mkdir("/mnt/root")
    for name in os.listdir("/"):  # what marks this machine as a container is not the node's
        path, inside = f"/{name}", f"/mnt/root/{name}"
        if os.path.islink(path):
            os.symlink(os.readlink(path), inside)
        elif os.path.isdir(path):
            os.mkdir(inside)
            if name != "mnt":
                mount(path, inside, flags=MS_BIND | MS_REC)
    os.chroot("/mnt/root")
    os.chdir("/")
    os.mkdir("/mnt/scratch")
    place.tmpfs("/etc", "755")  # of this machine's own files only its accounts are the node's too
    for name, text in accounts.items():
        place.write(f"/etc/{name}", text)
    place.tmpfs("/dev/shm", f"1777,size={answers['shared_memory_bytes']}")
    place.lay(folder)
    if not os.path.exists(f"{folder}/dev/kmsg"):  # this machine's own is not the node's; a container has this instead
        mount("/dev/null", "/dev/kmsg", flags=MS_BIND)
    os.chdir("/")
    for command in answers.get("mounts", []):
        subprocess.run(command.split(), capture_output=True, check=True)
    environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "HOME": "/opt/twin"}
    environment |= answers["environment"]
    if answers["user_id"]:
        os.setgroups([])
        os.setgid(answers["user_id"])
        os.setuid(answers["user_id"])
    python = "/opt/twin/env/bin/python"
    os.execve(python, [python, "-I", "-c", COLLECT, order["root"]], environment)


def read(path):
    """The text of a file."""
    with open(path) as file:
        return file.read()


def bring_up(answers):
    """The interfaces as the kernel has them."""
    lines = ["link set lo up"]
    for nic in answers["interfaces"]:
        lines.append(f"link set dev {nic['name']} mtu {nic['mtu']}")
        lines += [f"addr add {it} dev {nic['name']}{' nodad' * (':' in it)}" for it in nic["addresses"]]
        if nic["is_up"]:
            lines.append(f"link set {nic['name']} up")
    ip(lines)
    wait_for_links([nic["name"] for nic in answers["interfaces"] if nic["is_up"]])
    for gateway in filter(None, [answers["gateway"]]):
        first = answers["interfaces"][0]["name"]  # a gateway need not be in its subnet, as in a pod
        command = ["ip", "route", "add", "default", "via", gateway, "dev", first, "onlink"]
        subprocess.run(command, capture_output=True, check=False)  # an interface that is down has no route
    for command in answers.get("commands", []):  # routes, rules and filters as somebody has set them by hand
        subprocess.run(command.split(), capture_output=True, check=True)


def wait_for_links(names):
    """Until the kernel has noticed that the other ends are plugged in, which a busy machine does later."""
    ends = time.monotonic() + LINK_SECONDS
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        for name in names:
            request = struct.pack("16sH14x", name.encode(), 0)
            while time.monotonic() < ends:
                if struct.unpack_from("=16xH", ioctl(asked, SIOCGIFFLAGS, request))[0] & IFF_RUNNING:
                    break
                time.sleep(0.002)


if __name__ == "__main__":
    main()
