import Glibc

/// What is known of the terminal behind a file.
enum Terminal {
  static func isOne(_ file: Int32) -> Bool { isatty(file) == 1 }

  /// Columns and lines; nil where there is no terminal, or it does not say.
  static func size(_ file: Int32) -> (columns: Int, lines: Int)? {
    var size = winsize()
    // ioctl fills the struct and keeps nothing.
    guard unsafe ioctl(file, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0, size.ws_row > 0 else { return nil }
    return (Int(size.ws_col), Int(size.ws_row))
  }
}
