"""What stands in the kernel's log of machines on which all is well?"""

AT_START = (
    "6|pci 0000:00:00.0: [8086:09a2] type 00 class 0x088000",
    "4|nvidia: module license 'NVIDIA' taints kernel.",
    "4|nvidia: module verification failed: signature and/or required key missing - tainting kernel",
    "6|mlx5_core 0000:e1:00.0: mlx5_pcie_event:301:(pid 1): PCIe slot advertised sufficient power (75W).",
    "6|mlx5_core 0000:e1:00.0: 252.048 Gb/s available PCIe bandwidth (16.0 GT/s PCIe x16 link)",
    (
        "6|pci 0000:e3:00.0: 15.752 Gb/s available PCIe bandwidth, limited by 8.0 GT/s PCIe x2 link at 0000:e0:01.1 "
        "(capable of 63.012 Gb/s with 16.0 GT/s PCIe x4 link)"
    ),  # a disk on a board that gives it two lanes
    (
        "6|pci 0000:11:00.0: 252.048 Gb/s available PCIe bandwidth, limited by 16.0 GT/s PCIe x16 link at 0000:10:01.0 "
        "(capable of 504.112 Gb/s with 32.0 GT/s PCIe x16 link)"
    ),  # a switch that could do more than its board
    "6|mlx5_core 0000:e1:00.1 ens1f1np1: Link down",
    "6|ixgbe 0000:e1:00.0 eno1: NIC Link is Down",
    "6|bond0: (slave eno2): link status definitely down, disabling slave",
    "6|mlx5_core 0000:e1:00.0 ens1f0np0: Link up",
    "6|EXT4-fs (nvme0n1p2): mounted filesystem with ordered data mode. Opts: errors=remount-ro",
    "6|XFS (dm-0): Ending clean mount",
    "6|nvme nvme0: 128/0/0 default/read/poll queues",
    "3|ACPI Error: AE_NOT_FOUND, Evaluating _STA (20210730/utresdecode-310)",
    "3|usb 1-1: device descriptor read/64, error -71",
)
SINCE = (
    "4|pcieport 0000:10:01.0: AER: Correctable error message received from 0000:13:00.0",
    "4|EDAC MC0: 1 CE memory read error on CPU_SrcID#0_MC#0_Chan#0_DIMM#0 (channel:0 slot:0)",
    "6|mce: [Hardware Error]: Machine check events logged",
    "3|{1}[Hardware Error]: event severity: corrected",
    "6|mce: CPU12: Package temperature/speed normal",
    "6|nfs: server 10.77.0.200 OK",
    "6|perf: interrupt took too long (2503 > 2500), lowering kernel.perf_event_max_sample_rate to 79750",
    "6|python3[4711]: segfault at 0 ip 00007f error 4 in libc.so.6[7f+195000]",
    "6|traps: python3[4712] general protection fault ip:7f12 sp:7ffc error:0 in libc.so.6[7f+195000]",
    "4|IPv4: martian source 10.77.0.255 from 10.77.0.1, on dev eno1",
    "4|NVRM: Xid (PCI:0000:13:00): 31, pid=4711, name=python, Ch 00000008, MMU Fault: ENGINE GRAPHICS",
    # What is over: another driver's library met this one, a GPU was reset, an adapter has recovered.
    (
        "3|NVRM: API mismatch: the client 'nvidia-smi' (pid 4711)\\x0aNVRM: has the version 570.133.20, but this "
        "kernel module has\\x0aNVRM: the version 570.124.06."
    ),
    "3|NVRM: Xid (PCI:0000:13:00): 109, pid=881, name=python, Ch 00000008, errorString CTX SWITCH TIMEOUT",
    "3|NVRM: Xid (PCI:0000:13:00): 154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)",
    "3|amdgpu 0000:13:00.0: amdgpu: GPU reset begin!",
    "6|amdgpu 0000:13:00.0: amdgpu: GPU reset(3) succeeded!",
    "3|mlx5_core 0000:e1:00.0: poll_health:825:(pid 0): device's health compromised - reached miss count",
    "6|mlx5_core 0000:e1:00.0: mlx5_health_try_recover:358:(pid 812): health recovery succeeded",
)
