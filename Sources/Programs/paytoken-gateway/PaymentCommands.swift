import ArgumentParser
import CommandOutput
import DaemonAPI
import Encodings
import GatewayAPI
import Payments

/// The group of the commands `payment list`, `payment show` and `payment resolve`.
struct PaymentCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "payment", abstract: "Shows payments, and resolves those with an unknown outcome.",
        discussion: """
            A payment is pending when it was submitted and no answer came. It is never sent again. If the processor \
            supports it, the gateway asks for the outcome; otherwise look the payment up at the processor and resolve \
            it.

            list and show need the role support on the admin socket, resolve needs the role resolve (admin.access). Root and the \
            gateway's user have both by default.

              paytoken-gateway payment list --state pending
              paytoken-gateway payment show 0f3a…
              paytoken-gateway payment resolve 0f3a… --status captured \\
                --reason "in the acquirer's report of May 3"

            Exit status: 0 done; 1 refused, with the gateway's code on standard error; 64 wrong usage; 69 gateway not reachable; \
            70 a defect; 75 try again later; 77 the account's role does not allow it.
            """, subcommands: [PaymentListCommand.self, PaymentShowCommand.self, PaymentResolveCommand.self])
}

/// The options that the commands share: the admin socket, and the output format.
struct PaymentOptions: ParsableArguments {
    @Option(help: ArgumentHelp("The gateway's admin socket.", valueName: "path"), completion: .file())
    var socket = DaemonSocket.gatewayAdmin.defaultPath

    @OptionGroup var format: OutputOptions

    var connection: DaemonConnection { DaemonConnection(.gatewayAdmin, option: socket) }
}

/// The argument by which a command names a payment: its transactionId.
struct TransactionArgument: ParsableArguments {
    @Argument(help: ArgumentHelp("The payment's transactionId, 64 hexadecimal digits.", valueName: "id"))
    var transaction: String

    func validate() throws {
        guard Hexadecimal.decode(transaction)?.count == 32 else {
            throw ValidationError("A payment is named by its transactionId, 64 hexadecimal digits.")
        }
    }
}

struct PaymentListCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list", abstract: "Shows payments, the newest first.")

    @Option(help: ArgumentHelp("Only payments in this state; may be repeated.", valueName: "state"))
    var state: [String] = []

    @Option(help: ArgumentHelp("Only payments of this client.", valueName: "name"))
    var client: String?

    @Option(help: ArgumentHelp("Only payments received since this time (RFC 3339).", valueName: "time"))
    var since: String?

    @Option(help: ArgumentHelp("The maximum number, 1 to 1000.", valueName: "number"))
    var limit = 100

    @OptionGroup var width: WideOption
    @OptionGroup var options: PaymentOptions

    static let states = [
        "received", "decrypted", "submitting", "authorized", "captured", "declined", "error", "pending", "not_sent",
        "released", "refused",
    ]

    func validate() throws {
        for state in state where !Self.states.contains(state) {
            throw ValidationError("--state is one of \(Self.states.joined(separator: ", ")).")
        }
        guard (1...1000).contains(limit) else { throw ValidationError("--limit is a number from 1 to 1000.") }
        guard since.map({ RFC3339.date($0) != nil }) ?? true else {
            throw ValidationError("--since is a time as in 2026-05-03T12:00:00Z.")
        }
    }

    func run() async throws {
        let request = PaymentListRequest(
            client: client, states: state.isEmpty ? nil : state.joined(separator: ","),
            since: since.flatMap { RFC3339.date($0) }, limit: limit)
        let (list, bytes) = try await options.connection.post("/v1/payments/list", request, for: PaymentList.self)
        var table = Table(columns: [
            "RECEIVED", "STATE", "AMOUNT", Table.Column("CLIENT", importance: 4, shortening: .beginning),
            Table.Column("ORDER", importance: 3, shortening: .beginning),
            Table.Column("PROCESSOR", importance: 1, shortening: .beginning),
            // `payment show` needs the complete identifier; the list shows it if there is room, or with --wide.
            Table.Column("TRANSACTION", importance: 5, shortening: .beginning),
            Table.Column("REASON", importance: 2, shortening: .words),
        ])
        for payment in list.items {
            table.add([
                RFC3339.string(payment.receivedAt), payment.state, PaymentShowCommand.amount(payment) ?? "-",
                payment.client, payment.orderId ?? "-", payment.processor ?? "-", payment.transactionId ?? "-",
                payment.reason ?? "",
            ])
        }
        switch options.format.output {
        case .json: try Console.output(json: bytes)
        case .table where list.items.isEmpty:
            let isAny = client == nil && state.isEmpty && since == nil
            Console.error(isAny ? "There are no payments." : "No payment matches these conditions.")
        case .table: try Console.output(table, width)
        }
        if list.items.count == limit { Console.error("These are \(limit); there may be more (--limit).") }
    }
}

