import Testing

@testable import LatchkeyModel

@Suite("Identifiers that people type")
struct IdentifierTests {
  @Test(
    "G22: identifiers are recognised, canonical and masked",
    arguments: [
      ("Ada@Example.com", "ada@example.com", "A***@e***.com"),
      ("a.b+c@mail.example.co.uk", "a.b+c@mail.example.co.uk", "a***@m***.uk"),
      ("+49 (170) 123-45.67", "+491701234567", "+49***67"),
      ("Ada_L.1", "ada_l.1", "A***"),
    ])
  func recognised(text: String, canonical: String, mask: String) throws {
    let identifier = try #require(AccountIdentifier(text))
    #expect(identifier.canonical == canonical)
    #expect(identifier.mask == mask)
  }

  @Test("G22: one identifier has one canonical form, however it is written")
  func oneForm() {
    #expect(AccountIdentifier("ADA@EXAMPLE.COM")?.canonical == AccountIdentifier("ada@example.com")?.canonical)
    #expect(AccountIdentifier("+1 415 555 0123")?.canonical == AccountIdentifier("+14155550123")?.canonical)
  }

  @Test(
    "G22: what is no identifier is refused",
    arguments: [
      "", "a", "ab", "1ada", "ada lovelace", "ada@", "@example.com", "ada@example", "ada@@example.com",
      "a..b@example.com", ".a@example.com", "a@-example.com", "a@example.-com", "a@1.2.3.4", "a@ex_ample.com",
      "+", "+123456", "+0123456789", "+1234567890123456", "+49a1701234567", "ada\0", "ada\n", "äda", "а@example.com",
      "\(String(repeating: "a", count: 65))@example.com", String(repeating: "a", count: 33),
      "a@\(String(repeating: "b.", count: 130))com",
    ])
  func refused(text: String) {
    #expect(AccountIdentifier(text) == nil)
  }

  @Test("G22: a nickname has at most 10 characters as a person counts them")
  func nickname() {
    #expect(Nickname("Ada") != nil)
    #expect(Nickname(String(repeating: "👩‍💻", count: 10)) != nil)
    #expect(Nickname("12345678901") == nil)
    #expect(Nickname("") == nil)
    #expect(Nickname("a\nb") == nil)
  }

  @Test("G22: a new password has 8 to 128 characters, and never prints")
  func password() throws {
    #expect(Password(new: "1234567") == nil)
    #expect(Password(new: String(repeating: "a", count: 129)) == nil)
    #expect(Password(new: String(repeating: "é", count: 128)) != nil)
    let password = try #require(Password(new: "correct horse"))
    #expect(!"\(password)".contains("horse"))
    #expect(Password(presented: "short") != nil)
    #expect(Password(presented: "") == nil)
  }

  @Test(
    "D2: a random install id is a device id",
    arguments: [
      "6F9619FF-8B86-D011-B42D-00CF4FC964FF", "6f9619ff-8b86-4011-b42d-00cf4fc964ff", "install_0123456789abcdefXYZ",
      "V1StGXR8_Z5jdHi6B-myT",
    ])
  func deviceID(text: String) {
    #expect(DeviceID(text)?.description == text)
  }

  @Test(
    "D2: the known formats of hardware identifiers are refused",
    arguments: [
      ("490154203237518", DeviceID.Refusal.imei), ("49-015420-323751-8", .imei), ("4901542032375101", .imei),
      ("A000004F0ABCDE", .meid), ("00:1A:2B:3C:4D:5E", .macAddress), ("001a2b3c4d5e", .macAddress),
      ("00-1A-2B-FF-FE-3C-4D-5E", .macAddress), ("9774d56d682e549c", .androidID),
      ("2b6f0cc904d137be2e1730235f5664094b831186", .udid), ("00008030-001C2D223A88802E", .udid),
      ("00000000-0000-0000-0000-000000000000", .advertisingIDOptOut), ("short", .malformed),
      ("has a space in it, long enough", .malformed), ("", .malformed),
    ])
  func hardwareID(text: String, refusal: DeviceID.Refusal) {
    #expect(throws: refusal) { try DeviceID(parsing: text) }
  }

  @Test(
    "A language tag is a few short subtags",
    arguments: [
      ("en", true), ("pt-BR", true), ("zh-Hant-TW", true), ("e", false), ("en_US", false), ("1en", false),
      ("en--US", false), ("en-", false),
    ])
  func languageTag(text: String, isValid: Bool) {
    #expect((LanguageTag(text) != nil) == isValid)
  }
}
