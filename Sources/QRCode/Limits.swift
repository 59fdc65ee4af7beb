/// The bounds of this module, each with the reason for its number.
package enum Limits {
  /// The longest content, in bytes. A version 18 symbol at medium correction holds 560: denser ones are hard to read
  /// from a screen, and a sign-in URL takes about 60.
  package static let maximumContentBytes = 512

  /// The widest border, in modules. ISO/IEC 18004 asks for 4; more only wastes the picture.
  package static let maximumQuietZone = 32

  /// The largest module, in pixels: a version 40 symbol (177 modules) then stays under 12,000 pixels a side,
  /// 18 MB as one bit a pixel before compression.
  package static let maximumModuleSize = 48
}
