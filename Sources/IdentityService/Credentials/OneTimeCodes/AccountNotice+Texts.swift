import JSON
import LatchkeyModel
import Storage

extension OwnerNotice {
  /// What a gateway needs to know to send it.
  var json: JSONValue {
    let text = notice.text(in: locale)
    return [
      "id": .string(key),
      "kind": .string(recipient.kind.name),
      "to": .string(recipient.canonical),
      "notice": .string(notice.rawValue),
      "locale": .string(locale?.description ?? ""),
      "subject": .string(text.subject),
      "text": .string(text.body),
      "at": .integer(at.secondsSinceEpoch),
    ]
  }
}

extension AccountNotice {
  struct Text: Sendable, Equatable {
    let subject: String
    let body: String
  }

  /// In the person's language, or in English where there is no translation.
  func text(in locale: LanguageTag?) -> Text {
    let language = locale?.description.split(separator: "-").first.map { $0.lowercased() } ?? "en"
    let texts = Self.texts[language] ?? Self.english
    return Text(
      subject: subject(texts), body: "\(subject(texts)). \(self == .accountDeleted ? texts.gone : texts.advice)")
  }

  private struct Texts: Sendable {
    let set, changed, removed, recovered, deleted, linked, unlinked, enrolled, advice, gone: String
  }

  private func subject(_ texts: Texts) -> String {
    switch self {
    case .passwordSet: texts.set
    case .passwordChanged: texts.changed
    case .passwordRemoved: texts.removed
    case .recovered: texts.recovered
    case .accountDeleted: texts.deleted
    case .identityLinked: texts.linked
    case .identityUnlinked: texts.unlinked
    case .unlockEnrolled: texts.enrolled
    }
  }

  private static let english = Texts(
    set: "Your account has a password now",
    changed: "Your password was changed",
    removed: "Your password was removed",
    recovered: "Your password was reset by a code sent to you",
    deleted: "Your account was deleted",
    linked: "Another way to sign in leads to your account now",
    unlinked: "A way to sign in leads to your account no longer",
    enrolled: "A device can sign in to your account by itself now",
    advice: "If this was not you, reset the password in the app now and sign out all other devices.",
    gone: "If this was not you, turn to the people who run the app.")

  private static let texts = [
    "en": english,
    "de": Texts(
      set: "Ihr Konto hat jetzt ein Passwort",
      changed: "Ihr Passwort wurde geändert",
      removed: "Ihr Passwort wurde entfernt",
      recovered: "Ihr Passwort wurde mit einem Code zurückgesetzt, der an Sie ging",
      deleted: "Ihr Konto wurde gelöscht",
      linked: "Ein weiterer Anmeldeweg führt jetzt zu Ihrem Konto",
      unlinked: "Ein Anmeldeweg führt nicht mehr zu Ihrem Konto",
      enrolled: "Ein Gerät kann sich jetzt von selbst bei Ihrem Konto anmelden",
      advice: "Waren Sie das nicht, setzen Sie das Passwort jetzt in der App zurück und melden alle anderen Geräte ab.",
      gone: "Waren Sie das nicht, wenden Sie sich an den Betreiber der App."),
    "es": Texts(
      set: "Su cuenta tiene ahora una contraseña",
      changed: "Su contraseña ha cambiado",
      removed: "Su contraseña se ha eliminado",
      recovered: "Su contraseña se ha restablecido con un código que se le envió",
      deleted: "Su cuenta se ha eliminado",
      linked: "Ahora hay otra forma de iniciar sesión en su cuenta",
      unlinked: "Una forma de iniciar sesión ya no lleva a su cuenta",
      enrolled: "Un dispositivo puede ahora iniciar sesión por sí solo en su cuenta",
      advice: "Si no ha sido usted, restablezca ahora la contraseña en la aplicación y cierre las demás sesiones.",
      gone: "Si no ha sido usted, diríjase a los responsables de la aplicación."),
    "fr": Texts(
      set: "Votre compte a maintenant un mot de passe",
      changed: "Votre mot de passe a été modifié",
      removed: "Votre mot de passe a été supprimé",
      recovered: "Votre mot de passe a été réinitialisé avec un code qui vous a été envoyé",
      deleted: "Votre compte a été supprimé",
      linked: "Un autre moyen de connexion mène maintenant à votre compte",
      unlinked: "Un moyen de connexion ne mène plus à votre compte",
      enrolled: "Un appareil peut maintenant se connecter seul à votre compte",
      advice:
        "Si ce n’était pas vous, réinitialisez le mot de passe dans l’application et déconnectez les autres appareils.",
      gone: "Si ce n’était pas vous, adressez-vous aux responsables de l’application."),
  ]
}
