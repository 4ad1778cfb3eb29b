internal import StrictJSON

/// An event, with the members that only this event has.
///
/// Optional members are left out of the record if the request was refused before they were known.
public enum AuditEvent: Sendable, Equatable {
    /// A request to `POST /v1/decrypt`. The record contains only the SHA-256 of the reference.
    case decrypt(reference: AuditDigest?)
    /// A request to `POST /v1/google-pay/decrypt`. The record has the event `decrypt` too, with the member `wallet`.
    case decryptGooglePay(GooglePayDecryption)
    /// A request to `POST /v1/verify`.
    case verify
    /// A request to `POST /v1/google-pay/verify`. The record has the event `verify` too, with the member `wallet`.
    case verifyGooglePay
    /// A request to `POST /v1/tls-signatures`. The record contains only the SHA-256 of the signed bytes and of the
    /// reference.
    case tlsSignature(TLSSignatureDetails)
    /// A JSON Web Token for Apple's API was signed, or its signature was requested. The record does not contain the
    /// token.
    case jwtSignature(JWTSignatureDetails)
    /// The daemon had a key prove itself in the HSM token that the record names. `certificate` is the SHA-256, in DER,
    /// of the certificate for which the message was encrypted; nil if the key has none yet.
    case keyProof(certificate: AuditDigest?)
    /// A step of the renewal of a merchant's certificate at Apple. The record has the new key's publicKeyHash.
    case renewalStep(RenewalStepDetails)
    /// A request from an authorised caller that was refused before it reached an operation.
    case request
    /// Refused requests of one uid within one minute, counted in one record instead of being recorded individually.
    case refusals(RefusalSummary)

    case start(version: AuditText, programs: ProgramDigests = ProgramDigests())
    case stop
    /// The daemon read its own program, the worker's and the PKCS#11 libraries again. Recorded once a week.
    case programDigests(ProgramDigests)
    /// A worker opened an HSM token with another PKCS#11 library than the one recorded before. The record names the HSM
    /// token. A digest is nil if the file could not be read.
    case moduleChange(from: AuditDigest?, to: AuditDigest?)
    /// A worker generated key pairs for its self-tests. They remain in the HSM token that the record names.
    case testKeysCreate(count: Int)
    /// A caller removed stored key pairs of the self-tests from the HSM token that the record names. With a refusal,
    /// `count` is not nil only if the pairs were removed and the record of it was late.
    case testKeysRemove(count: Int?)
    /// The HSM token did not store the record's newest checkpoint. A later start then does not notice that the ledger
    /// is an older copy. Recorded once for each start of the daemon; the record names the HSM token.
    case headMemoryLost(HeadMemoryLoss)
    /// Recorded at start, with the SHA-256 of the configuration file.
    case configurationLoad(file: AuditDigest)
    /// Recorded at SIGHUP, with the SHA-256 of the configuration file. The digest is nil if the new configuration was
    /// refused.
    case configurationReload(file: AuditDigest?)
    /// Recorded after a load, and after a reload that changed something: the values in force, including defaults.
    case configurationValues(ConfigurationValuesPart)

    /// A private key was imported from a file; `certificate` is the SHA-256 of its certificate in DER.
    case keyImport(certificate: AuditDigest?, approval: ApprovalIdentifier?, key: KeyFacts? = nil)
    case keyGenerate(key: KeyFacts? = nil)
    case keyAdopt(approval: ApprovalIdentifier?, key: KeyFacts? = nil)
    case csrCreate
    /// A certificate was imported; `certificate` is its SHA-256 in DER.
    case certificateImport(certificate: AuditDigest?, key: KeyFacts? = nil)
    case keyStateChange(KeyStateChange)
    /// The daemon removed a key's objects from this node's HSM token, which the record names. The key had been
    /// destroyed earlier, on another node or while the HSM token was unavailable.
    case keyObjectsDestroy
    /// The daemon read a key's attributes from this node's HSM token, which the record names. Recorded the first time,
    /// and when the attributes differ from those that this node recorded last.
    case keyAttributes([RecordedKeyAttributes])
    /// A worker opened the HSM token that the record names. Recorded the first time, and when the description differs
    /// from the one that this node recorded last.
    case tokenAttributes(RecordedHSMToken)

    case approvalRequest(ApprovalRequest)
    case approvalDecision(approval: ApprovalIdentifier?, decision: ApprovalDecision, reason: AuditReason?)

