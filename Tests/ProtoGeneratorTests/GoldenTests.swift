import Glibc
import ProtoGenerator
import Testing

/// The bytes of a file below `Golden`, next to this file.
func golden(_ path: String, file: StaticString = #filePath) throws -> [UInt8] {
  let directory = "\(file)".split(separator: "/").dropLast().joined(separator: "/")
  guard let stream = unsafe fopen("/\(directory)/Golden/\(path)", "r") else {
    throw GeneratorError("Golden/\(path) is missing: run proto/generate")
  }
  // Closed once, after the last read.
  defer { unsafe _ = fclose(stream) }
  var bytes: [UInt8] = []
  var chunk = [UInt8](repeating: 0, count: 1 << 16)
  while true {
    // `chunk` has room for as many bytes as it says.
    let count = unsafe fread(&chunk, 1, chunk.count, stream)
    if count == 0 { return bytes }
    bytes += chunk[..<count]
  }
}

@Suite("Generated source")
struct GoldenTests {
  let parameter = "c_module=CGoldenProtos,import=LatchkeyProtos,borrow=golden.kitchen.v1.Flat"

  @Test("the golden .proto files give the golden Swift files; proto/generate writes them anew")
  func golden() throws {
    let descriptors = try ProtoGeneratorTests.golden("Descriptors/golden.pb")
    let request = try PluginRequest(descriptorSet: descriptors, parameter: parameter)
    let files = try Generator(parameter: parameter).generate(request)
    #expect(
      files.map(\.name).sorted() == [
        "KitchenV1.KitchenSink.swift", "KitchenV1.Services.swift", "KitchenV1.swift", "SharedV1.Shared.swift",
        "SharedV1.swift",
      ])
    for file in files {
      #expect(try Array(file.content.utf8) == ProtoGeneratorTests.golden("Swift/\(file.name)"), "\(file.name)")
    }
  }

  @Test("no generated line is wider than ours")
  func width() throws {
    let descriptors = try ProtoGeneratorTests.golden("Descriptors/golden.pb")
    let request = try PluginRequest(descriptorSet: descriptors, parameter: parameter)
    for file in try Generator(parameter: parameter).generate(request) {
      for line in file.content.split(separator: "\n") where line.count > 120 {
        Issue.record("\(file.name): \(line)")
      }
    }
  }

  @Test("only the files that protoc asks for are generated")
  func onlyAsked() throws {
    let descriptors = try ProtoGeneratorTests.golden("Descriptors/golden.pb")
    var request = try PluginRequest(descriptorSet: descriptors, parameter: parameter)
    request.filesToGenerate = ["golden/shared/v1/shared.proto"]
    let files = try Generator(parameter: parameter).generate(request)
    #expect(files.map(\.name) == ["SharedV1.swift", "SharedV1.Shared.swift"])
  }

  @Test(
    "what would mean less in C or in Swift is refused by name",
    arguments: [
      ("map", "refused.v1.Box has a map"),
      ("optional", "refused.v1.Box.name: protoc-c has no proto3 optional"),
      ("recursive", "refused.v1.Box contains itself"),
      ("proto2", "only proto3 is supported"),
      ("no_package", "a package is needed"),
      ("self_field", "refused.v1.Box.self: Swift has no way"),
    ])
  func refused(name: String, why: String) throws {
    let descriptors = try ProtoGeneratorTests.golden("Descriptors/\(name).pb")
    let error = #expect(throws: GeneratorError.self) {
      let request = try PluginRequest(descriptorSet: descriptors, parameter: parameter)
      _ = try Generator(parameter: parameter).generate(request)
    }
    #expect(error?.description.contains(why) == true, "\(String(describing: error))")
  }

  @Test("bytes that are no request are refused, not guessed at")
  func garbage() {
    #expect(throws: GeneratorError.self) { try PluginRequest(decoding: [0xff, 0xff]) }
    #expect(throws: GeneratorError.self) { try PluginRequest(descriptorSet: [0x0a, 0xff], parameter: "") }
    #expect(throws: GeneratorError.self) { try ProtocCInput.rewrite([0x0a, 0xff]) }
  }

  @Test("options are checked", arguments: ["", "c_module", "c_module=A,what=B"])
  func options(parameter: String) {
    #expect(throws: GeneratorError.self) { try Generator(parameter: parameter) }
  }

  @Test("protoc reads what the plugin answers")
  func response() {
    // error(1)
    #expect(PluginResponse.error("no").encoded() == [0x0a, 2] + Array("no".utf8))
    // file(15){name(1), content(15)}
    #expect(
      PluginResponse.files([OutputFile(name: "a", content: "b")]).encoded()
        == [0x7a, 6, 0x0a, 1] + Array("a".utf8) + [0x7a, 1] + Array("b".utf8))
  }
}
