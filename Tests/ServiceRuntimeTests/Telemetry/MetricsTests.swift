import CoreMetrics
import GRPC
import Synchronization
import Testing

@testable import ServiceRuntime

@Suite("Metrics")
struct MetricsTests {
  let registry = PrometheusRegistry()

  private var lines: [String] {
    String(decoding: registry.text(), as: UTF8.self).split(separator: "\n").map(String.init)
  }

  @Test("counters, gauges and timers read as Prometheus text")
  func text() {
    let counter = Counter(label: "guests.issued", dimensions: [("kind", "new")], factory: registry)
    counter.increment()
    counter.increment(by: 41)
    Meter(label: "sessions", factory: registry).set(7)
    let timer = CoreMetrics.Timer(label: "hash", factory: registry)
    timer.recordNanoseconds(60_000_000)
    timer.recordNanoseconds(40_000)
    timer.recordNanoseconds(3_600_000_000_000)
    #expect(lines.contains("# TYPE guests_issued_total counter"))
    #expect(lines.contains(#"guests_issued_total{kind="new"} 42"#))
    #expect(lines.contains("# TYPE sessions gauge"))
    #expect(lines.contains("sessions 7"))
    #expect(lines.contains("# TYPE hash_seconds histogram"))
    #expect(lines.contains(#"hash_seconds_bucket{le="0.00005"} 1"#))
    #expect(lines.contains(#"hash_seconds_bucket{le="0.05"} 1"#))
    #expect(lines.contains(#"hash_seconds_bucket{le="0.1"} 2"#))
    #expect(lines.contains(#"hash_seconds_bucket{le="30.0"} 2"#))
    #expect(lines.contains(#"hash_seconds_bucket{le="+Inf"} 3"#))
    #expect(lines.contains("hash_seconds_sum 3600.06004"))
    #expect(lines.contains("hash_seconds_count 3"))
  }

  @Test("one label with the same dimensions is one series, in any order and from any thread")
  func sameSeries() async {
    await withTaskGroup { group in
      for number in 0..<100 {
        group.addTask { [registry] in
          let dimensions = number % 2 == 0 ? [("a", "1"), ("b", "2")] : [("b", "2"), ("a", "1")]
          for _ in 0..<100 { Counter(label: "c", dimensions: dimensions, factory: registry).increment() }
        }
      }
    }
    #expect(lines.filter { !$0.hasPrefix("#") } == [#"c_total{a="1",b="2"} 10000"#])
  }

  @Test("label values cannot break the text")
  func escaping() {
    Counter(label: "c-d e", dimensions: [("x", "a\"b\\c\nd 1\n")], factory: registry).increment()
    #expect(lines == ["# TYPE c_d_e_total counter", #"c_d_e_total{x="a\"b\\c\nd 1\n"} 1"#])
  }

  @Test("a label with endless values does not fill memory")
  func bound() {
    for number in 0..<(Limits.metricSeries + 500) {
      Counter(label: "c", dimensions: [("n", "\(number)")], factory: registry).increment()
    }
    #expect(lines.count == Limits.metricSeries + 1)
  }

  @Test("what is kept elsewhere is read for each scrape, and stands under its help")
  func observations() {
    let connections = Mutex(2.0)
    registry.observe("connections", .gauge, "Open ones.", labels: [("port", "b")]) { connections.withLock { $0 } }
    registry.observe("connections", .gauge, "Open ones.", labels: [("port", "a")]) { 0.5 }
    registry.observe("unknown", .gauge, "Nobody knows.") { nil }
    let head = ["# HELP connections Open ones.", "# TYPE connections gauge", #"connections{port="a"} 0.5"#]
    #expect(lines == head + [#"connections{port="b"} 2"#])
    connections.withLock { $0 = 3 }
    #expect(lines == head + [#"connections{port="b"} 3"#])
  }

  @Test("calls answered directly count as begun, as ended well, and by their time")
  func directCalls() throws {
    let method = RPCMethod(path: "/latchkey.qr.v1.QrSessionService/PollSession", kind: .unary)
    let interceptor = MetricsInterceptor(methods: [method], factory: registry)
    guard case .count(let tally) = interceptor.directCalls(ServerContext(method: method)) else {
      Issue.record("polls are not counted")
      return
    }
    tally.add(7, nanoseconds: 20_000)
    let counts = lines.filter { $0.hasSuffix(" 7") && !$0.contains("_bucket") }
    #expect(
      counts.map { $0.prefix { $0 != "{" } }.sorted() == [
        "grpc_server_handled_total", "grpc_server_handling_seconds_count", "grpc_server_started_total",
      ])
  }

  @Test("calls are counted by method and code, and timed by method")
  func interceptor() {
    let method = RPCMethod(path: "/latchkey.qr.v1.QrSessionService/PollSession", kind: .unary)
    let interceptor = MetricsInterceptor(methods: [method], factory: registry)
    let labels = #"grpc_method="PollSession",grpc_service="latchkey.qr.v1.QrSessionService",grpc_type="unary""#
    // What nobody has called takes no room in a scrape.
    #expect(lines.isEmpty)
    let call = ServerContext(method: method)
    for status in [StatusCode.ok, .ok, .resourceExhausted] {
      #expect(throws: Never.self) { try interceptor.willHandle(call) }
      interceptor.didFinish(call, status: status, duration: .microseconds(80))
    }
    // A method that nobody routes is not counted: its name is the caller's invention.
    let invented = RPCMethod(path: "/evil/x", kind: .unary)
    interceptor.didFinish(ServerContext(method: invented), status: .unimplemented, duration: .zero)
    #expect(lines.contains("grpc_server_started_total{\(labels)} 3"))
    let (head, tail) = (#"grpc_server_handled_total{grpc_code=""#, labels)
    #expect(lines.contains(#"\#(head)OK",\#(tail)} 2"#))
    #expect(lines.contains(#"\#(head)ResourceExhausted",\#(tail)} 1"#))
    #expect(lines.contains(#"grpc_server_handling_seconds_bucket{\#(labels),le="0.0001"} 3"#))
    #expect(lines.contains("grpc_server_handling_seconds_count{\(labels)} 3"))
    #expect(!lines.contains { $0.contains("evil") })
  }
}
