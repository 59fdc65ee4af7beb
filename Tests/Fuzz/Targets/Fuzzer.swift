import Glibc

/// What libFuzzer calls: hands each input to the target that `FUZZ_TARGET` names.
///
/// One program has all targets, since building it takes longer than a short run of each.
@c(LLVMFuzzerTestOneInput)
public func fuzzerTestOneInput(_ data: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
  // libFuzzer's bytes are valid during the call, and no target keeps a pointer.
  unsafe Fuzzer.target.run(UnsafeRawBufferPointer(start: data, count: count))
  return 0
}

private enum Fuzzer {
  static let targets: [any FuzzTarget] = [
    ServerFramesTarget(), ClientFramesTarget(), ConnectionTarget(), FailingWritesTarget(), TLSRecordsTarget(),
    PagesTarget(), WebTarget(), FramerTarget(), MessagesTarget(), MetadataTarget(), TokensTarget(), QRCodesTarget(),
  ]

  static let target: any FuzzTarget = {
    // A string of the process's environment, which nothing changes.
    let name = unsafe getenv("FUZZ_TARGET").map { unsafe String(cString: $0) }
    guard let target = targets.first(where: { $0.name == name }) else {
      print("FUZZ_TARGET must be one of \(targets.map(\.name).joined(separator: ", "))")
      exit(2)
    }
    return target
  }()
}
