/// A requirement for which a part of the assessor's page is evidence, in this project's words. It names the aspects
/// that the page does not cover.
///
/// PCI DSS 4.0.1 (June 2024). Requirements 3.6 and 3.7 concern keys that protect stored account data; the assessor
/// decides whether they apply to keys that open payment tokens in transit.
struct Requirement {
    let number: String
    let shows: String
    let leaves: String
    let needs: Evidence?

    /// Evidence beside the export, without which the page shows nothing for a requirement.
    enum Evidence: String {
        case daemon = "the daemon's answers, and this page was made from an export alone"
        case components = "the packages' lists of components (--sbom)"
    }

    init(_ number: String, shows: String, leaves: String, needs: Evidence? = nil) {
        self.number = number
        self.shows = shows
        self.leaves = leaves
        self.needs = needs
    }

    static let ofVerdict = [
        Requirement(
            "10.3.2, 10.3.4",
            shows: "A record that was changed, removed or inserted before the last seal is found.",
            leaves: "Who may write to the hosts' disks; other logs than this record."),
        Requirement(
            "10.3.3",
            shows: "Nothing by itself: heads and exports that are kept on another host are compared with --head.",
            leaves: "Whether, where and how soon copies are kept."),
        Requirement(
            "10.5.1", shows: "From when to when there are records without a gap.",
            leaves:
                "That they are kept for twelve months, that the last three months can be read at once, and other logs."),
        Requirement(
            "10.6.1 to 10.6.3",
            shows: "Steps of the hosts' clocks that the record shows, and clocks that a person accepted.",
            leaves: "Which time servers the hosts follow, and who may set their clocks."),
        Requirement(
            "10.7.2, 10.7.3", shows: "Ends without a stop, records that could not be written, restores.",
            leaves: "Whether a person was alerted and responded in time: the monitoring has that."),
    ]

    static let ofSystem = [
        Requirement(
            "12.3.3", shows: "Which algorithms, strengths and tokens are in use for these keys.",
            leaves: "Protocols and ciphers elsewhere, the yearly review, and the plan for what becomes weak.",
            needs: .daemon),
        Requirement(
            "4.2.1.1", shows: "The roots that payment tokens are verified against.",
            leaves: "Certificates of the connections to processors and callers.", needs: .daemon),
        Requirement(
            "6.3.2", shows: "Whether the programs that ran are those of the packages' lists of components.",
            leaves: "Software of the hosts besides these packages.", needs: .components),
        Requirement(
            "3.6.1.1 (service providers)",
            shows: "Tokens, keys, their use and strength, for the description of the architecture.",
            leaves: "The description itself."),
        Requirement(
            "10.2.1.5, 10.2.1.7", shows: "Access rules and settings in force, and each change of them.",
            leaves: "Accounts of the operating system and the HSM's own."),
        Requirement(
            "7.2.4, 7.2.5.1",
            shows: "The accounts and roles that the rules last in force admit, for the review of access.",
            leaves: "That the review took place, and who belongs to a group."),
    ]

    static let ofKeys = [
        Requirement(
            "3.6.1.2, 3.6.1.4, 3.7.3",
            shows: "Where each private key is, and that its token lets it out in no form, by the token's own word.",
            leaves:
                "Whether the token is what it says, its certificate, and copies that were made of a key before it was imported.",
            needs: .daemon),
        Requirement(
            "3.6.1.3",
            shows:
                "That no person has handled a generated key in the clear, and which keys came from a file, by whom and with whose approval.",
            leaves: "How such a file was made, carried and destroyed."),
        Requirement(
            "3.7.6", shows: "Nothing for a key that came from a file: split knowledge of it was not recorded.",
            leaves: "How such a file was protected before the import."),
        Requirement(
            "3.7.1", shows: "Which keys were made inside a token, of which kind and size.",
            leaves: "The token's random numbers.", needs: .daemon),
        Requirement(
            "3.7.2", shows: "Public keys leave as signing requests only.",
            leaves: "The way of a file with a private key to this host."),
        Requirement(
            "3.7.4", shows: "Each key's age, its certificate's end, and what is left.",
            leaves: "The length that the owner has set.", needs: .daemon),
        Requirement(
            "3.7.5", shows: "Retirement, suspicion, compromise and destruction, with time, person and second person.",
            leaves: "Whether what led to them was reported in time, and copies outside the tokens."),
        Requirement(
            "3.7.7",
            shows:
                "Each key that came in was asked for and approved; a key that the ledger does not know serves no caller.",
            leaves: "What is done to the token without this program."),
        Requirement(
            "SP 800-57 part 1, 7", shows: "The states and their changes.",
            leaves: "States of keys outside of this ledger."),
    ]

    static let ofUse = [
        Requirement(
            "3.3.1, 3.3.2", shows: "What was opened, and to whom it was given; nothing of it is kept here.",
            leaves: "What its receivers keep after the authorization."),
        Requirement(
            "10.2.1.1", shows: "Each opening of account data, with the caller as the kernel knew it.",
            leaves: "The persons who use a program's account."),
        Requirement(
            "10.2.1.4", shows: "Refused requests by their reason.",
            leaves: "What was refused before it reached this program."),
        Requirement(
            "10.2.2",
            shows: "For each: who, what, when, outcome, whence (process and host), and which key and transaction.",
            leaves:
                "Requests that are counted in summary only, and the people who use a program's account."),
        Requirement(
            "10.4.1.1", shows: "Findings pick out unusual uses, late uses and replays when this page is made.",
            leaves: "A daily review, and who reads this page how often."),
    ]

    static let ofPeople = [
        Requirement(
            "10.2.1.2, 10.2.1.3, 10.2.1.6",
            shows:
                "Every administrative act through this program, every reading of the record through the daemon, every start and stop.",
            leaves: "What is done as root to the host itself, and readings of files that were exported."),
        Requirement(
            "3.6.1.3", shows: "Which acts had a second person, and which were done alone by whom.",
            leaves: "Whether two accounts are two people."),
        Requirement(
            "3.7.8, 3.7.9", shows: "Nothing.", leaves: "Custodians' acknowledgements; guidance to customers."),
    ]
}

extension PageWriter {
    /// Writes a table of the requirements for which the current section is evidence.
    ///
    /// - Parameter given: the evidence that the page was made from, beside the export.
    mutating func requirements(_ requirements: [Requirement], given: Set<Requirement.Evidence>) {
        raw("<aside><h3>Evidence for</h3>\n")
        table(
            ["Requirement", "What this part shows", "What it leaves"],
            requirements.map { requirement in
                guard let needs = requirement.needs, !given.contains(needs) else {
                    return [.strong(requirement.number), .text(requirement.shows), .text(requirement.leaves)]
                }
                return [.strong(requirement.number), .text("Not shown: it needs \(needs.rawValue)."), .none]
            }, class: "requirements")
        raw("</aside>\n")
    }
}