    /// A caller listed records; `records` is their number. `ofNode` is another node's name or `all`; nil means this
    /// node. It has the same meaning in all events with `ofNode`.
    case auditList(records: Int?, ofNode: AuditText? = nil)
    /// A caller exported records; `first` and `last` are the first and last sequence that it requested.
    case auditExport(format: AuditExportFormat, first: Int?, last: Int?, ofNode: AuditText? = nil)
    case auditVerify(verdict: AuditVerificationVerdict?, records: Int?, ofNode: AuditText? = nil)
    case auditPublicKey(ofNode: AuditText? = nil)
    /// A caller read the newest checkpoint, to store it elsewhere.
    case auditHead(ofNode: AuditText? = nil)
    /// A caller requested an HSM token's own count of its keys' uses; the record names the HSM token.
    case auditTokenUses(since: AuditTime?, until: AuditTime?)
    /// A caller made the assessor's report from the record and this daemon's answers. The daemon did not see the page.
    case auditReport(ReportMade?)
    /// Another checkpoint key came into use; `to` is its keyId, and `from` that of its predecessor. If the predecessor is
    /// lost, it has sealed no `auditKeyPrepare`, so it does not endorse the key.
    case auditKeyChange(
        from: AuditDigest?, to: AuditDigest, reason: AuditReason?, approval: ApprovalIdentifier?,
        isFormerKeyLost: Bool = false)

    /// Another checkpoint key was generated. The current key seals this record before it is replaced, so that a
    /// verifier that trusts the current key can trust its successor.
    case auditKeyPrepare(from: AuditDigest, to: AuditDigest)
    /// From this record on, this node trusts keys that seal another node's record.
    case auditKeyPinned(KeyPin)
    /// The ledger lists a key for another node, but no trusted key of that node endorses it.
    case auditKeyConflict(node: AuditNode, key: CheckpointKey)

    /// The ledger was copied; `bytes` is the copy's size and `file` its SHA-256.
    case ledgerBackup(bytes: Int?, file: AuditDigest?)
    /// An administrator accepted an older ledger. The details contain the ledger's last sequence and the sequence
    /// that the HSM token remembered.
    case ledgerAcceptRestore(LedgerRestore)
    /// Claims older than `before` were removed.
    case claimsPrune(count: Int, before: AuditTime)
    /// Records of refusals could not be written and are lost: `count` is their number, and `since` the time of the
    /// first.
    case recordsDropped(count: Int, since: AuditTime)
    /// The oldest records were archived in a file, and will be removed from the ledger.
    case recordArchive(RecordArchive)
    /// Recorded with `recordArchive`: the states of the keys after the archived records.
    case keyStates(KeyStatesPart)
    /// An administrator confirmed that the clock is right. The ledger then ignores times that were recorded while the
    /// clock was wrong.
    case ledgerAcceptClock(LedgerClockAcceptance)

    /// The values of the member `event`. They are part of the public contract and never change.
    public enum Name: String, Sendable, CaseIterable {
        case decrypt
        case verify
        case tlsSignature = "tls_signature"
        case jwtSignature = "jwt_signature"
        case keyProof = "key_proof"
        case renewalStep = "renewal_step"
        case request
        case refusals
        case start
        case stop
        case programDigests = "program_digests"
        case moduleChange = "module_change"
        case testKeysCreate = "test_keys_create"
        case testKeysRemove = "test_keys_remove"
        case headMemoryLost = "head_memory_lost"
        case configurationLoad = "configuration_load"
        case configurationReload = "configuration_reload"
        case configurationValues = "configuration_values"
        case keyImport = "key_import"
        case keyGenerate = "key_generate"
        case keyAdopt = "key_adopt"
        case csrCreate = "csr_create"
        case certificateImport = "certificate_import"
        case keyStateChange = "key_state_change"
        case keyObjectsDestroy = "key_objects_destroy"
        case keyAttributes = "key_attributes"
        case tokenAttributes = "token_attributes"
        case approvalRequest = "approval_request"
        case approvalDecision = "approval_decision"
        case auditList = "audit_list"
        case auditExport = "audit_export"
        case auditVerify = "audit_verify"
        case auditPublicKey = "audit_public_key"
        case auditHead = "audit_head"
        case auditTokenUses = "audit_token_uses"
        case auditReport = "audit_report"
        case auditKeyChange = "audit_key_change"
        case auditKeyPrepare = "audit_key_prepare"
        case auditKeyPinned = "audit_key_pinned"
        case auditKeyConflict = "audit_key_conflict"
        case ledgerBackup = "ledger_backup"
        case ledgerAcceptRestore = "ledger_accept_restore"
        case claimsPrune = "claims_prune"
        case recordsDropped = "records_dropped"
        case recordArchive = "record_archive"
        case keyStates = "key_states"
        case ledgerAcceptClock = "ledger_accept_clock"
    }

