/*
 * nvidia-smi: the properties by the names that nvidia-smi --help-query-gpu lists (driver 535 to 590), with the
 * units that its header prints. vGPU, module power and fabric health properties are left out: no simulated GPU
 * has them, and the drivers of 580 differ in them.
 */
#include "smi_fields.h"

#define LACKS(name) {name, NULL, NULL, NULL, NULL}
#define LACKS_IN(name, unit) {name, NULL, unit, NULL, NULL}
#define LACKS_TOO(name, alias) {name, alias, NULL, NULL, NULL}

/* One kind of ECC error, in all places that are counted. */
#define ECC(kind)                                                                                          \
    LACKS("ecc.errors." kind ".device_memory"), LACKS("ecc.errors." kind ".dram"),                         \
    LACKS("ecc.errors." kind ".register_file"), LACKS("ecc.errors." kind ".l1_cache"),                     \
    LACKS("ecc.errors." kind ".l2_cache"), LACKS("ecc.errors." kind ".texture_memory"),                    \
    LACKS("ecc.errors." kind ".cbu"), LACKS("ecc.errors." kind ".sram"), LACKS("ecc.errors." kind ".total")

#define REASON(name) LACKS_TOO("clocks_event_reasons." name, "clocks_throttle_reasons." name)
#define COUNTER(name) LACKS_IN("clocks_event_reasons_counters." name, "us")

