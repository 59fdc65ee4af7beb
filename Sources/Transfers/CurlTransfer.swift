import CCurl
import LatchkeyModel

/// Owns one easy handle of libcurl, for one transfer on one thread.
@safe final class CurlTransfer {
  // Freed in `deinit`, never let out.
  private let handle: OpaquePointer
  private var lists: [UnsafeMutablePointer<curl_slist>] = unsafe []
  private let exchange = Exchange()

  /// What the callbacks fill and drain while the transfer runs.
  private final class Exchange {
    var answer: [UInt8] = []
    var upload: ArraySlice<UInt8> = []
  }

  /// libcurl's global state, made once and kept for the life of the process.
  static let isReady = lk_curl_global_init() == CURLE_OK

  init(timeout: Duration) throws(TransferError) {
    guard let handle = unsafe curl_easy_init() else { throw TransferError("no memory", isRetryable: true) }
    unsafe self.handle = OpaquePointer(handle)
    try set(CURLOPT_NOSIGNAL, 1)
    try set(CURLOPT_TIMEOUT_MS, timeout.wholeMilliseconds)
    try set(CURLOPT_CONNECTTIMEOUT_MS, min(timeout, Limits.connectTimeout).wholeMilliseconds)
    try set(CURLOPT_FOLLOWLOCATION, 0)
    try set(CURLOPT_SSLVERSION, CURL_SSLVERSION_TLSv1_2)
    try set(CURLOPT_SSL_VERIFYPEER, 1)
    try set(CURLOPT_SSL_VERIFYHOST, 2)
    try set(CURLOPT_USERAGENT, "latchkey")
    // The callbacks get `exchange` back, which this object keeps alive for as long as the handle.
    let context = unsafe Unmanaged.passUnretained(exchange).toOpaque()
    unsafe lk_curl_set_pointer(raw, CURLOPT_WRITEDATA, context)
    unsafe lk_curl_set_pointer(raw, CURLOPT_READDATA, context)
    unsafe lk_curl_set_callback(raw, CURLOPT_WRITEFUNCTION, Self.receive)
    unsafe lk_curl_set_callback(raw, CURLOPT_READFUNCTION, Self.provide)
  }

  deinit {
    unsafe curl_easy_cleanup(raw)
    // After the handle that reads them.
    while let list = unsafe lists.popLast() { unsafe curl_slist_free_all(list) }
  }

  private var raw: UnsafeMutableRawPointer { unsafe UnsafeMutableRawPointer(handle) }

  func perform(_ request: HTTPRequest) throws(TransferError) -> HTTPResponse {
    try set(CURLOPT_PROTOCOLS_STR, request.address.hasPrefix("http://") ? "http" : "https")
    try set(CURLOPT_URL, request.address)
    try trust(request.authoritiesFile)
    try set(CURLOPT_HTTPHEADER, request.fields.map { "\($0.name): \($0.value)" } + ["Expect:"])
    if let body = request.body {
      try set(CURLOPT_POST, 1)
      // The body is read through the callback, so nothing of it has to stay where it is.
      exchange.upload = body[...]
      unsafe lk_curl_set_size(raw, CURLOPT_POSTFIELDSIZE_LARGE, curl_off_t(body.count))
    }
    let code = run()
    guard code == CURLE_OK else {
      var sentAfter: curl_off_t = 0
      // Writes one number: 0 until the request was sent.
      unsafe lk_curl_pretransfer_time(raw, &sentAfter)
      throw failure("call \(Self.host(of: request.address))", code, wasTaken: sentAfter > 0)
    }
    return HTTPResponse(status: status, body: exchange.answer)
  }

  func perform(_ mail: MailSubmission) throws(TransferError) {
    let server = mail.server
    let scheme = server.security == .tls ? "smtps" : "smtp"
    try set(CURLOPT_PROTOCOLS_STR, scheme)
    try set(CURLOPT_URL, "\(scheme)://\(server.host):\(server.port)")
    if server.security == .starttls { try set(CURLOPT_USE_SSL, Int(CURLUSESSL_ALL.rawValue)) }
    try trust(server.authoritiesFile)
    if let user = server.user {
      try set(CURLOPT_USERNAME, user)
      try set(CURLOPT_PASSWORD, String(decoding: server.password?.exposed ?? [], as: UTF8.self))
    }
    try set(CURLOPT_MAIL_FROM, "<\(mail.sender)>")
    try set(CURLOPT_MAIL_RCPT, ["<\(mail.recipient)>"])
    try set(CURLOPT_UPLOAD, 1)
    exchange.upload = mail.text[...]
    let code = run()
    guard code != CURLE_OK else { return }
    let status = status
    // The last reply of the server: after its greeting and a login comes one to the mail itself (RFC 5321 section 4.2).
    let isOfLogin = [0, 220, 235, 334, 421, 530, 534, 535, 538].contains(status)
    var error = failure("hand a mail to \(server.host)", code, wasTaken: !isOfLogin)
    // What is refused for good is not asked again.
    if (500..<600).contains(status) {
      error = TransferError("\(error.description) (\(status))", isRetryable: false, fault: error.fault)
    }
    throw error
  }

