internal import LatchkeyModel

extension PrometheusRegistry {
  /// What runs here, and what the kernel says of the process, under the names that every Prometheus client uses.
  func observeProcess(_ service: String) {
    observe(
      "latchkey_build_info", .gauge, "What runs here; always 1.",
      labels: [("service", service), ("version", Version.current)]
    ) { 1 }
    let start = ProcessFacts.startTime()
    observe("process_start_time_seconds", .gauge, "When the process began, in seconds since 1970.") { start }
    observe("process_cpu_seconds_total", .counter, "Time on processors, of the process and its kernel work.") {
      ProcessFacts.cpuSeconds()
    }
    observe("process_resident_memory_bytes", .gauge, "Memory that is in use.") { ProcessFacts.memory(field: 1) }
    observe("process_virtual_memory_bytes", .gauge, "Memory that is reserved.") { ProcessFacts.memory(field: 0) }
    observe("process_open_fds", .gauge, "Files and connections that are open.") { ProcessFacts.openFiles() }
    observe("process_max_fds", .gauge, "Files and connections that may be open.") { ProcessFacts.openFileLimit() }
  }
}
