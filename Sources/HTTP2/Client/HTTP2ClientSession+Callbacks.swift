internal import CNghttp2

/// The library's callbacks. Each recovers the session, and the stream where there is one, and passes the event on.
///
/// Why this is sound: the library calls back only from within a call that `HTTP2ClientSession` makes, so the session is
/// alive; a stream object is in the session's pool for as long as the library holds its address, and the session
/// takes the object back in `on_stream_close` or by never handing it over. Other pointers are used only during the
/// callback.
extension HTTP2ClientSession {
  /// Where DATA frames of a stream come from. `context` is the stream object.
  static func dataProvider(_ context: UnsafeMutableRawPointer) -> nghttp2_data_provider {
    unsafe nghttp2_data_provider(
      source: nghttp2_data_source(ptr: context),
      read_callback: { _, _, _, length, flags, source, userData in
        guard let session = unsafe sessionObject(userData), let source = unsafe source, let flags = unsafe flags,
          let stream = unsafe streamObject(source.pointee.ptr)
        else { return Int(NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE.rawValue) }
        switch session.nextData(stream, limit: length) {
        case .wait:
          return Int(NGHTTP2_ERR_DEFERRED.rawValue)
        case .bytes(let count, let isLast):
          var flag = NGHTTP2_DATA_FLAG_NO_COPY.rawValue
          if isLast {
            flag |= NGHTTP2_DATA_FLAG_EOF.rawValue
            if session.submitTrailers(stream) { flag |= NGHTTP2_DATA_FLAG_NO_END_STREAM.rawValue }
          }
          unsafe flags.pointee |= flag
          return count
        }
      }
    )
  }

  static func makeCallbacks() throws(HTTP2Error) -> OpaquePointer {
    var callbacks: OpaquePointer?
    guard unsafe nghttp2_session_callbacks_new(&callbacks) == 0, let callbacks = unsafe callbacks else {
      throw .refused(operation: "callbacks", code: NGHTTP2_ERR_NOMEM.rawValue)
    }
    unsafe nghttp2_session_callbacks_set_on_begin_frame_callback(callbacks) { _, header, userData in
      guard let session = unsafe sessionObject(userData), let header = unsafe header?.pointee else { return 0 }
      session.beganFrame(type: header.type, flags: header.flags, length: header.length)
      // Once the session has failed, the rest of the bytes is not looked at.
      return session.failure == nil ? 0 : NGHTTP2_ERR_CALLBACK_FAILURE.rawValue
    }

    unsafe nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks) { raw, frame, userData in
      guard let session = unsafe sessionObject(userData), let frame = unsafe frame else { return 0 }
      session.beganBlock()
      // A server opens no streams: push is switched off.
      return unsafe streamObject(raw, frame.pointee.hd.stream_id) != nil
        ? 0 : NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE.rawValue
    }

    unsafe nghttp2_session_callbacks_set_on_header_callback(callbacks) {
      _,
      _,
      name,
      nameCount,
      value,
      valueCount,
      _,
      userData in
      guard let session = unsafe sessionObject(userData) else {
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE.rawValue
      }
      let accepted = unsafe session.receivedField(
        UnsafeRawBufferPointer(start: name, count: nameCount),
        UnsafeRawBufferPointer(start: value, count: valueCount)
      )
      return accepted ? 0 : NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE.rawValue
    }

