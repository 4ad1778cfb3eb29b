// Test equipment: the command line of the simulated App Store Connect API, for soaks and demonstrations. The target
// PortalSimulator implements the simulator.

import ArgumentParser
import Crypto
import Foundation
import PortalSimulator
import ProductVersion
import TokenForge

@main
struct PortalSimulatorCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "portal-simulator",
        abstract: "Test equipment: plays Apple's App Store Connect API, the portal's web pages, and wallets.",
        discussion: """
            For tests and demonstrations only. It serves the API over TLS on a port of this host until its standard input \
            ends. The first line of its standard output is {"address":"127.0.0.1:PORT"}. Each line of standard input is a \
            command, and has one line of JSON as its answer, {"error":"…"} if it was refused:

              draw SEED READS                   draws the API's undocumented behaviour; a change is missing in at most READS lists
              limit COUNT                       the most certificates of a merchant; a key may get several
              late SECONDS                      how long late wallets use a replaced certificate
              interrupt KIND                    lostBefore, lostAfter or cutShort: the next request is interrupted so
              before METHOD act MERCHANT|ID     createOther, activate or revoke, directly before the next request with the method
              create MERCHANT CSR OUT           a person requests a certificate, and downloads it in DER
              activate ID, revoke ID            acts of a person
              mint MERCHANT COUNT               payment tokens for the certificates that wallets use now, late ones included
              certificates MERCHANT             the certificates as they are, whatever lists show
              changes, requests                 what happened so far, in order

            EXIT STATUS
              0   standard input ended
              1   the files cannot be read
              64  wrong usage
            """,
        version: "portal-simulator \(ProductVersion.current)")

    @Argument(help: ArgumentHelp("The authority's directory, made by token-forge.", valueName: "DIR"))
    var directory: String

    @Option(help: ArgumentHelp("The team's key, as App Store Connect offers it (PEM).", valueName: "FILE"))
    var key: String

    @Option(help: ArgumentHelp("The key's identifier.", valueName: "ID"))
    var keyId: String

    @Option(help: ArgumentHelp("The team's issuer.", valueName: "UUID"))
    var issuer: String

    @Option(help: ArgumentHelp("A certificate for api.appstoreconnect.apple.com (PEM).", valueName: "FILE"))
    var certificate: String

    @Option(help: ArgumentHelp("Its private key (PEM).", valueName: "FILE"))
    var privateKey: String

    @Option(
        help: ArgumentHelp(
            "A merchant's certificate that wallets use (PEM or DER); may be repeated.", valueName: "FILE"))
    var merchant: [String] = []

    func run() async throws {
        let team = try P256.Signing.PrivateKey(pemRepresentation: String(contentsOfFile: key, encoding: .utf8))
        let authority = try ForgeAuthority(directory: URL(filePath: directory))
        let simulator = try await PortalSimulator(
            key: .init(issuer: issuer, keyId: keyId, publicKey: team.publicKey), certificate: certificate,
            privateKey: privateKey, authority: authority)
        var merchants: [String: PortalSimulator.Merchant] = [:]
        for (number, file) in merchant.enumerated() {
            let content = try ForgePEM.file(file, label: "CERTIFICATE", "certificate")
            let merchant = try Merchant(certificate: content)
            merchants[
                merchant.identifier,
                default: .init(id: "MERCHANT\(10 + number)", identifier: merchant.identifier, certificates: [])
            ].certificates.append(
                .init(
                    id: "FIRST\(10 + number)", type: merchant.isEllipticCurve ? "APPLE_PAY" : "APPLE_PAY_RSA",
                    content: content, isActivated: true))
        }
        simulator.set(Array(merchants.values))
        try answer(["address": simulator.address])
        let console = Console(simulator: simulator, mint: TokenMint(authority: authority))
        while let line = readLine() {
            do { try answer(console.answer(line.split(separator: " ").map(String.init))) } catch {
                try answer(["error": "\(error)"])
            }
        }
        await simulator.stop()
    }

    private func answer(_ value: [String: Any]) throws {
        let json = try JSONSerialization.data(withJSONObject: value, options: [.sortedKeys, .withoutEscapingSlashes])
        try FileHandle.standardOutput.write(contentsOf: json + Data("\n".utf8))
    }
}

/// The commands of a running simulator.
struct Console {
    let simulator: PortalSimulator
    let mint: TokenMint

