import Foundation
import TestSupport

/// Runs the built paytokenctl as an operator would.
enum Command {
    static func paytokenctl(
        _ arguments: [String], socket: String? = nil, environment: [String: String] = [:], input: String = ""
    ) async throws -> ProgramResult {
        try await Program.run(
            Program.built("paytokenctl"), arguments + (socket.map { ["--socket", $0] } ?? []),
            environment: environment, input: Array(input.utf8))
    }
}

extension Command {
    /// Runs paytokenctl with its standard output on a pseudo-terminal of this width. A width of 0 means unknown.
    static func inTerminal(
        columns: Int, _ arguments: [String], socket: String, environment: [String: String] = [:]
    ) async throws -> ProgramResult {
        let terminal = """
            import fcntl, os, pty, struct, subprocess, sys, termios
            ours, theirs = pty.openpty()
            fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, int(sys.argv[1]), 0, 0))
            settings = termios.tcgetattr(theirs)
            settings[1] &= ~termios.OPOST
            termios.tcsetattr(theirs, termios.TCSANOW, settings)
            program = subprocess.Popen(sys.argv[2:], stdout=theirs)
            os.close(theirs)
            while True:
                try:
                    part = os.read(ours, 65536)
                except OSError:
                    break
                if not part:
                    break
                sys.stdout.buffer.write(part)
            sys.stdout.flush()
            sys.exit(program.wait())
            """
        return try await Program.run(
            "/usr/bin/python3",
            ["-c", terminal, String(columns), Program.built("paytokenctl")] + arguments + ["--socket", socket],
            environment: environment)
    }
}

extension Command {
    /// Runs paytokenctl with its standard input and standard error on a pseudo-terminal, and answers each of its questions.
    static func answering(
        _ answers: [String], _ arguments: [String], socket: String
    ) async throws -> ProgramResult {
        let terminal = """
            import os, pty, subprocess, sys
            ours, theirs = pty.openpty()
            answers = sys.argv[1].split(",")
            program = subprocess.Popen(sys.argv[2:], stdin=theirs, stderr=theirs)
            os.close(theirs)
            shown = b""
            while True:
                try:
                    part = os.read(ours, 65536)
                except OSError:
                    break
                if not part:
                    break
                shown += part
                while answers and shown.count(b"Type yes: ") > sys.argv[1].count(",") + 1 - len(answers):
                    os.write(ours, answers.pop(0).encode() + b"\\n")
            sys.stderr.buffer.write(shown)
            sys.exit(program.wait())
            """
        return try await Program.run(
            "/usr/bin/python3",
            ["-c", terminal, answers.joined(separator: ","), Program.built("paytokenctl")] + arguments
                + ["--socket", socket])
    }
}

/// Bodies of answers for the fake daemon.
enum Sample {
    static let hash = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
    static let hex = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
    static let transaction = String(repeating: "ab", count: 32)
    static let accountNumber = "4111111111111111"
    static let cryptogram = "AgAAAAAABjVXL3oAAAAAAAAAAAA="

    static let key = key(merchant: "merchant.com.example", notAfter: "2100-01-01T00:00:00Z", daysLeft: 26000)

    static func key(merchant: String, notAfter: String?, daysLeft: Int?, state: String = "active") -> String {
        """
        {"algorithm":"EC","condition":"served","daysLeft":\(daysLeft.map(String.init) ?? "null"),"lastUse":null,\
        "merchantIdentifier":"\(merchant)","notAfter":\(notAfter.map { "\"\($0)\"" } ?? "null"),\
        "publicKeyHash":"\(hash)","remark":null,"state":"\(state)","tier":"C","tokens":["primary"],"use":"processing",\
        "uses":7,\
        "addedLater":true}
        """
    }

    static func status(
        ready: Bool = true, importKey: String? = nil, condition: String = "ready", message: String? = nil
    ) -> String {
        let importKey = importKey.map { #","importKey":"\#($0)""# } ?? ""
        let message = message.map { #","message":"\#($0)""# } ?? ""
        let reasons =
            ready ? "" : #"{"component":"token/primary","code":"hsm_unavailable","message":"The token is absent."}"#
        return """
            {"version":"0.1.0","node":"backend-1","startedAt":"2026-01-31T12:00:00Z","ready":\(ready),\
            "reasons":[\(reasons)],"tokens":[{"name":"primary","condition":"\(condition)"\(message),\
            "label":"paytokend","serialNumber":"1a2b","manufacturer":"SoftHSM project","model":"SoftHSM v2","firmwareVersion":"2.6",\
            "library":"2.6","sessions":2,"tierECv1":"C","tierRSAv1":"C","pss":"worker",\
            "tlsAlgorithms":["rsa_pss_rsae_sha256","rsa_pkcs1_sha256"],"shortcomings":[],"keys":2\(importKey)}],\
            "ledger":{"engine":"sqlite","condition":"writable","schemaVersion":1},\
            "trust":{"roots":[],"distrusted":0,"signingTimeWindow":"5m"},"warnings":["One person approves alone."]}
            """
    }

    static let decrypted = """
        {"transactionId":"\(transaction)","merchantIdentifier":"merchant.com.example","publicKeyHash":"\(hash)",\
        "version":"EC_v1","signingTime":"2026-01-31T12:00:00Z","protection":"C","checked":["currencyCode"],\
        "repeated":false,"paymentData":{"applicationPrimaryAccountNumber":"\(accountNumber)",\
        "applicationExpirationDate":"300131","currencyCode":"840","transactionAmount":1099.0,\
        "deviceManufacturerIdentifier":"040010030273","paymentDataType":"3DSecure",\
        "paymentData":{"onlinePaymentCryptogram":"\(cryptogram)","eciIndicator":"7"}},\
        "audit":{"node":"backend-1","sequence":42}}
        """

    static let verified = """
        {"version":"EC_v1","transactionId":"\(transaction)","publicKeyHash":"\(hash)",\
        "signingTime":"2026-01-31T12:00:00Z","chain":[\(["leaf", "CA", "root"].map(certificate).joined(separator: ","))]}
        """

    static let verifiedGooglePay = """
        {"version":"ECv2","transactionId":"\(transaction)","merchantIdentifier":"BCR2","chain":[\
        {"notAfter":"2030-01-01T00:00:00Z","sha256":"\(String(repeating: "0e", count: 32))"},\
        {"notAfter":"2038-04-14T03:00:00Z","sha256":"\(String(repeating: "0f", count: 32))"}]}
        """

    private static func certificate(_ name: String) -> String {
        """
        {"subject":"CN=\(name)","issuer":"CN=above","serialNumber":"01","notBefore":"2020-01-01T00:00:00Z",\
        "notAfter":"2040-01-01T00:00:00Z","sha256":"\(String(repeating: "0f", count: 32))"}
        """
    }
}
