import Glibc
import ProtoGenerator

// Without arguments a protoc plugin: a CodeGeneratorRequest on standard input, a CodeGeneratorResponse on standard
// output. With the argument prepare-for-c it turns a FileDescriptorSet into what protoc-c is to see.

func readAll() -> [UInt8] {
  var bytes: [UInt8] = []
  var chunk = [UInt8](repeating: 0, count: 1 << 16)
  while true {
    // `chunk` has room for as many bytes as it says.
    let count = unsafe read(STDIN_FILENO, &chunk, chunk.count)
    guard count > 0 else { return bytes }
    bytes += chunk[..<count]
  }
}

func writeAll(_ bytes: [UInt8]) {
  var rest = bytes[...]
  while !rest.isEmpty {
    // The buffer is `rest` itself for the length of the call.
    let count = unsafe rest.withUnsafeBytes { unsafe write(STDOUT_FILENO, $0.baseAddress, $0.count) }
    guard count > 0 else { exit(1) }
    rest = rest.dropFirst(count)
  }
}

func fail(_ error: GeneratorError) -> Never {
  let line = Array("protoc-gen-latchkey: \(error)\n".utf8)
  // The buffer is `line` itself for the length of the call.
  _ = unsafe line.withUnsafeBytes { unsafe write(STDERR_FILENO, $0.baseAddress, $0.count) }
  exit(1)
}

switch CommandLine.arguments.dropFirst() {
case []:
  do throws(GeneratorError) {
    let request = try PluginRequest(decoding: readAll())
    let files = try Generator(parameter: request.parameter).generate(request)
    writeAll(PluginResponse.files(files).encoded())
  } catch {
    writeAll(PluginResponse.error(error.description).encoded())
  }
case ["prepare-for-c"]:
  do throws(GeneratorError) {
    writeAll(try ProtocCInput.rewrite(readAll()))
  } catch {
    fail(error)
  }
default:
  fail(GeneratorError("run me through protoc, or with the argument prepare-for-c"))
}
