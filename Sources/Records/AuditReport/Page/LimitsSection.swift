/// The section that lists the conclusions that the assessor's page cannot support.
struct LimitsSection {
    let hasLive: Bool
    let isProved: Bool
    /// True if an HSM token's count of its keys' uses was compared with the record.
    let isReconciled: Bool

    func write(to page: inout PageWriter) {
        page.heading("8. What this does not show", id: "limits")
        var items = [
            isReconciled
                ? "Uses of a key that did not pass through this program, in tokens whose own count was not given, or if a person changed "
                    + "that count."
                : "Uses of a key that did not pass through this program. A person with an HSM token's PIN can use its keys directly, and no "
                    + "record here shows it; a counter or log of the HSM token would.",
            "A record rewritten by a person who had both the daemon's account and the HSM token, and so could sign it again. Heads and "
                + "exports that were kept elsewhere show it.",
            "An end that was cut off, unless it is compared with a head that was kept on another host.",
            "That an HSM token is what it claims to be. Model, versions and the attributes of keys are its own statements. An HSM token that lies, or a library "
                + "between it and the daemon that does, is not found here.",
            "That a caller is a person, or what it did with what it was given. Callers are accounts of the operating system.",
            "That two accounts are two people.",
            "That the clocks were right. Times are the hosts' own; the order is the sequence of each node.",
            "Account numbers, cryptograms and contents of requests: they are in no record, and so in no page.",
            "Whether any requirement is met. The page shows what happened; what that is worth is the assessor's decision, and so is "
                + "whether these keys are ones that protect stored account data (PCI DSS 3.6 and 3.7).",
        ]
        if !hasLive {
            items.insert("The present state of tokens and keys: no daemon was asked.", at: 0)
        }
        if !isProved { items.insert("That the records are whole: see the verdict.", at: 0) }
        page.list(items)
    }
}