static const struct smi_field GPU_FIELDS[] = {
    {"timestamp", NULL, NULL, smi_timestamp, NULL},
    {"driver_version", NULL, NULL, smi_driver_version, NULL},
    {"count", NULL, NULL, smi_count, NULL},
    {"name", "gpu_name", NULL, smi_name, NULL},
    {"serial", "gpu_serial", NULL, smi_serial, NULL},
    {"uuid", "gpu_uuid", NULL, smi_uuid, NULL},
    {"pci.bus_id", "gpu_bus_id", NULL, smi_bus_id, NULL},
    {"pci.domain", NULL, NULL, smi_pci_domain, NULL},
    {"pci.bus", NULL, NULL, smi_pci_bus, NULL},
    {"pci.device", NULL, NULL, smi_pci_device, NULL},
    {"pci.baseClass", NULL, NULL, smi_pci_base_class, NULL},
    {"pci.subClass", NULL, NULL, smi_pci_sub_class, NULL},
    {"pci.device_id", NULL, NULL, smi_pci_device_id, NULL},
    {"pci.sub_device_id", NULL, NULL, smi_pci_sub_device_id, NULL},
    LACKS("pcie.link.gen.current"), LACKS("pcie.link.gen.gpucurrent"), LACKS("pcie.link.gen.max"),
    LACKS("pcie.link.gen.gpumax"), LACKS("pcie.link.gen.hostmax"), LACKS("pcie.link.width.current"),
    LACKS("pcie.link.width.max"),
    {"index", NULL, NULL, smi_index, NULL},
    LACKS("display_mode"), LACKS("display_attached"),
    {"display_active", NULL, NULL, smi_display_active, NULL},
    {"persistence_mode", NULL, NULL, smi_persistence_mode, NULL},
    LACKS("addressing_mode"), LACKS("accounting.mode"), LACKS("accounting.buffer_size"),
    LACKS("driver_model.current"), LACKS("driver_model.pending"),
    {"vbios_version", NULL, NULL, smi_vbios, NULL},
    LACKS_TOO("inforom.img", "inforom.image"), LACKS("inforom.oem"), LACKS("inforom.ecc"),
    LACKS_TOO("inforom.pwr", "inforom.power"), LACKS("inforom.checksum_validation"),
    LACKS("reset_status.reset_required"), LACKS("reset_status.drain_and_reset_recommended"),
    LACKS("gpu_recovery_action"), LACKS_TOO("gom.current", "gpu_operation_mode.current"),
    LACKS_TOO("gom.pending", "gpu_operation_mode.pending"),
    {"fan.speed", NULL, "%", smi_fan_speed, NULL},
    {"pstate", NULL, NULL, smi_pstate, NULL},
    REASON("supported"), REASON("active"), REASON("gpu_idle"), REASON("applications_clocks_setting"),
    REASON("sw_power_cap"), REASON("hw_slowdown"), REASON("hw_thermal_slowdown"),
    REASON("hw_power_brake_slowdown"), REASON("sw_thermal_slowdown"), REASON("sync_boost"),
    COUNTER("sw_power_cap"), COUNTER("sync_boost"), COUNTER("sw_thermal_slowdown"),
    COUNTER("hw_thermal_slowdown"), COUNTER("hw_power_brake_slowdown"),
    {"memory.total", NULL, "MiB", smi_memory_total, NULL},
    {"memory.reserved", NULL, "MiB", smi_memory_reserved, NULL},
    {"memory.used", NULL, "MiB", smi_memory_used, NULL},
    {"memory.free", NULL, "MiB", smi_memory_free, NULL},
    {"compute_mode", NULL, NULL, smi_compute_mode, NULL},
    {"compute_cap", NULL, NULL, smi_compute_cap, NULL},
    {"utilization.gpu", NULL, "%", smi_utilization_gpu, NULL},
    {"utilization.memory", NULL, "%", smi_utilization_memory, NULL},
    LACKS_IN("utilization.encoder", "%"), LACKS_IN("utilization.decoder", "%"),
    LACKS_IN("utilization.jpeg", "%"), LACKS_IN("utilization.ofa", "%"),
    LACKS("encoder.stats.sessionCount"), LACKS("encoder.stats.averageFps"),
    LACKS("encoder.stats.averageLatency"), LACKS("dramEncryption.mode.current"),
    LACKS("dramEncryption.mode.pending"),
    {"ecc.mode.current", NULL, NULL, smi_ecc_current, NULL},
    {"ecc.mode.pending", NULL, NULL, smi_ecc_pending, NULL},
    ECC("corrected.volatile"), ECC("corrected.aggregate"), ECC("uncorrected.volatile"),
    ECC("uncorrected.aggregate"),
    LACKS("ecc.errors.uncorrected.volatile.sram.parity"), LACKS("ecc.errors.uncorrected.volatile.sram.secded"),
    LACKS("ecc.errors.uncorrected.aggregate.sram.parity"),
    LACKS("ecc.errors.uncorrected.aggregate.sram.secded"),
    LACKS("ecc.errors.uncorrected.aggregate.sram.thresholdExceeded"),
    LACKS("ecc.errors.uncorrected.aggregate.sram.l2"), LACKS("ecc.errors.uncorrected.aggregate.sram.sm"),
    LACKS("ecc.errors.uncorrected.aggregate.sram.mcu"), LACKS("ecc.errors.uncorrected.aggregate.sram.pcie"),
    LACKS("ecc.errors.uncorrected.aggregate.sram.other"),
    LACKS_TOO("retired_pages.single_bit_ecc.count", "retired_pages.sbe"),
    LACKS_TOO("retired_pages.double_bit.count", "retired_pages.dbe"), LACKS("retired_pages.pending"),
    LACKS("remapped_rows.correctable"), LACKS("remapped_rows.uncorrectable"), LACKS("remapped_rows.pending"),
    LACKS("remapped_rows.failure"), LACKS("remapped_rows.histogram.max"), LACKS("remapped_rows.histogram.high"),
    LACKS("remapped_rows.histogram.partial"), LACKS("remapped_rows.histogram.low"),
    LACKS("remapped_rows.histogram.none"),
    {"temperature.gpu", NULL, NULL, smi_temperature, NULL},
    LACKS("temperature.gpu.tlimit"),
    {"temperature.memory", NULL, NULL, NULL, "N/A"},
    LACKS("power.management"),
    {"power.draw", NULL, "W", smi_power_draw, NULL},
    LACKS_IN("power.draw.average", "W"), LACKS_IN("power.draw.instant", "W"),
    {"power.limit", NULL, "W", smi_power_limit, NULL},
    {"enforced.power.limit", NULL, "W", smi_power_enforced, NULL},
    {"power.default_limit", NULL, "W", smi_power_default, NULL},
    LACKS_IN("power.min_limit", "W"), LACKS_IN("power.max_limit", "W"), LACKS_IN("edpp_multiplier", "%"),
    {"clocks.current.graphics", "clocks.gr", "MHz", smi_clock_graphics, NULL},
    {"clocks.current.sm", "clocks.sm", "MHz", smi_clock_sm, NULL},
    {"clocks.current.memory", "clocks.mem", "MHz", smi_clock_memory, NULL},
    {"clocks.current.video", "clocks.video", "MHz", smi_clock_video, NULL},
    {"clocks.applications.graphics", "clocks.applications.gr", "MHz", NULL, NULL},
    {"clocks.applications.memory", "clocks.applications.mem", "MHz", NULL, NULL},
    {"clocks.default_applications.graphics", "clocks.default_applications.gr", "MHz", NULL, NULL},
    {"clocks.default_applications.memory", "clocks.default_applications.mem", "MHz", NULL, NULL},
    {"clocks.max.graphics", "clocks.max.gr", "MHz", smi_max_clock_graphics, NULL},
    {"clocks.max.sm", NULL, "MHz", smi_max_clock_sm, NULL},
    {"clocks.max.memory", "clocks.max.mem", "MHz", smi_max_clock_memory, NULL},
    {"mig.mode.current", NULL, NULL, smi_mig_current, NULL},
    {"mig.mode.pending", NULL, NULL, smi_mig_pending, NULL},
    LACKS("gsp.mode.current"), LACKS("gsp.mode.default"), LACKS("c2c.mode"),
    LACKS_IN("protected_memory.total", "MiB"), LACKS_IN("protected_memory.used", "MiB"),
    LACKS_IN("protected_memory.free", "MiB"),
    {"fabric.state", NULL, NULL, NULL, "N/A"},
    {"fabric.status", NULL, NULL, NULL, "N/A"},
    {"fabric.cliqueId", NULL, NULL, NULL, "N/A"},
    {"fabric.clusterUuid", NULL, NULL, NULL, "N/A"},
    LACKS("platform.chassis_serial_number"), LACKS("platform.slot_number"), LACKS("platform.tray_index"),
    LACKS("platform.host_id"), LACKS("platform.peer_type"), LACKS("platform.module_id"),
    LACKS("platform.gpu_fabric_guid"), LACKS("hostname"),
};

static const struct smi_field APP_FIELDS[] = {
    {"timestamp", NULL, NULL, smi_timestamp, NULL},
    {"gpu_name", NULL, NULL, smi_name, NULL},
    {"gpu_bus_id", NULL, NULL, smi_bus_id, NULL},
    {"gpu_serial", NULL, NULL, smi_serial, NULL},
    {"gpu_uuid", NULL, NULL, smi_uuid, NULL},
    {"pid", NULL, NULL, smi_pid, NULL},
    {"process_name", "name", NULL, smi_process_name, NULL},
    {"used_gpu_memory", "used_memory", "MiB", smi_process_memory, NULL},
};

const struct smi_fields smi_gpu_fields = {"--query-gpu", GPU_FIELDS, sizeof GPU_FIELDS / sizeof *GPU_FIELDS};
const struct smi_fields smi_app_fields = {"--query-compute-apps", APP_FIELDS,
                                          sizeof APP_FIELDS / sizeof *APP_FIELDS};