    public var name: Name {
        switch self {
        case .decrypt, .decryptGooglePay: .decrypt
        case .verify, .verifyGooglePay: .verify
        case .tlsSignature: .tlsSignature
        case .jwtSignature: .jwtSignature
        case .keyProof: .keyProof
        case .renewalStep: .renewalStep
        case .request: .request
        case .refusals: .refusals
        case .start: .start
        case .stop: .stop
        case .programDigests: .programDigests
        case .moduleChange: .moduleChange
        case .testKeysCreate: .testKeysCreate
        case .testKeysRemove: .testKeysRemove
        case .headMemoryLost: .headMemoryLost
        case .configurationLoad: .configurationLoad
        case .configurationReload: .configurationReload
        case .configurationValues: .configurationValues
        case .keyImport: .keyImport
        case .keyGenerate: .keyGenerate
        case .keyAdopt: .keyAdopt
        case .csrCreate: .csrCreate
        case .certificateImport: .certificateImport
        case .keyStateChange: .keyStateChange
        case .keyObjectsDestroy: .keyObjectsDestroy
        case .keyAttributes: .keyAttributes
        case .tokenAttributes: .tokenAttributes
        case .approvalRequest: .approvalRequest
        case .approvalDecision: .approvalDecision
        case .auditList: .auditList
        case .auditExport: .auditExport
        case .auditVerify: .auditVerify
        case .auditPublicKey: .auditPublicKey
        case .auditHead: .auditHead
        case .auditTokenUses: .auditTokenUses
        case .auditReport: .auditReport
        case .auditKeyChange: .auditKeyChange
        case .auditKeyPrepare: .auditKeyPrepare
        case .auditKeyPinned: .auditKeyPinned
        case .auditKeyConflict: .auditKeyConflict
        case .ledgerBackup: .ledgerBackup
        case .ledgerAcceptRestore: .ledgerAcceptRestore
        case .claimsPrune: .claimsPrune
        case .recordsDropped: .recordsDropped
        case .recordArchive: .recordArchive
        case .keyStates: .keyStates
        case .ledgerAcceptClock: .ledgerAcceptClock
        }
    }
}

extension AuditEvent {
    /// The members specific to this event as a JSON object, equal to ``AuditEntry/details`` of its record unless the
    /// record has a trace or ``AuditRecord/hsmWasNotReached``.
    public var details: [UInt8] { JSONWriter.object { write(into: &$0) } }

