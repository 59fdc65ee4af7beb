import ArgumentParser

struct AdminCommandGroup: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "admin",
    abstract: "Run an installation: users, sessions, policies, guides, keys, the audit log, and what is stored.",
    discussion: """
      Works with the secret that the services share, or with a certificate that they know; never with a user's session. \
      Each change is on record in the audit log, with the --reason that you give. \
      backup, export, import, schema and cells work on what the services store and ask none of them.
      """,
    examples: ["latchkey admin user show ada@example.com"],
    subcommands: [
      AdminUserCommand.self, AdminSessionsCommand.self, AdminPoliciesCommand.self, AdminGuidesCommand.self,
      AdminKeysCommand.self, AdminAuditCommand.self, AdminPasswordsCommand.self, AdminBackupCommand.self,
      AdminExportCommand.self, AdminImportCommand.self, AdminSchemaCommand.self, AdminCellsCommand.self,
    ]
  )
}
