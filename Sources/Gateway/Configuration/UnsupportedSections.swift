import ConfigurationFile

/// What the contract describes and this version does not do: payments. Its keys are known, so that a mistyped one is found,
/// and whatever would have to have an effect is refused.
enum UnsupportedSections {
    /// The second half of each message.
    static let supported = "this version gives merchant sessions only (operation session); leave it out"

    static func refuse(_ root: ConfigurationSection) {
        _ = root.section("store", keys: ["url", "password_file"])
        for name in ["store", "deadline", "processors"] where root.node(name) != nil || root.isEmpty(name) {
            root.problem(name, "is not yet supported; \(supported)")
        }
        for element in root.list("processors") ?? [] {
            _ = ConfigurationSection(
                element.value, path: element.key, keys: ["name", "kind", "url", "headers_file", "merchants"],
                reader: root.reader)
        }
    }
}