struct PaymentShowCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "show", abstract: "Shows one payment and its history.")

    @OptionGroup var payment: TransactionArgument
    @OptionGroup var options: PaymentOptions

    func run() async throws {
        let (payment, bytes) = try await options.connection.send(
            .get("/v1/payments/\(payment.transaction)"), for: PaymentSummary.self)
        try options.format.show(bytes, Self.text(payment))
    }

    static func amount(_ payment: PaymentSummary) -> String? {
        payment.amount.map { "\($0) \(payment.currency ?? "")" }
    }

    static func text(_ payment: PaymentSummary) -> String {
        let pairs: [(String, String?)] = [
            ("transaction", payment.transactionId), ("state", payment.state), ("amount", amount(payment)),
            ("client", payment.client), ("order", payment.orderId), ("purpose", payment.purpose),
            ("merchant", payment.merchantIdentifier), ("processor", payment.processor),
            ("authorization code", payment.authorizationCode), ("processor reference", payment.processorReference),
            ("reason", payment.reason), ("gateway", payment.gateway),
            ("received", RFC3339.string(payment.receivedAt)), ("changed", RFC3339.string(payment.changedAt)),
        ]
        var history = Table(columns: ["TIME", "STATE", "BY", "ATTEMPT", "REASON"])
        for change in payment.history ?? [] {
            history.add([RFC3339.string(change.at), change.state, change.by, change.attempt, change.reason ?? ""])
        }
        return Table(pairs: pairs.map { ($0.0, $0.1 ?? "-") }).text + (history.isEmpty ? "" : "\n" + history.text)
            + (contradiction(of: payment) ?? "")
    }

    /// Advice for a payment whose status contradicts the processor's response.
    private static func contradiction(of payment: PaymentSummary) -> String? {
        let answer = payment.history?.last {
            $0.reason?.hasPrefix(PaymentChange.contradiction) == true && $0.state != payment.state
        }
        return answer.map { answer in
            "\nAt \(RFC3339.string(answer.at)) the processor answered \(answer.state), but this payment is \(payment.state), "
                + "which stays and is what the client gets. Ask the processor which is right. "
                + "If it is \(answer.state), correct the order, and refund or void the payment there if necessary.\n"
        }
    }
}

struct PaymentResolveCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "resolve", abstract: "Resolves a pending payment; the person and the reason are recorded.",
        discussion:
            "Check the payment at the processor first: you cannot change the status later, and the client receives it.")

    @OptionGroup var payment: TransactionArgument
    @Option(
        help: ArgumentHelp(
            "The payment's outcome.", valueName: PaymentResolution.statuses.joined(separator: "|")))
    var status: String

    @OptionGroup var why: ReasonOption
    @OptionGroup var options: PaymentOptions

    func validate() throws {
        guard PaymentResolution.statuses.contains(status) else {
            throw ValidationError("--status is one of \(PaymentResolution.statuses.joined(separator: ", ")).")
        }
    }

    func run() async throws {
        let (payment, bytes) = try await options.connection.post(
            "/v1/payments/\(payment.transaction)/resolve", PaymentResolution(status: status, reason: why.reason),
            for: PaymentSummary.self)
        try options.format.show(bytes, PaymentShowCommand.text(payment))
    }
}
