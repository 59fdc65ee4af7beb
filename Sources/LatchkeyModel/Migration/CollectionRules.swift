/// How each collection is merged, and how much an account may hold of it.
package struct CollectionRules: Sendable, Equatable {
  package struct Rule: Sendable, Equatable {
    package var policy: MigrationPolicy
    /// The most records that an account may hold; nil for no bound.
    package var maximumRows: Int?

    package init(policy: MigrationPolicy, maximumRows: Int? = nil) {
      self.policy = policy
      self.maximumRows = maximumRows
    }
  }

  package var rules: [CollectionName: Rule]
  /// For collections without a rule of their own: nothing that an account holds is ever overwritten unasked.
  package var fallback = Rule(policy: .keepTarget)

  package init(_ rules: [CollectionName: Rule]) {
    self.rules = rules
  }

  package subscript(collection: CollectionName) -> Rule { rules[collection] ?? fallback }

  /// The same rules with other policies for some collections: a plan may choose how, not how much.
  package func overriding(_ policies: [CollectionName: MigrationPolicy]) -> CollectionRules {
    var result = self
    for (collection, policy) in policies {
      var rule = self[collection]
      rule.policy = policy
      result.rules[collection] = rule
    }
    return result
  }

  /// What holds when nothing is configured.
  package static let standard: CollectionRules = {
    let policies: [(String, MigrationPolicy)] = [
      ("history", .newest), ("favourites", .unionByKey), ("cart", .sum), ("downloads", .keepTarget),
    ]
    var rules: [CollectionName: Rule] = [:]
    for (name, policy) in policies {
      if let collection = CollectionName(name) { rules[collection] = Rule(policy: policy) }
    }
    return CollectionRules(rules)
  }()
}