  private func run() -> CURLcode { unsafe curl_easy_perform(raw) }

  /// The last status or reply code; 0 when there was none.
  private var status: Int {
    var status = 0
    // Writes one number.
    unsafe lk_curl_response_code(raw, &status)
    return status
  }

  /// - Parameter wasTaken: whether the server was there and heard what it was sent.
  private func failure(_ operation: String, _ code: CURLcode, wasTaken: Bool) -> TransferError {
    // A constant text of libcurl, which names neither address nor content.
    let reason = unsafe String(cString: curl_easy_strerror(code))
    return TransferError(
      "cannot \(operation): \(reason)", isRetryable: Self.isRetryable(code),
      fault: wasTaken && Self.isPossibleAfterLogin(code) ? .content : .server)
  }

  /// What may happen to one message while others pass. The rest is about reaching, trusting or entering the server.
  private static func isPossibleAfterLogin(_ code: CURLcode) -> Bool {
    switch code {
    case CURLE_OPERATION_TIMEDOUT, CURLE_SEND_ERROR, CURLE_RECV_ERROR, CURLE_GOT_NOTHING, CURLE_PARTIAL_FILE,
      CURLE_WEIRD_SERVER_REPLY, CURLE_WRITE_ERROR:
      true
    default: false
    }
  }

  private static func isRetryable(_ code: CURLcode) -> Bool {
    switch code {
    case CURLE_COULDNT_RESOLVE_HOST, CURLE_COULDNT_CONNECT, CURLE_OPERATION_TIMEDOUT, CURLE_SEND_ERROR,
      CURLE_RECV_ERROR, CURLE_GOT_NOTHING, CURLE_PARTIAL_FILE, CURLE_WEIRD_SERVER_REPLY:
      true
    default: false
    }
  }

  private static func host(of address: String) -> String {
    let rest = address.split(separator: "/", maxSplits: 2, omittingEmptySubsequences: true)
    return rest.count > 1 ? String(rest[1]) : address
  }

  // MARK: Options. libcurl copies texts; lists it keeps, and so does this object.

  private func trust(_ authoritiesFile: String?) throws(TransferError) {
    guard let authoritiesFile else { return }
    try set(CURLOPT_CAINFO, authoritiesFile)
  }

  private func set(_ option: CURLoption, _ text: String) throws(TransferError) {
    try check(unsafe lk_curl_set_text(raw, option, text))
  }

  private func set(_ option: CURLoption, _ number: Int64) throws(TransferError) {
    try check(unsafe lk_curl_set_number(raw, option, Int(number)))
  }

  private func set(_ option: CURLoption, _ number: Int) throws(TransferError) {
    try check(unsafe lk_curl_set_number(raw, option, number))
  }

  private func set(_ option: CURLoption, _ texts: [String]) throws(TransferError) {
    var list: UnsafeMutablePointer<curl_slist>?
    for text in texts {
      // Copies the text; on failure the list is as it was.
      guard let longer = unsafe curl_slist_append(list, text) else {
        unsafe curl_slist_free_all(list)
        throw TransferError("no memory", isRetryable: true)
      }
      unsafe list = longer
    }
    guard let list = unsafe list else { return }
    unsafe lists.append(list)
    try check(unsafe lk_curl_set_list(raw, option, list))
  }

  private func check(_ code: CURLcode) throws(TransferError) {
    guard code == CURLE_OK else {
      throw TransferError("libcurl refuses an option (\(code.rawValue))", isRetryable: false)
    }
  }

  // MARK: Callbacks. `context` is the exchange that `init` gave, alive while the transfer runs on this one thread.

  private static let receive:
    @convention(c) (
      UnsafeMutablePointer<CChar>?, Int, Int, UnsafeMutableRawPointer?
    ) -> Int = { bytes, size, count, context in
      guard let bytes = unsafe bytes, let context = unsafe context else { return 0 }
      let exchange = unsafe Unmanaged<Exchange>.fromOpaque(context).takeUnretainedValue()
      let (length, overflow) = size.multipliedReportingOverflow(by: count)
      // Taking less than was offered ends the transfer.
      guard !overflow, exchange.answer.count + length <= Limits.answerBytes else { return 0 }
      // libcurl offers that many bytes, for the time of this call.
      unsafe exchange.answer.append(contentsOf: UnsafeRawBufferPointer(start: bytes, count: length))
      return length
    }

  private static let provide:
    @convention(c) (
      UnsafeMutablePointer<CChar>?, Int, Int, UnsafeMutableRawPointer?
    ) -> Int = { space, size, count, context in
      guard let space = unsafe space, let context = unsafe context else { return 0 }
      let exchange = unsafe Unmanaged<Exchange>.fromOpaque(context).takeUnretainedValue()
      let (capacity, overflow) = size.multipliedReportingOverflow(by: count)
      guard !overflow else { return 0 }
      let piece = exchange.upload.prefix(capacity)
      // There is room for `capacity` bytes, and no more than that are copied.
      unsafe UnsafeMutableRawBufferPointer(start: space, count: capacity).copyBytes(from: piece)
      exchange.upload = exchange.upload.dropFirst(piece.count)
      return piece.count
    }
}