    struct Unknown: Error {}

    func answer(_ words: [String]) throws -> [String: Any] {
        let arguments = Array(words.dropFirst())
        switch (words.first, arguments.count) {
        case ("draw", 2):
            guard let seed = UInt64(arguments[0]), let most = Int(arguments[1]) else { throw Unknown() }
            simulator.draw(seed: seed)
            simulator.change {
                $0.readsWithoutNew = min($0.readsWithoutNew, most)
                $0.readsBeforeActivated = min($0.readsBeforeActivated, most)
            }
        case ("limit", 1):
            guard let limit = Int(arguments[0]) else { throw Unknown() }
            simulator.change { ($0.maximumCertificates, $0.takesKeyTwice) = (limit, true) }
        case ("late", 1):
            guard let seconds = Double(arguments[0]) else { throw Unknown() }
            simulator.change { $0.lateSeconds = seconds }
        case ("interrupt", 1):
            let kinds: [String: PortalSimulator.Interruption] = [
                "lostBefore": .lostBefore, "lostAfter": .lostAfter, "cutShort": .cutShort,
            ]
            guard let kind = kinds[arguments[0]] else { throw Unknown() }
            simulator.change { $0.interruptions.append(kind) }
        case ("before", 3):
            let act: PortalSimulator.Act
            switch arguments[1] {
            case "createOther": act = .createOther(merchant: arguments[2], type: "APPLE_PAY")
            case "activate": act = .activate(arguments[2])
            case "revoke": act = .revoke(arguments[2])
            default: throw Unknown()
            }
            simulator.change { $0.acts.append((arguments[0], act)) }
        case ("create", 3):
            let csr = try ForgePEM.file(arguments[1], label: "CERTIFICATE REQUEST", "PKCS#10 request")
            let made = try simulator.create("APPLE_PAY", csr, merchant: arguments[0])
            try Data(made.content).write(to: URL(filePath: arguments[2]))
            return ["id": made.id, "activated": made.isActivated as Any]
        case ("activate", 1): try simulator.activate(arguments[0])
        case ("revoke", 1): try simulator.revoke(arguments[0])
        case ("mint", 2): return ["paymentTokens": try minted(arguments[0], Int(arguments[1]) ?? 0)]
        case ("certificates", 1):
            let found = simulator.merchants.first { $0.identifier == arguments[0] }?.certificates ?? []
            return [
                "certificates": try found.map { certificate in
                    [
                        "id": certificate.id, "activated": certificate.isActivated as Any, "type": certificate.type,
                        "publicKeyHash": hex(try Merchant(certificate: certificate.content).publicKeyHash),
                    ]
                }
            ]
        case ("changes", 0):
            return [
                "changes": simulator.changes.map { change -> [String: Any] in
                    [
                        "time": change.time.timeIntervalSince1970, "kind": change.kind.rawValue, "id": change.id,
                        "publicKeyHash": hex(change.publicKeyHash), "byPerson": change.isByPerson,
                    ]
                }
            ]
        case ("requests", 0):
            return [
                "requests": simulator.requests.map { request -> [String: Any] in
                    [
                        "time": request.time.timeIntervalSince1970, "method": request.method, "target": request.target,
                        "status": request.status, "answered": request.isAnswered,
                    ]
                }
            ]
        default: throw Unknown()
        }
        return [:]
    }

    /// Payment tokens, each for one of the certificates that wallets use at this moment. One in ten is of a late wallet while
    /// there are some.
    private func minted(_ merchant: String, _ count: Int) throws -> [[String: Any]] {
        let used = try simulator.inUse(merchant).map { try Merchant(certificate: $0.content) }
        let late = try simulator.late.map { try Merchant(certificate: $0.content) }.filter { $0.identifier == merchant }
        return try (0..<count).compactMap { _ in
            let isLate = !late.isEmpty && Int.random(in: 0..<10) == 0
            guard let recipient = isLate ? late.randomElement() : used.randomElement() else { return nil }
            let made = try mint.mint(TokenRecipe(merchant: recipient, payload: PayloadRecipe(.threeDSecure).json))
            return [
                "publicKeyHash": hex(made.publicKeyHash), "late": isLate,
                "paymentToken": String(decoding: made.paymentToken, as: UTF8.self),
            ]
        }
    }

    private func hex(_ bytes: [UInt8]) -> String {
        bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
    }
}
