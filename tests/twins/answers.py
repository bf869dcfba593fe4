"""What does this node's kernel answer? The site hook of a twin's interpreter, from the twin's kernel.json.

What is a file of a node is a file here too, and interfaces are real ones. This stands for what no mount can: the
kernel's name, CPUs, memory and limits, and the rate that a driver tells ethtool; and for what no answer of the machine
below may change: its clocks, and what it calls its own log.
"""


def install():
    import json
    import os

    try:
        with open("/opt/twin/kernel.json") as file:
            told = json.load(file)
    except (OSError, ValueError):
        return
    import fcntl
    import resource

    uname, sysconf, ioctl, getrlimit = os.uname, os.sysconf, fcntl.ioctl, resource.getrlimit

    def own_uname():
        real = uname()
        return os.uname_result((real.sysname, real.nodename, told["release"], real.version, told["machine"]))

    def own_sysconf(name):
        return told["memory_bytes"] // 4096 if name == "SC_PHYS_PAGES" else sysconf(name)

    limits = {getattr(resource, f"RLIMIT_{name.upper()}"): value for name, value in told["limits"].items()}

    def own_getrlimit(kind):
        return (limits[kind], limits[kind]) if kind in limits else (-1, -1) if kind in others else getrlimit(kind)

    others = (resource.RLIMIT_AS, resource.RLIMIT_FSIZE, resource.RLIMIT_CPU, resource.RLIMIT_DATA)
    speeds = {each["name"]: each["speed_mbps"] for each in told["interfaces"]}

    bare = {each["name"] for each in told["interfaces"] if each.get("offloads") is False}

    def own_ioctl(descriptor, request, argument=0, *more):
        if request != 0x8946:  # SIOCETHTOOL
            return ioctl(descriptor, request, argument, *more)
        import ctypes
        import errno
        import struct

        name = argument[:16].rstrip(b"\0").decode()
        speed = speeds.get(name, 0)
        if not speed:
            raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))
        (place,) = struct.unpack_from("=16xQ", argument)
        if struct.unpack("=I", ctypes.string_at(place, 4))[0] != 1:  # of the adapter's offloads, an answer of 8 bytes
            ctypes.memmove(place + 4, struct.pack("=I", name not in bare), 4)
            return argument
        answer = bytearray(ctypes.string_at(place, 44))
        struct.pack_into("=H", answer, 12, speed & 0xFFFF)
        struct.pack_into("=H", answer, 28, speed >> 16)
        ctypes.memmove(place, bytes(answer), 44)
        return argument

    os.uname, os.sysconf, fcntl.ioctl, resource.getrlimit = own_uname, own_sysconf, own_ioctl, own_getrlimit
    os.cpu_count = lambda: told["cpus"]
    os.sched_getaffinity = lambda _pid: set(range(told["cpus"]))


def of_machine(children, machine):
    """Answer for the machine that the twin is laid over: how long it is up, what its clock says, what its log holds."""
    import ctypes
    import json
    import time

    with open("/opt/twin/kernel.json") as file:
        told = json.load(file)
    clock, monotonic, in_libc = time.time, time.monotonic, children.in_libc
    begun, up = monotonic(), machine["up_seconds"]
    log = machine["log"].encode()

    def own_in_libc(name, *arguments):
        if name == "adjtimex":
            return told.get("adjtimex", 0)
        if name != "klogctl":
            return in_libc(name, *arguments)
        if arguments[0] == 10:  # SYSLOG_ACTION_SIZE_BUFFER
            return 1 << 16
        ctypes.memmove(ctypes.c_char_p(arguments[1]), log, len(log))
        return len(log)

    children.in_libc = own_in_libc
    time.monotonic = lambda: monotonic() - begun + up
    time.time = lambda: clock() + machine["clock_ahead_seconds"]


install()
