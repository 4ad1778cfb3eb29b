// The command line of the security team and of auditors. It sends requests to the daemon through its Unix sockets, and
// handles a private key only to seal it for the worker (key import). Only the worker uses PKCS#11 (token init runs it).
// Three commands open a ledger without the daemon: ledger create and ledger move, with the account of the database's
// owner, which the daemon must not have; and ledger restore, which replaces a stopped daemon's file with a copy.
//
//     Commands/     one type for each command, named as it is typed: KeyImportCommand is `key import`.
//                   CommandOptions.swift has the parts that they share: dry runs, requests for a change that may need a
//                   second person.
//     Connection/   the daemon's sockets, input files, signals; DaemonConnection is in CommandOutput
//     Metrics/      the server of `metrics serve`, the one command that keeps running
//     Output/       what people see: tables, masked payment data, new files, sentences about the next step
//
// Guarantees: results go to standard output and everything else to standard error. Every failure is a CommandFailure,
// or becomes one at the end (CommandFailures.swift), with one of the exit statuses of DaemonAPI's ErrorTable. Foreign
// text is made safe for a terminal (Printable) before it is shown. No request is repeated. Begin reading with `main`
// below, then read a command, such as KeyStateCommands.swift.

import ArgumentParser
import CommandOutput
import DaemonAPI
import ProductVersion

@main
struct Paytokenctl: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "paytokenctl",
        abstract: "Administers paytokend, and asks it to verify and decrypt Apple Pay payment tokens.",
        discussion: """
            Set up an HSM token and import a merchant's key:

              paytokenctl token init --module /usr/lib/softhsm/libsofthsm2.so \\
                  --label paytokend --so-pin-file so-pin --pin-file pin
              paytokenctl status
              paytokenctl key import --private-key key.pem --certificate merchant.cer
              paytokenctl key list

            Renew a merchant's key and certificate, without a failed payment:

              paytokenctl help rotate

            Decrypt a payment token that an iPhone or a browser sent:

              paytokenctl decrypt token.json --expect-currency 840 --expect-amount 1099

            Read the record of who used which key:

              paytokenctl audit list --since 24h
              paytokenctl audit verify

            Which socket: --socket PATH after the command; else PAYTOKEND_SOCKET (decrypt, verify) or \
            PAYTOKEND_ADMIN_SOCKET (all others); else /run/paytokend/paytokend.sock or /run/paytokend/admin.sock.

            Exit status: 0 done; 1 refused, with the daemon's code on standard error; 64 wrong usage; 66 a file \
            cannot be used; 69 daemon not reachable; 70 defect; 75 waiting for a second person, or try again later; \
            77 not permitted; 78 configuration. Results go to \
            standard output, all else to standard error.

            Completions for bash, zsh or fish, including keys, merchants and approvals: source <(paytokenctl \
            --generate-completion-script bash)
            """,
        version: "paytokenctl \(ProductVersion.current)",
        subcommands: [
            TokenCommand.self, KeyCommand.self, CSRCommand.self, CertificateCommand.self, RotateCommand.self,
            ApprovalCommand.self, DecryptCommand.self,
            VerifyCommand.self,
            AuditCommand.self, LedgerCommand.self, SessionCommand.self, TrustCommand.self, StatusCommand.self,
            ReloadCommand.self,
            MetricsCommand.self,
        ])

    static func main() async {
        do {
            try await runCommand()
        } catch let interruption as Interrupted {
            interruption.endProcess()
        } catch {
            endProcess(error)
        }
    }
}

struct TokenCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "token", abstract: "The PKCS#11 token that holds the merchants' keys.",
        subcommands: [TokenInitCommand.self, TokenTryCommand.self, TokenTestKeysCommand.self])
}

struct KeyCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "key", abstract: "The merchants' private keys.",
        subcommands: [
            KeyGenerateCommand.self, KeyImportCommand.self, KeyListCommand.self, KeyPublicKeyCommand.self,
            KeyShowCommand.self,
            KeyProveCommand.self,
            KeySuspendCommand.self, KeyResumeCommand.self,
            KeyRetireCommand.self,
            KeyCompromiseCommand.self, KeyDestroyCommand.self, KeyAdoptCommand.self,
        ])
}

struct ApprovalCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "approval", abstract: "The second person: operations that wait for one, and the decisions.",
        subcommands: [
            ApprovalListCommand.self, ApprovalApproveCommand.self, ApprovalRejectCommand.self,
            ApprovalWithdrawCommand.self,
        ])
}

struct CSRCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "csr", abstract: "Certificate requests for keys in the HSM token.",
        subcommands: [CSRCreateCommand.self])
}

struct RotateCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "rotate",
        abstract: "A merchant's change to a new key and certificate, step by step.",
        discussion: """
            Apple's certificates are valid for 25 months. In this order no payment fails:

              paytokenctl rotate start merchant.com.example --out new.csr
                  upload new.csr in Apple's developer portal, download the certificate
              paytokenctl rotate import apple_pay.cer
                  activate the certificate in the portal
              paytokenctl rotate status merchant.com.example
                  until the old key has opened no payment token for an hour
              paytokenctl rotate finish merchant.com.example

            Google Pay keys have no certificates. Google asks for a new key each year:

              paytokenctl rotate start BCR2DN4TEXAMPLE --wallet google-pay
              paytokenctl key prove NEW, on each host
                  add it in Google's console: paytokenctl key public-key NEW
              paytokenctl rotate added NEW
                  switch site and apps to it
              paytokenctl rotate status BCR2DN4TEXAMPLE
                  until the old key has opened no message for 30 days
                  remove it in Google's console
              paytokenctl rotate removed OLD

            The progress of a rotation is read from this host's keys and ledger each time, and stored nowhere else: \
            another person can continue on another day, and the single commands (key generate, csr create, certificate \
            import, key retire) do the same steps. Another host with its own ledger file is rotated separately. Hosts \
            that share a ledger in PostgreSQL share the rotation; each host with its own HSM tokens needs the new key \
            in them.
            """,
        subcommands: [
            RotateStartCommand.self, RotateImportCommand.self, RotateStatusCommand.self, RotateFinishCommand.self,
            RotateAddedCommand.self, RotateRemovedCommand.self,
            RotateCheckCommand.self, RotatePlanCommand.self, RotateRenewCommand.self,
        ])
}

struct CertificateCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "certificate", abstract: "Apple's certificates for the merchants' keys.",
        subcommands: [CertificateImportCommand.self])
}

struct AuditCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "audit", abstract: "The record of who used which key when, and its verification.",
        subcommands: [
            AuditListCommand.self, AuditVerifyCommand.self, AuditExportCommand.self, AuditHeadCommand.self,
            AuditReportCommand.self, AuditPublicKeyCommand.self, AuditChangeKeyCommand.self,
        ])
}

struct LedgerCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "ledger", abstract: "The daemon's store of released transactions, records and keys.",
        subcommands: [
            LedgerCreateCommand.self, LedgerMoveCommand.self, LedgerBackupCommand.self, LedgerRestoreCommand.self,
            LedgerAcceptRestoreCommand.self, LedgerAcceptClockCommand.self,
        ])
}