    unsafe nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks) {
      raw,
      _,
      id,
      bytes,
      count,
      userData in
      guard let session = unsafe sessionObject(userData), let stream = unsafe streamObject(raw, id) else { return 0 }
      unsafe session.receivedData(stream, UnsafeRawBufferPointer(start: bytes, count: count))
      return 0
    }

    unsafe nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks) { raw, frame, userData in
      guard let session = unsafe sessionObject(userData), let frame = unsafe frame else { return 0 }
      unsafe receivedFrame(session, raw, frame)
      return 0
    }

    unsafe nghttp2_session_callbacks_set_on_frame_send_callback(callbacks) { raw, frame, userData in
      guard let session = unsafe sessionObject(userData), let frame = unsafe frame else { return 0 }
      let header = unsafe frame.pointee.hd
      switch UInt32(header.type) {
      case NGHTTP2_GOAWAY.rawValue:
        session.sentGoAway(HTTP2ErrorCode(rawValue: unsafe frame.pointee.goaway.error_code))
      case NGHTTP2_HEADERS.rawValue, NGHTTP2_DATA.rawValue:
        guard header.flags & UInt8(NGHTTP2_FLAG_END_STREAM.rawValue) != 0,
          let stream = unsafe streamObject(raw, header.stream_id)
        else { return 0 }
        session.sentEnd(stream)
      default: break
      }
      return 0
    }

    unsafe nghttp2_session_callbacks_set_on_frame_not_send_callback(callbacks) { _, frame, _, userData in
      guard let session = unsafe sessionObject(userData), let header = unsafe frame?.pointee.hd else { return 0 }
      if UInt32(header.type) == NGHTTP2_HEADERS.rawValue { session.requestNotSent(header.stream_id) }
      return 0
    }

    unsafe nghttp2_session_callbacks_set_send_data_callback(callbacks) { _, frame, header, count, source, userData in
      guard let session = unsafe sessionObject(userData), let source = unsafe source,
        let stream = unsafe streamObject(source.pointee.ptr)
      else { return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE.rawValue }
      // RFC 9113 §4.1: the frame header is nine bytes. We ask for no padding, so the payload is all data.
      unsafe session.sendData(stream, header: UnsafeRawBufferPointer(start: header, count: 9), count: count)
      return 0
    }

    unsafe nghttp2_session_callbacks_set_on_stream_close_callback(callbacks) { raw, id, code, userData in
      guard let session = unsafe sessionObject(userData), let stream = unsafe streamObject(raw, id) else { return 0 }
      session.closed(stream, code: HTTP2ErrorCode(rawValue: code))
      return 0
    }
    return unsafe callbacks
  }
}

private func sessionObject(_ userData: UnsafeMutableRawPointer?) -> HTTP2ClientSession? {
  guard let userData = unsafe userData else { return nil }
  return unsafe Unmanaged<HTTP2ClientSession>.fromOpaque(userData).takeUnretainedValue()
}

private func streamObject(_ raw: OpaquePointer?, _ id: Int32) -> HTTP2Stream? {
  guard id != 0 else { return nil }
  return unsafe streamObject(nghttp2_session_get_stream_user_data(raw, id))
}

private func streamObject(_ context: UnsafeMutableRawPointer?) -> HTTP2Stream? {
  guard let context = unsafe context else { return nil }
  return unsafe Unmanaged<HTTP2Stream>.fromOpaque(context).takeUnretainedValue()
}

private func receivedFrame(
  _ session: HTTP2ClientSession,
  _ raw: OpaquePointer?,
  _ frame: UnsafePointer<nghttp2_frame>
) {
  let header = unsafe frame.pointee.hd
  let endStream = header.flags & UInt8(NGHTTP2_FLAG_END_STREAM.rawValue) != 0
  switch UInt32(header.type) {
  case NGHTTP2_DATA.rawValue:
    guard endStream, let stream = unsafe streamObject(raw, header.stream_id) else { return }
    session.receivedEnd(stream)
  case NGHTTP2_HEADERS.rawValue:
    guard let stream = unsafe streamObject(raw, header.stream_id) else { return }
    session.receivedHeaders(stream, endStream: endStream)
  case NGHTTP2_SETTINGS.rawValue:
    session.receivedSettings(acknowledged: header.flags & UInt8(NGHTTP2_FLAG_ACK.rawValue) != 0)
  case NGHTTP2_PING.rawValue:
    let payload = unsafe withUnsafeBytes(of: frame.pointee.ping.opaque_data) { bytes in
      unsafe bytes.reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
    }
    session.receivedPing(payload, acknowledged: header.flags & UInt8(NGHTTP2_FLAG_ACK.rawValue) != 0)
  case NGHTTP2_GOAWAY.rawValue:
    let goaway = unsafe frame.pointee.goaway
    let debug = unsafe Array(UnsafeBufferPointer(start: goaway.opaque_data, count: goaway.opaque_data_len))
    session.receivedGoAway(
      HTTP2ErrorCode(rawValue: unsafe goaway.error_code),
      lastStreamID: unsafe goaway.last_stream_id,
      debug: debug
    )
  default: break
  }
}
