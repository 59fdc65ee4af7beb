import Cryptography
import Glibc
import JSON
import LatchkeyModel
import Storage

/// For development: appends each code as a line of JSON to a file of mode 0600, and sends nothing.
package struct FileCodeSink: CodeSink {
  private let path: String

  package init(path: String) {
    self.path = path
  }

  package func deliver(_ message: CodeMessage) async throws(CodeDeliveryError) { try append(message.json) }

  package func deliver(_ notice: OwnerNotice) async throws(CodeDeliveryError) { try append(notice.json) }

  private func append(_ json: JSONValue) throws(CodeDeliveryError) {
    let bytes = json.encoded() + [UInt8(ascii: "\n")]
    // The path is copied for the call.
    let file = unsafe open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
    guard file >= 0 else {
      throw CodeDeliveryError("\(path) cannot be opened: \(SystemError.text(errno))", isChannelWide: true)
    }
    defer { close(file) }
    // write reads the array's own bytes. One call, so that lines of several writers do not mix.
    let written = unsafe bytes.withUnsafeBytes { unsafe write(file, $0.baseAddress, $0.count) }
    guard written == bytes.count else {
      throw CodeDeliveryError("\(path) cannot be written: \(SystemError.text(errno))", isChannelWide: true)
    }
  }
}
