"""In what state is a GPU, as its driver reports it?"""

from __future__ import annotations

from preflight.facts.value import NOT_REPORTED, Count, Missing, Text, Value


class GpuStatus(Value, frozen=True, kw_only=True):
    """How a GPU is; what its driver or model does not report is absent."""

    is_persistent: bool | Missing = NOT_REPORTED
    has_ecc: bool | Missing = NOT_REPORTED
    has_ecc_pending: bool | Missing = NOT_REPORTED
    mig_pending: Text | Missing = NOT_REPORTED
    uncorrected_errors: Count | Missing = NOT_REPORTED  # since the driver was loaded
    pages_retired: Count | Missing = NOT_REPORTED  # for errors of two bits
    is_retirement_pending: bool | Missing = NOT_REPORTED
    rows_remapped: Count | Missing = NOT_REPORTED  # for errors that could not be corrected
    is_remapping_pending: bool | Missing = NOT_REPORTED
    has_remapping_failed: bool | Missing = NOT_REPORTED
    is_memory_beyond_repair: bool | Missing = NOT_REPORTED
    is_repair_pending: bool | Missing = NOT_REPORTED
    is_sram_worn: bool | Missing = NOT_REPORTED
    recovery: Text | Missing = NOT_REPORTED  # what the driver wants done: "None", "Reset", "Reboot", "Drain P2P"
    needs_reset: bool | Missing = NOT_REPORTED
    is_drain_recommended: bool | Missing = NOT_REPORTED
    licence: Text | Missing = NOT_REPORTED  # of a virtual GPU: "Licensed (Expiry: ...)", "Unlicensed (Restricted)"
    slowdowns: tuple[Text, ...] | Missing = NOT_REPORTED  # "hw_slowdown", "sw_power_cap", ...
    performance_state: Text | Missing = NOT_REPORTED  # "P0" at work, up to "P12"
    pcie_generation: Count | Missing = NOT_REPORTED
    pcie_generation_max: Count | Missing = NOT_REPORTED
    pcie_width: Count | Missing = NOT_REPORTED
    pcie_width_max: Count | Missing = NOT_REPORTED
    power_limit_watts: float | Missing = NOT_REPORTED
    power_default_watts: float | Missing = NOT_REPORTED
    corrected_errors: Count | Missing = NOT_REPORTED  # over the GPU's life
    banks_without_spare_rows: Count | Missing = NOT_REPORTED  # where the next broken row cannot be remapped
    banks_with_one_spare_row: Count | Missing = NOT_REPORTED
    memory_used_mib: Count | Missing = NOT_REPORTED
    vbios: Text | Missing = NOT_REPORTED
    firmware: tuple[tuple[Text, Text], ...] | Missing = NOT_REPORTED  # parts of the GPU, each with its version
    deferred_errors: Count | Missing = NOT_REPORTED  # that were found and not used yet
    temperature_celsius: float | Missing = NOT_REPORTED
    temperature_limit_celsius: float | Missing = NOT_REPORTED  # where it slows itself down
    memory_celsius: float | Missing = NOT_REPORTED
    memory_limit_celsius: float | Missing = NOT_REPORTED
    performance_level: Text | Missing = NOT_REPORTED  # of AMD's: "AUTO", "LOW", "MANUAL"
    partition: Text | Missing = NOT_REPORTED  # of AMD's: "SPX/NPS1"
    link_fault: Text | Missing = NOT_REPORTED  # of xGMI: "NO_ERRORS", "ERROR", "MULTIPLE_ERRORS"
    clock_mhz: float | Missing = NOT_REPORTED  # that applications were given
    clock_default_mhz: float | Missing = NOT_REPORTED
    nvlink_gbytes_per_s: float | Missing = NOT_REPORTED  # of its slowest active NVLink
    bar1_mib: Count | Missing = NOT_REPORTED  # of its memory that devices can reach over PCIe
    is_inforom_corrupted: bool = False
    unanswered: tuple[
        Text, ...
    ] = ()  # values in place of which the driver reports an error: "power_draw: Unknown Error"
    fabric_state: Text | Missing = NOT_REPORTED  # "Completed", "In Progress", "Not Started"
    fabric_status: Text | Missing = NOT_REPORTED
    fabric_health: Text | Missing = NOT_REPORTED  # "Healthy", "Unhealthy", "Limited Capacity"
    fabric_faults: tuple[Text, ...] | Missing = NOT_REPORTED  # "bandwidth: Degraded", "route unhealthy: True"
    fabric_cluster: Text | Missing = NOT_REPORTED  # of the GPUs that one NVLink fabric joins over several nodes
    fabric_clique: Text | Missing = NOT_REPORTED

    def domain(self) -> str:
        """The NVLink fabric of several nodes that the GPU belongs to, "" where it is of its own node only."""
        cluster = self.fabric_cluster
        return "" if isinstance(cluster, Missing) or not cluster.strip("0-") else cluster