    /// Writes the members specific to this event.
    func write(into writer: inout JSONWriter) {
        switch self {
        case .verify, .request, .stop, .csrCreate, .keyObjectsDestroy:
            break
        case .verifyGooglePay:
            writer.member("wallet", "google-pay")
        case .decrypt(let reference):
            writer.member("reference", reference?.hex)
        case .decryptGooglePay(let decryption):
            decryption.write(into: &writer)
        case .tlsSignature(let details):
            writer.member("algorithm", details.algorithm?.text)
            writer.member("inputSha256", details.input?.hex)
            writer.member("reference", details.reference?.hex)
        case .jwtSignature(let details):
            details.write(into: &writer)
        case .keyProof(let certificate):
            writer.member("certificateSha256", certificate?.hex)
        case .renewalStep(let details):
            details.write(into: &writer)
        case .refusals(let summary):
            writer.member("since", summary.since.text)
            writer.member("count", summary.total)
            writer.member("counts") { writer in
                for (code, count) in summary.counts.sorted(by: { $0.key.rawValue < $1.key.rawValue }) {
                    writer.member(code.rawValue, count)
                }
            }
        case .start(let version, let programs):
            writer.member("version", version.text)
            programs.write(into: &writer)
        case .programDigests(let programs):
            programs.write(into: &writer)
        case .moduleChange(let from, let to):
            writer.member("from", from?.hex)
            writer.member("to", to?.hex)
        case .testKeysCreate(let count):
            writer.member("count", count)
        case .testKeysRemove(let count):
            writer.member("count", count)
        case .headMemoryLost(let loss):
            writer.member("cause", loss.cause.rawValue)
            writer.member("message", loss.message.text)
        case .configurationLoad(let file):
            writer.member("fileSha256", file.hex)
        case .configurationReload(let file):
            writer.member("fileSha256", file?.hex)
        case .configurationValues(let part):
            part.write(into: &writer)
        case .keyImport(let certificate, let approval, let key):
            writer.member("certificateSha256", certificate?.hex)
            writer.member("approval", approval?.hex)
            key?.write(into: &writer)
        case .keyGenerate(let key):
            key?.write(into: &writer)
        case .keyAdopt(let approval, let key):
            writer.member("approval", approval?.hex)
            key?.write(into: &writer)
        case .certificateImport(let certificate, let key):
            writer.member("certificateSha256", certificate?.hex)
            key?.write(into: &writer)
        case .keyAttributes(let keys):
            writer.member("keys", objects: keys.prefix(RecordedKeyAttributes.maximumKeys)) { $0.write(into: &$1) }
        case .tokenAttributes(let hsmToken):
            hsmToken.write(into: &writer)
        case .keyStateChange(let change):
            writer.member("from", change.from?.rawValue)
            writer.member("to", change.to?.rawValue)
            writer.member("cutOff", change.cutOff?.text)
            writer.member("removedAt", change.removedAt?.text)
            writer.member("reason", change.reason?.text)
            writer.member("approval", change.approval?.hex)
        case .approvalRequest(let request):
            writer.member("approval", request.approval.hex)
            writer.member("operation", request.operation.rawValue)
            writer.member("parametersSha256", request.parameters.hex)
            writer.member("reason", request.reason?.text)
            writer.member("expires", request.expires.text)
        case .approvalDecision(let approval, let decision, let reason):
            writer.member("approval", approval?.hex)
            writer.member("decision", decision.rawValue)
            writer.member("reason", reason?.text)
        case .auditList(let records, let node):
            writer.member("ofNode", node?.text)
            writer.member("records", records)
        case .auditExport(let format, let first, let last, let node):
            writer.member("ofNode", node?.text)
            writer.member("format", format.rawValue)
            writer.member("first", first)
            writer.member("last", last)
        case .auditVerify(let verdict, let records, let node):
            writer.member("ofNode", node?.text)
            writer.member("verdict", verdict?.rawValue)
            writer.member("records", records)
        case .auditPublicKey(let node), .auditHead(let node):
            writer.member("ofNode", node?.text)
        case .auditTokenUses(let since, let until):
            writer.member("since", since?.text)
            writer.member("until", until?.text)
        case .auditReport(let report):
            report?.write(into: &writer)
        case .auditKeyChange(let from, let to, let reason, let approval, let isFormerKeyLost):
            writer.member("from", from?.hex)
            writer.member("to", to.hex)
            writer.member("reason", reason?.text)
            writer.member("approval", approval?.hex)
            writer.member("formerKey", isFormerKeyLost ? "lost" : nil)
        case .auditKeyPrepare(let from, let to):
            writer.member("from", from.hex)
            writer.member("to", to.hex)
        case .auditKeyPinned(let pin):
            pin.write(into: &writer)
        case .auditKeyConflict(let node, let key):
            writer.member("ofNode", node.name)
            key.write(into: &writer)
        case .ledgerBackup(let bytes, let file):
            writer.member("bytes", bytes)
            writer.member("fileSha256", file?.hex)
        case .ledgerAcceptRestore(let restore):
            writer.member("ledgerSequence", restore.ledgerSequence)
            writer.member("tokenSequence", restore.hsmTokenSequence)
            writer.member("servedFrom", restore.servedFrom?.text)
            writer.member("reason", restore.reason?.text)
            writer.member("approval", restore.approval?.hex)
        case .claimsPrune(let count, let before):
            writer.member("count", count)
            writer.member("before", before.text)
        case .recordsDropped(let count, let since):
            writer.member("since", since.text)
            writer.member("count", count)
        case .recordArchive(let archive):
            archive.write(into: &writer)
        case .keyStates(let part):
            part.write(into: &writer)
        case .ledgerAcceptClock(let clock):
            writer.member("newestRecord", clock.newestRecord?.text)
            writer.member("forgottenBefore", clock.forgottenBefore?.text)
            writer.member("servedFrom", clock.servedFrom?.text)
            writer.member("reason", clock.reason?.text)
            writer.member("approval", clock.approval?.hex)
        }
    }
}

/// A signature with a merchant's identity key for a TLS client, or the request for one.
public struct TLSSignatureDetails: Sendable, Equatable {
    /// The signature algorithm: `rsa_pss_rsae_sha256` or `rsa_pkcs1_sha256`; nil for any other.
    public var algorithm: AuditText?
    /// SHA-256 of the bytes to be signed. With PKCS #1 and PSS over SHA-256, this is the digest that is signed.
    public var input: AuditDigest?
    /// SHA-256 of the caller's reference.
    public var reference: AuditDigest?

    public init(algorithm: AuditText? = nil, input: AuditDigest? = nil, reference: AuditDigest? = nil) {
        self.algorithm = algorithm
        self.input = input
        self.reference = reference
    }
}
