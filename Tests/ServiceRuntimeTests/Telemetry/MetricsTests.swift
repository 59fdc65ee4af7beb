import CoreMetrics
import GRPC
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
    #expect(lines.contains("sessions 7.0"))
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

  @Test("calls are counted by method and code, and timed by method")
  func interceptor() {
    let method = RPCMethod(path: "/latchkey.qr.v1.QrSessionService/PollSession", kind: .unary)
    let interceptor = MetricsInterceptor(methods: [method], factory: registry)
    let labels = #"method="PollSession",service="latchkey.qr.v1.QrSessionService""#
    // A scraper sees zeros before the first call.
    #expect(lines.contains(#"rpc_finished_total{code="ok",\#(labels)} 0"#))
    for status in [StatusCode.ok, .ok, .resourceExhausted] {
      interceptor.didFinish(ServerContext(method: method), status: status, duration: .microseconds(80))
    }
    // A method that nobody routes is not counted: its name is the caller's invention.
    let invented = RPCMethod(path: "/evil/x", kind: .unary)
    interceptor.didFinish(ServerContext(method: invented), status: .unimplemented, duration: .zero)
    #expect(lines.contains(#"rpc_finished_total{code="ok",\#(labels)} 2"#))
    #expect(lines.contains(#"rpc_finished_total{code="resourceExhausted",\#(labels)} 1"#))
    #expect(lines.contains(#"rpc_duration_seconds_bucket{\#(labels),le="0.0001"} 3"#))
    #expect(lines.contains("rpc_duration_seconds_count{\(labels)} 3"))
    #expect(!lines.contains { $0.contains("evil") })
  }
}
